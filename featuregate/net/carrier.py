"""Between a transport and a `Session`: bytes in, bytes out, events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from featuregate.wire.session import Disconnected

if TYPE_CHECKING:
    from featuregate.wire.session import Event, Session

__all__ = ["Carrier"]


class Carrier(asyncio.Protocol):
    """Feeds a session with what arrives. Where nobody waits for anything, no more than one read is taken in."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self._over = False
        self.lost: Exception | None = None
        """Why the connection ended, where the system says."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (called by the loop)."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what arrived; a peer that talks without being asked is not listened to."""
        self.session.receive_data(data)
        if self._waiter is None and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def eof_received(self) -> None:
        """Note that the peer will say no more."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note why the connection ended."""
        self.lost = exc
        self._end()

    def _send(self) -> None:
        if self._transport is not None and (data := self.session.data_to_send()):
            self._transport.write(data)

    async def event(self) -> Event:
        """Send what the session has queued, and wait for the next event; after the end it is always Disconnected.

        There is no bound: the caller has one.
        """
        while (event := self.session.next_event()) is None:
            if self._over:
                return Disconnected(None)
            self._send()  # error 35 makes the session ask again
            await self._more()
        return event

    def peer_names(self) -> tuple[str, ...]:
        """Give the names in the peer's certificate, which TLS has verified; empty without TLS."""
        certificate = self._transport.get_extra_info("peercert") if self._transport is not None else None
        return tuple(value for _, value in (certificate or {}).get("subjectAltName", ()))

    def close(self) -> None:
        """Drop the connection at once; nothing that is still to be said matters."""
        if self._transport is not None:
            self._transport.abort()

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
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
