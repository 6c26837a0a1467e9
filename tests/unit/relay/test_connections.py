"""Silent sockets cannot take the descriptors that polls need: the oldest one makes room for a new connection."""

import resource
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from relay_on_socket import serving

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.connections import Connections, most_connections

BOUND = 30.0
MOST = 8
GET = b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n"
STREAM = b"GET /v1/clusters/default/events HTTP/1.1\r\nHost: relay\r\n\r\n"
PART = b"POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: relay\r\nContent-Length: 9\r\n\r\n{"
"""Its head is whole, and its body never comes."""


class Relay:
    """A relay on a socket, and clients of it."""

    def __init__(self, url: str, client_tls: ssl.SSLContext | None, opened: ExitStack) -> None:
        host, port = url.partition("://")[2].split(":")
        self._address = (host, int(port))
        self._tls = client_tls
        self._opened = opened

    def keep_open(self, opened: ExitStack) -> None:
        """Let the clients to come outlive the relay."""
        self._opened = opened

    def silent(self) -> socket.socket:
        """Connect, and send nothing, not even a handshake."""
        return self._opened.enter_context(closing(socket.create_connection(self._address, timeout=BOUND)))

    def client(self) -> socket.socket:
        """Connect, and end the handshake, if there is one."""
        raw = self.silent()
        return self._opened.enter_context(self._tls.wrap_socket(raw, server_hostname="127.0.0.1")) if self._tls else raw

    def answer(self, request: bytes = GET) -> bytes:
        """Return the first bytes of the response to a new client."""
        return answer(self.client(), request)


def answer(client: socket.socket, request: bytes) -> bytes:
    client.sendall(request)
    return client.recv(65536)


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of a connection, after what is left of a response. A reset is an end, too."""
    with suppress(ConnectionError):
        while client.recv(65536):
            continue
    return True


@pytest.fixture(params=["http", "https"])
def relay(request: pytest.FixtureRequest) -> Iterator[Relay]:
    """A relay that takes eight connections."""
    with relay_with(Connections(MOST), tls=request.param == "https") as relay:
        yield relay


@contextmanager
def relay_with(connections: Connections, *, tls: bool) -> Iterator[Relay]:
    server_tls = client_tls = None
    if tls:
        authority = trustme.CA()
        server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(server_tls)
        client_tls = ssl.create_default_context()
        authority.configure_trust(client_tls)
    features = {"default": StaticFeatures(release_view("4.2"))}
    with serving(features, tls=server_tls, connections=connections) as url, ExitStack() as opened:
        yield Relay(url, client_tls, opened)


def test_the_oldest_silent_sockets_make_room(relay: Relay) -> None:
    """A client is answered, however many sockets say nothing, with TLS before the handshake."""
    silent = [relay.silent() for _ in range(3 * MOST)]
    assert b" 200 " in relay.answer()
    assert all(is_closed(each) for each in silent[: 2 * MOST + 1])
    silent[-1].settimeout(0)
    with pytest.raises(BlockingIOError):
        silent[-1].recv(1)


@pytest.mark.parametrize("start", [GET[:-2], PART])
def test_a_request_that_is_not_whole_is_silent(relay: Relay, start: bytes) -> None:
    """Whether its head or its body is late."""
    late = [relay.client() for _ in range(MOST)]
    for each in late:
        each.sendall(start)
    assert b" 200 " in relay.answer()
    assert is_closed(late[0])


def test_a_stream_is_kept_amid_silent_sockets(relay: Relay) -> None:
    """It is older than they are; a connection is silent again after its response."""
    stream, kept = relay.client(), relay.client()
    assert b" 200 " in answer(stream, STREAM)
    assert b" 200 " in answer(kept, GET)
    for _ in range(3 * MOST):
        relay.silent()
    assert b" 200 " in relay.answer()
    assert is_closed(kept)
    stream.settimeout(0)
    with suppress(BlockingIOError, ssl.SSLWantReadError):
        while piece := stream.recv(65536):
            continue
        assert piece != b""


def test_a_new_connection_is_closed_where_no_other_one_is_silent(relay: Relay) -> None:
    """Streams of clients are not closed for it."""
    for _ in range(MOST):
        assert b" 200 " in relay.answer(STREAM)
    assert is_closed(relay.silent())


class Closable:
    """A transport that notes its end."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_connections_are_counted_until_they_are_closed() -> None:
    """A connection counts once; what is not counted any more cannot become silent or busy."""
    connections = Connections(2)
    transports: list[Any] = [Closable() for _ in range(4)]
    connections.opened("a", transports[0])
    connections.opened("a", transports[0])
    connections.is_busy("a")
    connections.opened("a", transports[0])
    connections.opened("b", transports[1])
    connections.opened("c", transports[2])
    assert [each.aborted for each in transports] == [False, True, False, False]
    connections.closed("b")
    connections.is_busy("b")
    connections.is_silent("b")
    connections.is_silent("a")
    connections.opened("d", transports[3])
    assert [each.aborted for each in transports] == [False, True, True, False]
    connections.closed("a")
    connections.opened("e", transports[1])
    assert not transports[3].aborted


@pytest.mark.parametrize(
    ("soft", "most"), [(60, 1), (80, 16), (1024, 768), (65536, 49152), (resource.RLIM_INFINITY, sys.maxsize)]
)
def test_a_quarter_of_the_descriptors_is_for_polls(monkeypatch: pytest.MonkeyPatch, soft: int, most: int) -> None:
    """Of the limit that holds, which is the soft one."""
    system = SimpleNamespace(getrlimit=lambda _: (soft, soft), RLIMIT_NOFILE=None, RLIM_INFINITY=resource.RLIM_INFINITY)
    monkeypatch.setattr("featuregate_relay.connections.resource", system)
    assert most_connections() == most


@pytest.mark.parametrize("tls", [False, True])
def test_an_idle_client_does_not_delay_the_end(tls: bool, caplog: pytest.LogCaptureFixture) -> None:  # noqa: FBT001
    """It does not answer the end of TLS, and takes nothing of the time for requests that are under way."""
    with ExitStack() as outlives:
        with relay_with(Connections(MOST), tls=tls) as relay:
            relay.keep_open(outlives)
            idle = relay.client()
            assert b" 200 " in answer(idle, GET)
        assert "timeout graceful shutdown exceeded" not in caplog.text
        assert is_closed(idle)
