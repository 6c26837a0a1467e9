"""Clients that send nothing, too slowly or too much, or that do not read: their connections end."""

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import trustme
from doc_pages import ROOT
from relay_on_socket import serving
from waiting import eventually

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay import limits
from featuregate_relay.connections import Connections
from featuregate_relay.flags.ofrep import _MOST_BYTES as MOST_OF_FLAGS
from featuregate_relay.limits import LimitedProtocol, make_loop

BOUND = 60.0
SOON = 0.3
PATH = "/v1/clusters/default/view"
WHOLE = f"GET {PATH} HTTP/1.1\r\nHost: relay\r\n\r\n".encode()
LIMITS = "featuregate_relay.limits"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A relay."""
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        yield url


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=BOUND) as client:
        yield client


def read_to_the_end(client: socket.socket) -> bytes:
    """Read until the relay closes the connection; a reset is an end, too."""
    received = b""
    with suppress(ConnectionError):
        while piece := client.recv(65536):
            received += piece
    return received


def closes_while_sending(client: socket.socket, piece: bytes) -> bool:
    """Send the piece again and again, until the connection is closed."""
    deadline = time.monotonic() + BOUND
    client.settimeout(SOON / 10)
    while time.monotonic() < deadline:
        try:
            client.sendall(piece)
            if client.recv(65536) == b"":
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


@pytest.mark.parametrize(
    "start", [b"", b"GET / HT", b"\r\n", WHOLE[:-2], b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\na"]
)
def test_a_request_that_does_not_come_in_time_ends_the_connection(
    url: str, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that stays silent from the connect on holds nothing, either."""
    monkeypatch.setattr(f"{LIMITS}.RECEIVE_SECONDS", SOON)
    with connected(url) as client:
        client.sendall(start)
        assert b" 200 " not in read_to_the_end(client)


@pytest.mark.parametrize(
    "start", [WHOLE[:-2], b"POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nContent-Length: 60000\r\n\r\n"]
)
def test_trickled_bytes_do_not_prolong_the_time(url: str, start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow-loris sends a header line now and then; so can a body come."""
    monkeypatch.setattr(f"{LIMITS}.RECEIVE_SECONDS", SOON)
    with connected(url) as client:
        client.sendall(start)
        assert closes_while_sending(client, b"a: b\r\n")


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise anybody could fill the log with tracebacks."""
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        for path in ("flags", "flags/groups"):
            with connected(url) as client:
                client.sendall(f"POST /ofrep/v1/evaluate/{path} HTTP/1.1\r\nContent-Length: 9\r\n\r\n{{".encode())
        assert requests.get(f"{url}/healthz", timeout=BOUND).status_code == 200
    assert [record for record in caplog.records if record.name.startswith("uvicorn") and record.exc_info] == []


def test_the_time_counts_again_for_the_next_request(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn's own timer for idle connections ends with the first byte."""
    monkeypatch.setattr(f"{LIMITS}.RECEIVE_SECONDS", SOON)
    with connected(url) as client:
        client.sendall(WHOLE + WHOLE[:20])
        assert read_to_the_end(client).count(b"HTTP/1.1 200 OK") == 1


def test_the_time_is_that_of_the_request_and_not_of_the_response(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long poll may last longer than the time for a request."""
    monkeypatch.setattr(f"{LIMITS}.RECEIVE_SECONDS", SOON)
    with connected(url) as client:
        client.sendall(f"GET {PATH}?wait=1 HTTP/1.1\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n".encode())
        assert read_to_the_end(client).startswith(b"HTTP/1.1 304 ")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 400_000, 431),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9_000 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", 413),
        (b"POST /nothing HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n40000\r\n" + b"a" * 0x40000, 413),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        (b"\x16\x03\x01\x00", 400),
        (b"GET / HTTP/9\r\n\r\n", 400),
    ],
)
def test_a_request_that_is_too_large_or_none_is_refused(url: str, request_bytes: bytes, status: int) -> None:
    """It is never held whole in memory."""
    with connected(url) as client:
        with suppress(ConnectionError):
            client.sendall(request_bytes)
        answer = read_to_the_end(client)
    assert answer == b"" or answer.startswith(f"HTTP/1.1 {status} ".encode()) or b" 404 " in answer
    assert requests.get(f"{url}/healthz", timeout=BOUND).status_code == 200


def test_a_body_that_never_ends_ends_the_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the response has begun, and takes no notice of the body: a stream of events."""
    monkeypatch.setattr(f"{LIMITS}.RECEIVE_SECONDS", 10 * BOUND)
    head = f"GET {PATH.replace('view', 'events')} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(url) as client:
        client.sendall(head.encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        assert closes_while_sending(client, b"4000\r\n" + b"a" * 0x4000 + b"\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 17_000 + b"\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", 413),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_a_refused_client_is_told_why(url: str, request_bytes: bytes, status: int) -> None:
    """Where nothing that it has sent is left unread."""
    with connected(url) as client:
        client.sendall(request_bytes)
        assert read_to_the_end(client).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    "refused",
    [
        b"GET / HTTP/1.1\r\nA: " + b"a" * 17_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"a" * 40_000,
        b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n40000\r\n" + b"a" * 0x40000,
        b"nonsense\r\n\r\n",
        WHOLE * (limits.MOST_PIPELINED + 1),
    ],
)
def test_an_error_is_no_answer_to_the_request_before(url: str, refused: bytes) -> None:
    """A client takes the first response for that to the first request, which still waits."""
    with connected(url) as client:
        with suppress(ConnectionError):
            client.sendall(f"GET {PATH}?wait=30 HTTP/1.1\r\nIf-None-Match: *\r\n\r\n".encode() + refused)
        assert read_to_the_end(client) == b""


def test_a_wait_ends_with_its_connection_also_where_other_requests_have_followed(url: str) -> None:
    """And writes nothing to a connection that is gone, which would be an error in the log."""
    with connected(url) as client:
        waits = f"GET {PATH}?wait=30 HTTP/1.1\r\nIf-None-Match: *\r\n\r\n".encode()
        client.sendall(waits + WHOLE * (limits.MOST_PIPELINED + 1))
        assert read_to_the_end(client) == b""
    eventually(lambda: waiting(url) == 0, within=BOUND / 4)


def waiting(url: str) -> int:
    """Return how many requests wait for a view."""
    lines = requests.get(f"{url}/metrics", timeout=BOUND).text.splitlines()
    return next(int(float(line.split()[1])) for line in lines if "requests_waiting{" in line)


def test_an_old_connection_ends_with_its_next_response(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that clients come to replicas that have started since."""
    monkeypatch.setattr(f"{LIMITS}.AGE_SECONDS", 0.0)
    with connected(url) as client:
        client.sendall(WHOLE)
        answer = read_to_the_end(client)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer


@pytest.mark.parametrize(("drawn", "age"), [(0.0, 300.0), (1.0, 240.0)])
def test_connections_of_one_moment_end_at_different_ages(
    drawn: float, age: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After four to five minutes: clients that came together would go on coming together."""
    monkeypatch.setattr(f"{LIMITS}.SystemRandom", lambda: SimpleNamespace(random=lambda: drawn))
    ahead = [0.0]

    class LaterLoop:
        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            self._loop = loop

        def __getattr__(self, name: str) -> Any:
            return getattr(self._loop, name)

        def time(self) -> float:
            return self._loop.time() + ahead[0]

    class Aging(LimitedProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.loop = LaterLoop(self.loop)  # type: ignore[assignment]  # what it does not have, the loop has
            self.timeout_keep_alive = int(2 * BOUND)

    monkeypatch.setattr("relay_on_socket.LimitedProtocol", Aging)
    with serving({"default": StaticFeatures()}) as url, closing(HTTPConnection(url.removeprefix("http://"))) as client:
        ends = []
        for ahead[0] in (0.0, age - BOUND / 2, age):
            client.request("GET", "/healthz")
            response = client.getresponse()
            assert response.read()
            ends.append(response.will_close)
    assert ends == [False, False, True]


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the relay would keep its response. The view is larger than the buffers of the kernel."""
    monkeypatch.setattr(f"{LIMITS}.SEND_SECONDS", SOON)
    view = release_view("4.2")
    (broker,) = view.brokers
    large = replace(view, brokers=tuple(replace(broker, node_id=number) for number in range(1000)))
    lost = Event()

    class Observed(LimitedProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr("relay_on_socket.LimitedProtocol", Observed)
    with serving({"default": StaticFeatures(large)}) as url, connected(url) as client:
        client.sendall(WHOLE)
        assert lost.wait(BOUND)  # the kernel of the client learns of it with its next read


def test_requests_that_do_not_wait_for_responses_are_bounded(url: str) -> None:
    """uvicorn would read thousands of them with each response."""
    with connected(url) as client:
        with suppress(ConnectionError):
            client.sendall(WHOLE * 5000)
        assert read_to_the_end(client).count(b"HTTP/1.1 200 OK") < 100


def test_a_few_requests_at_a_time_are_all_answered(url: str) -> None:
    """The responses have the order of the requests."""
    with connected(url) as client:
        client.sendall(WHOLE * 3 + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = read_to_the_end(client)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.endswith(b'{"status":"ok"}')


class InBytes(LimitedProtocol):
    """Gets each byte in a segment of its own."""

    def data_received(self, data: bytes) -> None:
        for byte in data:
            super().data_received(bytes([byte]))


def java_request(body: bytes, *headers: str) -> bytes:
    """Return a request as Java's client sends it: it asks for HTTP/2 with each."""
    lines = (
        "POST /ofrep/v1/evaluate/flags/level.group.version HTTP/1.1",
        "Host: relay",
        "Connection: Upgrade, HTTP2-Settings",
        "HTTP2-Settings: AAEAAEAAAAIAAAAA",
        "Upgrade: h2c",
        *headers,
    )
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize("protocol", [LimitedProtocol, InBytes])
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (java_request(b'{"context": {}}', "Content-Length: 15"), b"200"),
        (java_request(b'f\r\n{"context": {}}\r\n0\r\n\r\n', "Transfer-Encoding: chunked"), b"200"),
        (java_request(b"", "Content-Length: 0"), b"400"),
    ],
)
def test_a_request_for_another_protocol_is_answered_in_this_one(
    protocol: type[LimitedProtocol], request_bytes: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its body, also of requests that follow on each other, and wherever segments end."""
    monkeypatch.setattr("relay_on_socket.LimitedProtocol", protocol)
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url, connected(url) as client:
        client.sendall(request_bytes * 3 + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert re.findall(rb"HTTP/1.1 (\d+) ", read_to_the_end(client)) == [status] * 3 + [b"200"]


def test_a_tunnel_is_refused(url: str) -> None:
    """CONNECT asks for another protocol without a header that says so."""
    with connected(url) as client:
        client.sendall(b"CONNECT relay:80 HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n" + b"x" * 9)
        assert b" 200 " not in read_to_the_end(client)


def test_the_page_says_the_limits_as_they_are() -> None:
    """The other tests of this module shorten them."""
    text = (ROOT / "docs/explanation/relay.md").read_text().partition("## Limits of a connection\n")[2]
    told = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", text.partition("\n## ")[0], re.MULTILINE)
    assert told == [
        "value",
        f"{limits.RECEIVE_SECONDS:g} s",
        f"{limits.HEAD_BYTES // 1024} KiB",
        f"{limits.BODY_BYTES // 1024} KiB; {MOST_OF_FLAGS // 1024} KiB for flags",
        f"{limits.MOST_PIPELINED}",
        f"{limits.SEND_SECONDS:g} s",
        "4 to 5 minutes",  # see above
    ]


def test_a_client_that_says_nothing_to_tls_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop as it comes would wait for a minute."""
    monkeypatch.setattr(f"{LIMITS}.RECEIVE_SECONDS", SOON)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    class Waiting(asyncio.Protocol):
        open_connections = Connections(1)

    async def silent() -> bytes:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Waiting, "127.0.0.1", 0, ssl=context)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                return await asyncio.wait_for(reader.read(), BOUND / 2)
            finally:
                writer.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(silent()) == b""
