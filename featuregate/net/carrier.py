"""Carries bytes between a connection and a `Session`: what carriers share, and the one on a socket in a short loop."""

from __future__ import annotations

import os
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, Any, Final, TypeVar

from featuregate.wire.session import Disconnected, Session, SessionEvent

if TYPE_CHECKING:
    import ssl

    from featuregate.loops.short_loop import ShortLoop


class Carrier(ABC):
    """Feeds a session with received bytes, and sends what the session has queued."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._over = False
        self.lost: Exception | None = None
        """The error with which the connection ended, if any."""
        self.on_end: Callable[[], object] | None = None
        """Called once when the peer ends the connection."""

    async def event(self) -> SessionEvent:
        """Send what the session has queued, and wait for the next event; after the end it is always Disconnected.

        The wait has no limit here: the caller sets one.
        """
        while (event := self.session.next_event()) is None:
            if self._over:
                return Disconnected()
            await self._exchange()  # again, since error 35 makes the session ask again
        return event

    @abstractmethod
    async def _exchange(self) -> None:
        """Send what the session has queued, and wait until it has received bytes, or the end."""

    @abstractmethod
    def peer(self) -> tuple[str, int] | None:
        """Return the address and the port at which the connection ends; None where the system does not know."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection at once, and drop what is not sent yet."""

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self.session.receive_eof()
            if self.on_end is not None:
                self.on_end()


T = TypeVar("T")
_PIECE: Final = 64 * 1024
"""Bytes of one read."""


async def connect_socket(
    loop: ShortLoop, host: str, port: int, tls: ssl.SSLContext | None, name: str | None, make: Callable[[], Session]
) -> SocketCarrier:
    """Connect to a literal address, and complete the TLS handshake where TLS is on. ``make`` is called in between.

    Raises OSError, also that of TLS, or ValueError for what is not an address or a name.
    """
    numeric = socket.AI_NUMERICHOST
    # As bytes: Python loads its tables of Unicode for a host that is a text.
    family, kind, protocol, _, place = socket.getaddrinfo(host.encode(), port, 0, socket.SOCK_STREAM, 0, numeric)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        await _open(loop, opened, place)
        carrier = SocketCarrier(make(), loop, opened, (str(place[0]), int(place[1])))
    except BaseException:
        opened.close()
        raise
    if tls is not None:
        await carrier.start_tls(tls, name)
    return carrier


async def _open(loop: ShortLoop, opened: socket.socket, place: Any) -> None:
    opened.setblocking(False)  # noqa: FBT003 - the socket module's signature
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(BlockingIOError, InterruptedError):
        opened.connect(place)
    await loop.ready(opened, EVENT_WRITE)
    if code := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))


class SocketCarrier(Carrier):
    """Reads and writes while its caller waits for an event, and at no other time."""

    def __init__(self, session: Session, loop: ShortLoop, opened: socket.socket, peer: tuple[str, int]) -> None:
        super().__init__(session)
        self._loop = loop
        self._socket = opened
        self._peer = peer
        self._blocked: Mapping[type[OSError], int | None] = {BlockingIOError: None}
        """What the socket raises where it cannot go on, and what to wait for; None: for what it was to do."""
        if "threading" in sys.modules:  # only another thread can fork meanwhile
            from featuregate.forks import follow_forks  # noqa: PLC0415 - a command has no other thread

            follow_forks(self)

    async def start_tls(self, tls: ssl.SSLContext, name: str | None) -> None:
        """Complete the TLS handshake; where this raises, the connection is closed."""
        import ssl  # noqa: PLC0415 - only TLS waits for it

        self._blocked = {ssl.SSLWantReadError: EVENT_READ, ssl.SSLWantWriteError: EVENT_WRITE}
        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=name, do_handshake_on_connect=False)
            await self._do(self._socket.do_handshake, EVENT_READ)
        except BaseException as error:
            self.close()
            if isinstance(error, ssl.SSLEOFError):  # the peer has closed it, and said nothing about TLS
                raise ConnectionResetError from error
            raise

    def peer(self) -> tuple[str, int]:
        """Return the address and the port at which the connection ends."""
        return self._peer

    def close(self) -> None:
        """Close the connection at once."""
        self._socket.close()

    def forked(self) -> None:
        """Let go of the socket in a forked child, so that the peer sees the end when the parent ends the connection."""
        self._socket.close()

    async def _exchange(self) -> None:
        received = b""
        try:
            unsent = memoryview(self.session.data_to_send())
            while unsent:
                unsent = unsent[await self._do(partial(self._socket.send, unsent), EVENT_WRITE) :]
            received = await self._do(partial(self._socket.recv, _PIECE), EVENT_READ)
        except OSError as error:
            self.lost = error
        if received:
            self.session.receive_data(received)
        else:
            self._end()

    async def _do(self, operation: Callable[[], T], events: int) -> T:
        """Carry out an operation of the socket as soon as it can go on."""
        while True:
            try:
                return operation()
            except tuple(self._blocked) as error:
                await self._loop.ready(self._socket, self._blocked[type(error)] or events)
