"""Whatever a client sends, and however it is cut into segments: a connection holds little, and ends."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relay_connection import MOST_HELD, Connection, cut

from featuregate_relay.limits import BODY_BYTES, HEAD_BYTES

SEGMENT = 256 * 1024
"""The most that uvloop reads at a time."""
MOST = HEAD_BYTES + BODY_BYTES
CHUNKED = b"POST /x HTTP/1.1\r\nHost: relay\r\nTransfer-Encoding: chunked\r\n\r\n"


ENDLESS = {
    "trailers": (CHUNKED + b"0\r\n", b"a: b\r\n"),
    "one trailer": (CHUNKED + b"0\r\na: ", b"a"),
    "the name of a trailer": (CHUNKED + b"0\r\n", b"a"),
    "trailers after a body": (CHUNKED + b"1\r\na\r\n0\r\n", b"Content-Length: 1\r\n"),
    "trailers that ask for an upgrade": (CHUNKED + b"0\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n"),
    "a chunk extension": (CHUNKED + b"5;a", b"a"),
    "the extension of the last chunk": (CHUNKED + b"0;a=", b"a"),
    "a quoted chunk extension": (CHUNKED + b'5;a="', b"a"),
    "tiny chunks": (CHUNKED, b"1\r\na\r\n"),
    "tiny chunks with extensions": (CHUNKED, b"1;a=b\r\na\r\n"),
    "digits of a chunk": (CHUNKED, b"0"),
    "a large chunk": (CHUNKED + b"ffffff\r\n", b"a"),
    "empty lines": (b"", b"\r\n"),
    "a method": (b"", b"GET"),
    "a path": (b"GET /", b"a"),
    "a query": (b"GET /?", b"a=b&"),
    "fields": (b"GET / HTTP/1.1\r\n", b"a: b\r\n"),
    "empty fields": (b"GET / HTTP/1.1\r\n", b"a:\r\n"),
    "one field": (b"GET / HTTP/1.1\r\na: ", b"a"),
    "blanks of a field": (b"GET / HTTP/1.1\r\na:", b" "),
    "lengths": (b"POST / HTTP/1.1\r\n", b"Content-Length: 5\r\n"),
    "a body": (b"POST / HTTP/1.1\r\nContent-Length: 131073\r\n\r\n", b"a"),
    "an upgrade": (
        b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 131072\r\n\r\n",
        b"a: b\r\n",
    ),
}


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("size", [211, SEGMENT])
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_request_without_an_end_ends_the_connection(kind: str, size: int, *, answers: bool) -> None:
    """Every byte counts: of the head, of the body, of chunks, and of trailers."""
    beginning, piece = ENDLESS[kind]

    async def send() -> int:
        connection = Connection(answers=answers)
        sent = 0
        whole = beginning + piece * (4 * SEGMENT // len(piece))
        for segment in cut(whole, size):
            await connection.send(segment)
            sent += len(segment)
            assert connection.held <= 2 * MOST
            if connection.transport.closed:
                break
        connection.end()
        return sent

    assert asyncio.run(send()) <= MOST + SEGMENT


def test_trailers_are_dropped() -> None:
    """Otherwise a trailer would be a header field of the request: credentials, or a length."""

    async def asked() -> list[dict[str, Any]]:
        connection = Connection()
        await connection.send(
            CHUNKED, b"3\r\nabc\r\n0\r\n", b"X-API-Key: other\r\nExpect: 100-continue\r\n", b"\r\n", b""
        )
        assert b"100 Continue" not in connection.transport.data
        connection.end()
        return connection.asked

    fields = [(b"host", b"relay"), (b"transfer-encoding", b"chunked")]
    assert asyncio.run(asked()) == [{"headers": fields, "body": b"abc"}]


@pytest.mark.parametrize("size", [211, SEGMENT])
@pytest.mark.parametrize(("over", "status"), [(0, b"200"), (1, b"413")])
@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_a_body_has_its_bound_exactly(coding: str, size: int, over: int, status: bytes) -> None:
    """The largest body is read, and one byte more is not."""

    async def answer(request: bytes) -> bytes:
        connection = Connection()
        await connection.send(*cut(request, size), b"")
        await asyncio.sleep(0)
        connection.end()
        return connection.transport.data

    body = b"a" * (BODY_BYTES + over)
    chunked = CHUNKED + b"%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (len(body), body)
    plain = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    request = plain if coding == "length" else chunked
    assert asyncio.run(answer(request)).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("over", "closed"), [(-1, False), (0, True)])
def test_requests_that_wait_share_the_bound_of_a_body(over: int, *, closed: bool) -> None:
    """Requests behind one that is not answered yet have no more together than one may have alone."""

    async def send() -> bool:
        connection = Connection(answers=False)
        await connection.send(b"GET / HTTP/1.1\r\n\r\n")
        half = BODY_BYTES // 2
        for size in (half, half + 1 + over):
            await connection.send(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size, b"a" * size)
        ended = connection.transport.closed
        connection.end()
        return ended

    assert asyncio.run(send()) is closed


PIECES = st.sampled_from(
    [
        *(beginning for beginning, _ in ENDLESS.values()),
        *(piece for _, piece in ENDLESS.values()),
        *(piece * 3000 for _, piece in ENDLESS.values()),
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"5\r\nabcde\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"Expect: 100-continue\r\n",
        b"Content-Length: 70000\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01",
    ]
)


@given(
    pieces=st.lists(st.one_of(PIECES, PIECES, st.binary(max_size=20)), max_size=30),
    size=st.sampled_from([1, 3, 100, 1400, 65536]),
    answers=st.booleans(),
)
def test_no_request_holds_more_than_the_limits(pieces: list[bytes], size: int, *, answers: bool) -> None:
    """Also of requests that are no requests: no error leaves the protocol, and the connection holds little."""
    if size < 100:
        pieces = [piece[:2000] for piece in pieces]

    async def send() -> None:
        connection = Connection(answers=answers)
        for segment in cut(b"".join(pieces), size):
            await connection.send(segment)
            assert connection.held <= MOST_HELD
        connection.end()

    asyncio.run(send())
