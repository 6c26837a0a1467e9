"""One connection, and a peer that sends bytes without a request."""

import asyncio
import contextlib
import errno
import socket
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featuregate.config import Address, Settings
from featuregate.errors import ConnectFailed, ConnectionLost, FeatureGateError, RemoteWireError, TimedOut, UnknownHost
from featuregate.loops.short_loop import ShortLoop
from featuregate.net.asyncio_carrier import AsyncioCarrier
from featuregate.net.connection import Connection
from featuregate.net.dial import dial
from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.cluster import Node
from featuregate.wire.frames import write_response
from featuregate.wire.metadata import MetadataRequest, MetadataResponse
from featuregate.wire.session import Disconnected, ExpectedNode, Session


async def negotiated(address, settings, identity=None):
    """Open a connection, negotiate and close it."""
    with await Connection.open(address, settings, identity) as connection:
        return await connection.negotiate()


@pytest.fixture
def negotiate(in_each_loop):
    """Return `negotiated` for each loop."""

    async def run(address, settings, identity=None):
        return await in_each_loop(negotiated(address, settings, identity))

    return run


def saying(data):
    """Return a peer that answers its first byte with these bytes, and closes the connection."""

    async def talk(reader, writer):
        await reader.read(1)
        writer.write(data)
        await writer.drain()
        await reader.read(1)
        writer.close()

    return talk


def answer_of(response, version=0, correlation_id=0):
    """Return a frame that answers the first request."""
    return write_response(response, version, correlation_id)


GOOD = answer_of(ApiVersionsResponse(error_code=0, api_ranges={18: (0, 5)}, supported={"f": (0, 1)}), 5)


async def test_negotiation_gives_what_the_node_says(serve, settings_for, fake_node, negotiate):
    node = fake_node()
    address = await serve(node)
    negotiated = await negotiate(address, settings_for(address))
    assert negotiated.response.api_ranges == node.api_ranges
    assert negotiated.version == 4
    assert [version for _, version in node.asked] == [5, 4]


async def test_a_request_goes_out_in_the_newest_common_version(serve, settings_for, fake_node):
    node = fake_node({3: (0, 9), 18: (0, 3)})
    answer = MetadataResponse(brokers=(Node(node_id=1, host="h", port=1),), cluster_id="c")
    node.says[MetadataRequest] = lambda *_: answer
    address = await serve(node)
    with await Connection.open(address, settings_for(address)) as connection:
        await connection.negotiate()
        assert await connection.request(MetadataRequest()) == answer
    assert node.asked[-1][1] == 9


async def test_invariant_7_a_silent_peer_costs_one_timeout(serve, settings_for, silent, negotiate):
    """A 0.9 broker never answers ApiVersions; the error names the request that timed out."""
    address = await serve(silent)
    with pytest.raises(TimedOut, match=r"timed out while waiting for ApiVersions: no answer within 0.05 s"):
        await negotiate(address, settings_for(address, request_timeout=0.05))


async def test_invariant_7_a_peer_that_drips_costs_one_timeout(serve, settings_for, negotiate):
    """The timeout limits the whole response, not each byte of it."""

    async def drip(reader, writer):
        writer.write((60_000).to_bytes(4, "big"))
        while not writer.is_closing():
            writer.write(b"\0")
            await writer.drain()
            await asyncio.sleep(0.001)

    address = await serve(drip)
    with pytest.raises(TimedOut):
        await negotiate(address, settings_for(address, request_timeout=0.1))


async def test_invariant_7_a_listener_that_does_not_accept_costs_one_timeout(settings_for):
    """The queue of the listener is full, so the system drops the connection requests."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)  # noqa: FBT003 - the socket module's signature
            filler.connect_ex(listener.getsockname())
        address = Address(*listener.getsockname())
        with pytest.raises(TimedOut, match="while connecting"):
            await Connection.open(address, settings_for(address, connect_timeout=0.1))


async def test_a_peer_that_hangs_up_at_any_byte_is_a_lost_connection(serve, settings_for, negotiate):
    for end in range(len(GOOD)):
        address = await serve(saying(GOOD[:end]))
        with pytest.raises(ConnectionLost, match="while waiting for ApiVersions"):
            await negotiate(address, settings_for(address))


async def test_a_whole_answer_counts_although_the_peer_hangs_up(serve, settings_for, negotiate):
    address = await serve(saying(GOOD))
    assert (await negotiate(address, settings_for(address))).response.supported == {"f": (0, 1)}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS listener"),
        (b"\x7f\xff\xff\xff", "more than the limit of 1048576"),
        (b"\xff\xff\xff\xff", "negative length"),
        (answer_of(ApiVersionsResponse(error_code=0, api_ranges={}), 5, correlation_id=9), "correlation_id"),
        (GOOD[:4] + GOOD[4:8] + b"\xff" * (len(GOOD) - 8), "ApiVersionsResponse v5"),
    ],
)
async def test_bytes_that_make_no_sense_are_the_peers_fault(serve, settings_for, data, says, negotiate):
    address = await serve(saying(data))
    with pytest.raises(RemoteWireError, match=says):
        await negotiate(address, settings_for(address))


async def test_the_frame_cap_is_the_callers(serve, settings_for, negotiate):
    address = await serve(saying((2000).to_bytes(4, "big")))
    with pytest.raises(RemoteWireError, match="limit of 1024"):
        await negotiate(address, settings_for(address, max_frame=1024))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(data=st.binary(max_size=64))
def test_invariant_7_any_bytes_are_an_answer_or_an_error_of_ours(data):
    async def main():
        server = await asyncio.start_server(saying(data), "127.0.0.1", 0)
        async with server:
            address = Address(*server.sockets[0].getsockname())
            with contextlib.suppress(FeatureGateError):
                await negotiated(address, replace(Settings.parse(str(address)), request_timeout=30))

    asyncio.run(main())


async def test_a_closed_port_is_a_failed_connect(closed_port, settings_for):
    with pytest.raises(ConnectFailed) as caught:
        await Connection.open(closed_port, settings_for(closed_port))
    assert str(caught.value) == f"{closed_port}: failed while connecting: Connection refused"


async def test_a_socket_that_fails_after_tcp_is_a_failed_connect(serve, settings_for, silent):
    """Only a connection with TLS fails in a handshake."""

    def fails():
        raise OSError(errno.ENOTCONN, "")

    address = await serve(silent)
    with pytest.raises(ConnectFailed, match="failed while connecting"):
        await asyncio.to_thread(ShortLoop().run, dial(address, settings_for(address), fails))


@pytest.mark.parametrize("host", ["nowhere.invalid", "x" * 300, "a..b", "nul\0l"])
async def test_a_host_without_an_address_is_a_failed_connect(settings_for, host):
    """A broker may advertise any text as its host, also text that can never be a name."""
    with pytest.raises(UnknownHost, match="while resolving the name"):
        await Connection.open(Address(host, 9092), settings_for("a:1"))


@pytest.mark.parametrize(
    "address", [Address("127.0.0.1", 0), Address("127.0.0.1", -1), Address("h", 70000), Address("", 1)]
)
async def test_an_address_that_cannot_be_is_a_failed_connect(settings_for, address):
    """The connection refuses the address before it opens a socket."""
    with pytest.raises(ConnectFailed, match="not an address that a broker can listen on"):
        await Connection.open(address, settings_for("a:1"))


async def test_every_address_of_a_name_is_tried(serve, settings_for, fake_node, negotiate):
    address = await serve(fake_node())
    assert await negotiate(Address("localhost", address.port), settings_for(address))


async def test_an_ipv6_literal_is_an_address(serve, settings_for, fake_node, negotiate):
    address = await serve(fake_node(), host="::1")
    assert await negotiate(address, settings_for(address))


async def test_the_address_family_is_the_callers(serve, settings_for, fake_node):
    address = await serve(fake_node())
    with pytest.raises(ConnectFailed):
        await Connection.open(address, settings_for(address, config={"broker.address.family": "v6"}))


async def test_a_lost_connection_says_what_a_plain_listener_may_have_wanted(serve, settings_for, negotiate):
    """A Kafka listener closes the connection of a client with another security.protocol."""
    address = await serve(saying(b""))
    with pytest.raises(ConnectionLost, match=r"does this listener speak TLS\? See security.protocol"):
        await negotiate(address, settings_for(address))


@pytest.mark.parametrize(
    ("answers", "expected", "guess"),
    [(0, None, True), (1, None, False), (0, ExpectedNode("c", 1), False)],
    ids=["first request", "after an answer", "after the broker list"],
)
async def test_authentication_is_guessed_only_where_nothing_needed_it_before(
    serve, settings_for, fake_node, answers, expected, guess
):
    """A node is expected only by its cluster's broker list, which a listener that wants a login does not give."""
    node = fake_node()
    left = [MetadataResponse(brokers=(Node(node_id=1, host="h", port=1),))] * answers
    node.says[MetadataRequest] = lambda *_: left.pop() if left else None
    address = await serve(node)
    with await Connection.open(address, settings_for(address), expected) as connection:
        await connection.negotiate()
        for _ in range(answers):
            await connection.request(MetadataRequest())
        with pytest.raises(ConnectionLost) as caught:
            await connection.request(MetadataRequest())
    assert ("authentication" in str(caught.value)) is guess


async def test_closing_tells_the_peer_and_may_be_done_twice(serve, settings_for, fake_node):
    gone = asyncio.Event()

    async def talk(reader, writer):
        await reader.read()
        gone.set()

    address = await serve(talk)
    connection = await Connection.open(address, settings_for(address))
    connection.close()
    connection.close()
    await gone.wait()


async def test_a_connection_that_is_lost_stays_lost(serve, settings_for, fake_node):
    node = fake_node()
    node.says[MetadataRequest] = lambda *_: None
    address = await serve(node)
    with await Connection.open(address, settings_for(address)) as connection:
        await connection.negotiate()
        for _ in range(2):
            with pytest.raises(FeatureGateError):
                await connection.request(MetadataRequest())


class FakeTransport(asyncio.Transport):
    """A transport that counts how often it is paused and resumed."""

    def __init__(self):
        super().__init__()
        self.paused = self.resumed = 0

    def pause_reading(self):
        self.paused += 1

    def resume_reading(self):
        self.resumed += 1


def carrier():
    """Return a carrier on a fake transport."""
    made = AsyncioCarrier(Session(client_id="c", software=("s", "1")))
    transport = FakeTransport()
    made.connection_made(transport)
    return made, transport


async def test_invariant_7_the_carrier_pauses_a_peer_that_was_not_asked():
    made, transport = carrier()
    made.data_received(b"\0")
    assert transport.paused == 1


async def test_a_wait_resumes_reading():
    made, transport = carrier()
    made.data_received(b"\0")
    wait = asyncio.ensure_future(made.event())
    await asyncio.sleep(0)
    made.data_received(b"\0")
    assert (transport.paused, transport.resumed) == (1, 1)
    made.connection_lost(None)
    assert await wait == Disconnected()


async def test_after_the_end_every_wait_is_over_at_once():
    made, _ = carrier()
    made.connection_lost(None)
    assert [await made.event() for _ in range(2)] == [Disconnected()] * 2
