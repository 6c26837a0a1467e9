"""A carrier on a transport of asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from featuregate.forks import follow_forks
from featuregate.net.carrier import Carrier

if TYPE_CHECKING:
    import ssl

    from featuregate.wire.session import Session


async def connect(
    host: str, port: int, tls: ssl.SSLContext | None, name: str | None, make: Callable[[], Session]
) -> AsyncioCarrier:
    """Connect to a literal address, and complete the TLS handshake where TLS is on. ``make`` is called in between.

    Raises OSError, also that of TLS, or ValueError for what is not an address or a name.
    """
    _, carrier = await asyncio.get_running_loop().create_connection(
        lambda: AsyncioCarrier(make()), host, port, ssl=tls, server_hostname=name
    )
    return carrier


class AsyncioCarrier(Carrier, asyncio.Protocol):
    """While no caller waits for an event, it takes in one read at most."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False

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

    def peer(self) -> tuple[str, int] | None:
        """Return the address and the port at which the connection ends; None where the transport does not know."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (str(name[0]), int(name[1])) if name else None

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

    async def _exchange(self) -> None:
        if self._transport is not None and (data := self.session.data_to_send()):
            self._transport.write(data)
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _end(self) -> None:
        super()._end()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
