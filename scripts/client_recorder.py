"""A listener between clients and a broker: it passes all bytes on, and records what each client id requested."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from featuregate.catalog import API_NAMES
from featuregate.testing.fakes.listener import LoopThread
from featuregate.wire.api_versions import ApiVersionsRequest
from featuregate.wire.frames import FrameReader, read_request_header

if TYPE_CHECKING:
    from collections.abc import Callable

APIS = {ApiVersionsRequest.API_KEY: ApiVersionsRequest}
HEADER = struct.Struct(">hhih")
LARGEST_REQUEST = 100 * 2**20
SOFTWARE_FROM = 3
"""The first version of ApiVersions that names the software (KIP-511)."""


class Recorder:
    """Listens on ports of this machine, until ``close()``."""

    def __init__(self) -> None:
        self.sent: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        """By client id: the API key and the version of each request."""
        self.software: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """By client id: the name and the version of the software."""
        self._loop = LoopThread("recorder")
        self._servers: list[asyncio.Server] = []

    def listen(self, target: Callable[[], int]) -> int:
        """Open a port in front of another port, which is asked for at each connection; return it."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._pass_on(reader, writer, target())

        server = self._loop.run(asyncio.start_server(connected, "127.0.0.1", 0))
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop to listen, and close all connections."""
        for server in self._servers:
            self._loop.loop.call_soon_threadsafe(server.close)
        self._loop.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        frames = FrameReader(LARGEST_REQUEST)

        async def requests() -> None:
            while data := await reader.read(65536):
                for payload in frames.feed(data):
                    self._record(payload)
                to_broker.write(data)
                await to_broker.drain()

        async def responses() -> None:
            while data := await from_broker.read(65536):
                writer.write(data)
                await writer.drain()

        ways = [asyncio.ensure_future(requests()), asyncio.ensure_future(responses())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for open_end in (writer, to_broker):
                open_end.close()
                with suppress(OSError):
                    await open_end.wait_closed()

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
