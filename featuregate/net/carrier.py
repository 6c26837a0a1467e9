"""Carries bytes between a connection and a `Session`, and returns the session's events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from featuregate.wire.session import Disconnected, Session, SessionEvent


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
                return Disconnected(None)
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
