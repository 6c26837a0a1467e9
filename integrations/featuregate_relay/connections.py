"""A limit on open connections, below what polls need of descriptors. Used on the event loop alone."""

from __future__ import annotations

import resource
import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]  # missing in its stubs

if TYPE_CHECKING:
    import asyncio

_FOR_POLLS: Final = 4
"""One in this many descriptors is for polls and files: polls keep a connection to each broker."""
_LEAST_FOR_POLLS: Final = 64
"""Also for the process itself, which has opened two dozen before the first poll."""


def most_connections() -> int:
    """Return how many connections of clients leave enough descriptors for polls."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft - max(soft // _FOR_POLLS, _LEAST_FOR_POLLS), 1)


class Connections:
    """Open connections, at most ``most``. A connection is silent while no whole request waits for its response.

    A new connection beyond the limit closes the one that has been silent for the longest time. Where no other one is
    silent, the new connection is closed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._silent: dict[Hashable, asyncio.Transport] = {}
        self._busy: dict[Hashable, asyncio.Transport] = {}

    def opened(self, owner: Hashable, transport: asyncio.Transport) -> None:
        """Count a connection from its accept on, before TLS; later calls for the same owner change nothing."""
        if owner in self._silent or owner in self._busy:
            return
        self._silent[owner] = transport
        if len(self._silent) + len(self._busy) > self._most:
            self._silent.pop(next(iter(self._silent))).abort()

    def is_busy(self, owner: Hashable) -> None:
        """Keep a connection whose request is whole until the response has ended."""
        if owner in self._silent:
            self._busy[owner] = self._silent.pop(owner)

    def is_silent(self, owner: Hashable) -> None:
        """Let a connection be closed for a newer one, after those that are silent already."""
        if owner in self._busy:
            self._silent[owner] = self._busy.pop(owner)

    def closed(self, owner: Hashable) -> None:
        """Count a connection no longer."""
        self._silent.pop(owner, None)
        self._busy.pop(owner, None)


class CountedTLS(SSLProtocol):  # type: ignore[misc]  # see above
    """The loop's own TLS for a connection that was accepted, which is counted before the handshake.

    The protocol of a server's connection has no transport until the handshake has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any, *args: Any, **options: Any) -> None:
        super().__init__(loop, protocol, *args, **options)
        self._counted = protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count the connection, and begin the handshake."""
        self._counted.open_connections.opened(self._counted, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a connection no longer of which the handshake has not ended, too."""
        self._counted.open_connections.closed(self._counted)
        self._counted = None  # no cycle is left for the collector
        super().connection_lost(exc)
