"""A listener between clients and a broker: it passes all bytes on, and records what each client id requested."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from client_offers import Offer, offered

from featuregate.catalog import API_NAMES
from featuregate.testing.fakes.listener import LoopThread
from featuregate.wire.api_versions import ApiVersionsRequest
from featuregate.wire.frames import FrameReader, frame, read_correlation_id, read_request_header

APIS = {ApiVersionsRequest.API_KEY: ApiVersionsRequest}
HEADER = struct.Struct(">hhih")
LARGEST_REQUEST = 100 * 2**20
SOFTWARE_FROM = 3
"""The first version of ApiVersions that names the software (KIP-511)."""


class Offering:
    """What one connection offers to its client."""

    def __init__(self, offer: Offer | None) -> None:
        self._offer = offer
        self._asked: dict[int, int] = {}
        self._frames = FrameReader(LARGEST_REQUEST)

    def answers(self, request: bytes) -> bool:
        """Note a request; return False for one that a broker answers by closing the connection."""
        if self._offer is None:
            return True
        key, version, correlation_id, _ = HEADER.unpack_from(request)
        if key == ApiVersionsRequest.API_KEY:
            self._asked[correlation_id] = version
        return key != ApiVersionsRequest.API_KEY or self._offer.end is not None

    def changed(self, data: bytes) -> bytes:
        """Return bytes of the broker, in whole frames, with the offer in answers to ApiVersions."""
        if self._offer is None:
            return data
        return b"".join(self._of(payload, self._offer) for payload in self._frames.feed(data))

    def _of(self, payload: bytes, offer: Offer) -> bytes:
        asked = self._asked.pop(read_correlation_id(payload), None)
        return frame(payload) if asked is None else offered(payload, asked, offer)


async def _end(ways: list[asyncio.Task[None]], writers: tuple[asyncio.StreamWriter, ...]) -> None:
    """End both ways of a connection. Each part is closed before the first await, which may be cancelled."""
    for way in ways:
        way.cancel()
    for writer in writers:
        writer.close()
    await asyncio.gather(*ways, return_exceptions=True)
    for writer in writers:
        with suppress(OSError):
            await writer.wait_closed()


class Recorder:
    """Listens on ports of this machine, until ``close()``."""

    def __init__(self) -> None:
        self.sent: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        """By client id: the API key and the version of each request."""
        self.software: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """By client id: the name and the version of the software."""
        self._loop = LoopThread("recorder")
        self._servers: list[asyncio.Server] = []
        self._passing: set[asyncio.Task[None]] = set()

    def listen(self, target: Callable[[], int], offer: Offer | None = None) -> int:
        """Open a port in front of another port, which is asked for at each connection; return it.

        With an ``offer``, clients of this port see its API versions in place of the broker's.
        """

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            passing = asyncio.ensure_future(self._pass_on(reader, writer, target(), Offering(offer)))
            self._passing.add(passing)
            passing.add_done_callback(self._passing.discard)
            passing.add_done_callback(lambda _: writer.transport.abort())  # it may be cancelled before it begins

        server = self._loop.run(asyncio.start_server(connected, "127.0.0.1", 0))
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop to listen, and close all connections."""
        self._loop.run(self._stop_listening())
        self._loop.close()

    async def _stop_listening(self) -> None:
        for listening in (each for server in self._servers for each in server.sockets):
            asyncio.get_running_loop().remove_reader(listening)
        await asyncio.sleep(0)  # what is accepted begins: a server that is closed before loses it
        for server in self._servers:
            server.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, offering: Offering
    ) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        frames = FrameReader(LARGEST_REQUEST)

        async def requests() -> None:
            while data := await reader.read(65536):
                for payload in frames.feed(data):
                    self._record(payload)
                    if not offering.answers(payload):
                        return
                to_broker.write(data)
                await to_broker.drain()

        async def responses() -> None:
            while data := await from_broker.read(65536):
                writer.write(offering.changed(data))
                await writer.drain()

        ways = [asyncio.ensure_future(requests()), asyncio.ensure_future(responses())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(ways, (writer, to_broker))

    def _record(self, payload: bytes) -> None:
        """Record one request. A token after SaslHandshake 0 has no header, and no key of an API in its place."""
        if len(payload) < HEADER.size:
            return
        key, version, _, length = HEADER.unpack_from(payload)
        if key not in API_NAMES or length > len(payload):
            return
        client_id = payload[HEADER.size : HEADER.size + max(length, 0)].decode(errors="replace")
        self.sent[client_id].add((key, version))
        if key == ApiVersionsRequest.API_KEY and version >= SOFTWARE_FROM:
            _, body = read_request_header(payload, APIS)
            found = ApiVersionsRequest.decode(min(version, ApiVersionsRequest.VERSIONS[1]), body)
            self.software[client_id].add((found.client_software_name, found.client_software_version))
