"""Connections of `requests` that another thread can abort. Imported with the first request."""

from __future__ import annotations

import socket
import ssl
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import requests
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from urllib3 import PoolManager

_IDEMPOTENT: Final = {"GET", "HEAD", "OPTIONS"}
_ENDED: Final = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""What a request meets on a connection that the peer has ended; http.client adds `RemoteDisconnected`."""


class AbortableAdapter(HTTPAdapter):
    """An adapter whose requests end at once when another thread calls :meth:`abort`.

    A thread that waits for a response waits in the socket. Only the socket's end wakes it, and `requests` shows no
    socket before there is a response.
    """

    def __init__(self) -> None:
        self.aborted = False
        """Whether its requests have been ended; those that come fail, too."""
        self._sockets: weakref.WeakKeyDictionary[socket.socket, None] = weakref.WeakKeyDictionary()
        self.connects = 0
        """How often it has begun to open a connection."""
        super().__init__()

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Send a request; once more on a new connection, where a kept one had just ended (RFC 9110, 9.2.2).

        The peer ends a connection that is idle for some seconds, perhaps in the moment of the next request.
        """
        connects = self.connects
        try:
            return super().send(request, *args, **options)
        except requests.ConnectionError as error:
            kept = 0 < connects == self.connects
            if not kept or self.aborted or request.method not in _IDEMPOTENT or not _has_ended(error):
                raise
        return super().send(request, *args, **options)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the connections of direct requests."""
        super().init_poolmanager(*args, **options)
        self.follow(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """Make the connections of requests through a proxy."""
        manager = super().proxy_manager_for(proxy, **options)
        self.follow(manager)
        return manager

    def close(self) -> None:
        """Close the connections that are idle. urllib3 leaves that to the garbage collector."""
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            for key in manager.pools.keys():  # noqa: SIM118 - not a dict: it has no iterator
                if (pool := manager.pools.get(key)) is not None:
                    pool.close()
        super().close()

    def abort(self) -> None:
        """Shut every socket down: the requests on them fail as if the peer had closed the connection."""
        self.aborted = True
        for reference in self._sockets.keyrefs():  # a list, whatever another thread connects meanwhile
            if (connected := reference()) is not None:
                _shut_down(connected)

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Abort what is not done after this many seconds. A timeout of `requests` begins again with each byte."""
        limit = threading.Timer(seconds, self.abort)
        limit.daemon = True
        limit.start()
        try:
            yield
        finally:
            limit.cancel()

    def connected(self, sock: socket.socket) -> None:
        """Follow a socket that has been opened."""
        self._sockets[sock] = None
        if self.aborted:  # meanwhile: either this sees it, or abort() sees the socket
            _shut_down(sock)

    def follow(self, manager: PoolManager) -> None:
        """Follow the sockets of a manager that a subclass makes."""
        manager.pool_classes_by_scheme = {
            scheme: _following(pool, self) for scheme, pool in manager.pool_classes_by_scheme.items()
        }


class DirectSession(requests.Session):
    """A session that follows no redirect: to learn where one leads, `requests` reads its body, of any size."""

    def __init__(self, adapter: AbortableAdapter) -> None:
        super().__init__()
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Say that no response is a redirect."""


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # closed meanwhile
        # Not that of ssl.SSLSocket, which would drop the TLS state under the reader's feet.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _has_ended(error: Exception) -> bool:
    """Say whether the connection ended before there was an answer."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, _ENDED):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _following(pool: Any, adapter: AbortableAdapter) -> Any:
    """Return the class of a pool whose connections show their sockets to the adapter."""
    if hasattr(pool, "following"):  # the manager of a proxy is kept, and comes again
        return pool

    class AbortableConnection(pool.ConnectionCls):  # type: ignore[misc]  # of HTTP, of HTTPS, or of a SOCKS proxy
        def connect(self) -> None:
            adapter.connects += 1
            self.twins: list[socket.socket] = []
            try:
                super().connect()
            finally:
                for twin in self.twins:
                    twin.close()
            adapter.connected(self.sock)

        def _new_conn(self) -> socket.socket:
            # The TLS handshake moves the descriptor to another object; a copy of it can be shut down meanwhile.
            made: socket.socket = super()._new_conn()
            self.twins.append(made.dup())
            adapter.connected(self.twins[-1])
            return made

    return type(pool.__name__, (pool,), {"ConnectionCls": AbortableConnection, "following": True})
