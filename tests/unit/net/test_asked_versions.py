"""Peers that close the connection on newer versions of ApiVersions, in place of error 35."""

import asyncio
import socket
import struct

import pytest

from featuregate.config import Address
from featuregate.errors import ConnectionLost, RemoteWireError, TimedOut
from featuregate.net.connection import AskedVersions, new_connection, open_negotiated
from featuregate.net.kept_connections import KeptConnections

HERE = Address("h", 9092)
RESET = struct.pack("ii", 1, 0)


class Closing:
    """A listener that closes the connection on ApiVersions above a version, and counts what it was asked."""

    def __init__(self, fake, above, *, how="close", says=b""):
        self.fake, self.above, self.how, self.says = fake, above, how, says
        self.asked = []

    async def __call__(self, reader, writer):
        while True:
            length = int.from_bytes(await reader.readexactly(4))
            payload = await reader.readexactly(length)
            version = int.from_bytes(payload[2:4])
            if payload[:2] == b"\0\x12":
                self.asked.append(version)
                if version > self.above:
                    break
            writer.write(self.fake._answer(payload))
        if self.how == "silence":
            await reader.read()
        if self.how == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.write(self.says)


async def negotiated(address, settings, versions=None):
    """Open a connection as a probe does, close it, and return what was negotiated."""
    async with new_connection(address, settings, None, versions) as (_, found):
        return found


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(("above", "asked"), [(3, [5, 3]), (4, [5, 3]), (2, [5, 3, 0]), (0, [5, 3, 0])])
async def test_a_close_without_a_byte_leads_to_v3_and_then_to_v0(serve, settings_for, fake_node, how, above, asked):
    """Each older version is asked for once, on a connection of its own."""
    listener = Closing(fake_node({18: (0, 3)}), above, how=how)
    address = await serve(listener)
    found = await negotiated(address, settings_for(address))
    assert listener.asked == asked
    assert found.version == asked[-1]


BROKEN = (ConnectionLost, RemoteWireError)


@pytest.mark.parametrize(
    ("above", "then", "error", "words", "asked"),
    [
        # three connections, and the error of the newest version
        (-1, {}, ConnectionLost, "does this listener speak TLS", [5, 3, 0]),
        # a peer that is slow may know the version: it is asked once
        (3, {"how": "silence"}, TimedOut, "timed out", [5]),
        # a peer that has begun to answer did not refuse the version by closing
        *(
            (3, {"says": says}, BROKEN, ".", [5])
            for says in (b"\0", b"\0\0\0\4\0\0", b"HTTP/1.1 400 Bad Request\r\n\r\n")
        ),
    ],
)
async def test_what_is_no_refusal_leads_to_no_other_version(
    serve, settings_for, fake_node, above, then, error, words, asked
):
    listener = Closing(fake_node(), above, **then)
    address = await serve(listener)
    with pytest.raises(error, match=words):
        await negotiated(address, settings_for(address, request_timeout=0.1 if then.get("how") else 5.0))
    assert listener.asked == asked


async def test_a_timeout_after_a_close_ends_the_search(serve, settings_for, fake_node):
    """The first close leads to v3; the timeout there leads to no other version."""
    listener = Closing(fake_node(), 2)

    async def talk(reader, writer):
        listener.how = "silence" if listener.asked else "close"
        await listener(reader, writer)

    address = await serve(talk)
    with pytest.raises(TimedOut):
        await negotiated(address, settings_for(address, request_timeout=0.1))
    assert listener.asked == [5, 3]


async def test_the_version_is_remembered_for_the_address(serve, settings_for, fake_node):
    """The next connection asks for the version that was answered, and for no other."""
    listener = Closing(fake_node({18: (0, 3)}), 3)
    address = await serve(listener)
    versions = AskedVersions()
    for _ in range(3):
        assert (await negotiated(address, settings_for(address), versions)).version == 3
    assert listener.asked == [5, 3, 3, 3]
    assert versions.closed_on_newer == {address: 3}


async def test_a_connection_that_is_kept_asks_for_the_remembered_version_again(serve, settings_for, fake_node):
    """Also where the peer lists newer versions, on which it would close the connection."""
    listener = Closing(fake_node({18: (0, 5)}), 3)
    address = await serve(listener)
    kept = KeptConnections()
    for _ in range(3):
        async with kept.connect(address, settings_for(address)) as (_, found):
            assert found.version == 3
    kept.close()
    assert listener.asked == [5, 3, 3, 3]


async def test_error_35_is_followed_on_the_same_connection(serve, settings_for, fake_node):
    """A peer that refuses as Kafka does is not remembered."""
    node = fake_node({18: (0, 3)})
    address = await serve(node)
    versions = AskedVersions()
    assert (await negotiated(address, settings_for(address), versions)).version == 3
    assert versions.closed_on_newer == {}


async def test_a_cancelled_attempt_closes_its_connection(serve, settings_for, silent):
    """A caller that gives up leaves no connection."""
    address = await serve(silent)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await open_negotiated(address, settings_for(address), None)


def test_an_address_is_asked_for_the_newest_version_again_after_ten_minutes() -> None:
    """A service that was updated, or a broker that was only restarting, is found."""
    now = [0.0]
    versions = AskedVersions(clock=lambda: now[0])
    versions.answered(HERE, 3)
    now[0] = 600.0
    assert list(versions.to_try(HERE)) == [3, 0]
    now[0] = 600.1
    assert list(versions.to_try(HERE)) == [5, 3, 0]
    versions.answered(HERE, 5)
    assert versions.closed_on_newer == {}


def test_answers_do_not_extend_the_ten_minutes() -> None:
    """Otherwise a peer that is polled each minute would never be asked again."""
    now = [0.0]
    versions = AskedVersions(clock=lambda: now[0])
    versions.answered(HERE, 3)
    now[0] = 599.0
    versions.answered(HERE, 3)
    now[0] = 601.0
    assert versions.newest(HERE) == 5


def test_an_address_that_answers_no_version_is_forgotten() -> None:
    """The next connection begins with the newest version."""
    versions = AskedVersions()
    versions.answered(HERE, 0)
    assert list(versions.to_try(HERE)) == [0]
    versions.forget(HERE)
    assert versions.newest(HERE) == 5


def test_only_addresses_of_the_last_poll_are_remembered() -> None:
    """A peer that lists other addresses each time does not fill the memory."""
    versions = AskedVersions()
    for port in range(1, 100):
        versions.answered(Address("h", port), 3)
    versions.keep({Address("h", 7), HERE})
    assert versions.closed_on_newer == {Address("h", 7): 3}
