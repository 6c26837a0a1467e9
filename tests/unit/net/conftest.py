"""Listeners on the loopback interface that answer what a test sets."""

import asyncio
import contextlib
import struct
from dataclasses import replace

import pytest

from featuregate.config import Address, Settings
from featuregate.loops.short_loop import ShortLoop
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.frames import frame, read_request_header, write_response
from featuregate.wire.metadata import MetadataRequest
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse

REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        DescribeClusterRequest,
        MetadataRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}
BROKER_APIS = {0: (0, 13), 3: (0, 13), 17: (0, 1), 18: (0, 4), 36: (0, 2), 60: (0, 2)}


async def read_frame(reader):
    """Read one frame, without its length."""
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


class FakeNode:
    """A node that answers what a test puts into `says`, and keeps the requests in `asked`."""

    def __init__(self, api_ranges=None):
        self.api_ranges = BROKER_APIS if api_ranges is None else api_ranges
        self.asked = []
        self.says = {
            ApiVersionsRequest: lambda *_: ApiVersionsResponse(error_code=0, api_ranges=self.api_ranges),
            SaslHandshakeRequest: lambda *_: SaslHandshakeResponse(mechanisms=("PLAIN",)),
        }
        self.bare_token = None
        """Answers a bare SASL token; None closes the connection."""

    async def __call__(self, reader, writer):
        """Answer requests until the client closes the connection."""
        bare = False
        while True:
            payload = await read_frame(reader)
            if bare:
                answer = frame(reply) if (reply := self.bare_token(payload)) is not None else None
            else:
                answer = self._answer(payload)
            if answer is None:
                return
            bare = bare or (isinstance(self.asked[-1][0], SaslHandshakeRequest) and self.asked[-1][1] == 0)
            writer.write(answer)
            await writer.drain()

    def _answer(self, payload):
        header, body = read_request_header(payload, REQUESTS)
        request_class, version = REQUESTS[header.api_key], header.api_version
        if request_class is ApiVersionsRequest and version > self.api_ranges[18][1]:
            self.asked.append((None, version))
            refusal = ApiVersionsResponse(error_code=35, api_ranges={18: self.api_ranges[18]})
            return write_response(refusal, 0, header.correlation_id)
        request = request_class.decode(version, body)
        self.asked.append((request, version))
        response = self.says[request_class](request, version)
        if response is None or isinstance(response, bytes):
            return response
        return write_response(response, version, header.correlation_id)


@pytest.fixture
def fake_node():
    """Return the class `FakeNode`, since test modules cannot import from here."""
    return FakeNode


@pytest.fixture(params=["asyncio", "short loop"])
def in_each_loop(request):
    """Run a coroutine in the loop of the test; and, in a test of its own, in a short loop beside it."""

    async def run(work):
        return await work if request.param == "asyncio" else await asyncio.to_thread(ShortLoop().run, work)

    return run


@pytest.fixture
async def serve():
    """Start a listener that runs a coroutine for each connection, and return its address."""
    servers, tasks, writers = [], set(), set()

    async def start(talk, *, tls=None, host="127.0.0.1"):
        async def guarded(reader, writer):
            tasks.add(asyncio.current_task())
            writers.add(writer)
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await talk(reader, writer)
            writer.close()

        server = await asyncio.start_server(guarded, host, 0, ssl=tls)
        servers.append(server)
        return Address(host, server.sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()
    for writer in writers:
        writer.transport.abort()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for server in servers:
        await server.wait_closed()


@pytest.fixture
def settings_for():
    """Make settings for listeners, with long timeouts unless a test gives shorter ones."""

    def make(*addresses, broker_list="cluster", config=None, **bounds):
        properties = {"bootstrap.servers": ",".join(map(str, addresses)), **(config or {})}
        bounds = {"connect_timeout": 30, "request_timeout": 30, "total_timeout": 60} | bounds
        return replace(Settings.parse(properties, broker_list=broker_list), **bounds)

    return make


@pytest.fixture
async def closed_port():
    """Return an address at which no process listens."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return address


async def silence(reader, writer):
    """Accept the connection, read, and send nothing."""
    await reader.read()


@pytest.fixture
def silent():
    """Return a peer that sends nothing."""
    return silence
