"""Carries bytes between a transport and a `Session`, and returns the session's events."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from featuregate.forks import follow_forks
from featuregate.wire.events import Disconnected, SessionEvent

if TYPE_CHECKING:
    from featuregate.wire.session import Session


class Carrier(asyncio.Protocol):
    """Feeds a session with received bytes. While no caller waits for an event, it takes in one read at most."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self._over = False
        self.lost: Exception | None = None
        """The error with which the connection ended, if any."""
        self.on_end: Callable[[], object] | None = None
        """Called once when the connection ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (called by the loop)."""
        self._transport = cast("asyncio.Transport", transport)
        follow_forks(self)

    def data_received(self, data: bytes) -> None:
        """Take in bytes, and stop reading from a peer that sends without being asked."""
        self.session.receive_data(data)
        if self._waiter is None and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def eof_received(self) -> None:
        """Note that the peer sends no more."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note why the connection ended."""
        self.lost = exc
        self._end()

    def _send(self) -> None:
        if self._transport is not None and (data := self.session.data_to_send()):
            self._transport.write(data)

    async def event(self) -> SessionEvent:
        """Send what the session has queued, and wait for the next event; after the end it is always Disconnected.

        The wait has no limit here: the caller sets one.
        """
        while (event := self.session.next_event()) is None:
            if self._over:
                return Disconnected(None)
            self._send()  # error 35 makes the session ask again
            await self._more()
        return event

    def peer(self) -> tuple[str, int] | None:
        """Return the address and the port at which the connection ends; None where the transport does not know."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (str(name[0]), int(name[1])) if name else None

    def peer_names(self) -> tuple[str, ...]:
        """Return the names in the peer's verified certificate; empty without TLS."""
        certificate = self._transport.get_extra_info("peercert") if self._transport is not None else None
        return tuple(value for _, value in (certificate or {}).get("subjectAltName", ()))

    def close(self) -> None:
        """Close the connection at once, and drop what is not sent yet."""
        if self._transport is not None:
            self._transport.abort()

    def forked(self) -> None:
        """Let go of the socket in a forked child, so that the peer sees the end when the parent ends the connection.

        Nothing is sent, and the loop of the parent, whose epoll descriptor the child shares, does not take part. The
        number of the descriptor stays taken, since the socket object closes it once more.
        """
        socket = self._transport.get_extra_info("socket") if self._transport is not None else None
        if socket is not None and socket.fileno() >= 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, socket.fileno(), inheritable=False)
            os.close(nothing)

    async def _more(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self.session.receive_eof()
            if self.on_end is not None:
                self.on_end()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
