"""Keep the connections of a probe for the next one.

Version ranges are valid for one connection (KIP-35), and a broker that restarts breaks its connections. So a broker
answers ApiVersions on a connection that lives as it would on a new one, at a fraction of the cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from featuregate.errors import FeatureGateError
from featuregate.loops.asyncio_loop import ASYNCIO_LOOP
from featuregate.net.cluster_metadata import Candidate, authenticate
from featuregate.net.connection import AskedVersions, Connection, Negotiation, open_negotiated

if TYPE_CHECKING:
    from featuregate.config import Address, Settings
    from featuregate.wire.session import ExpectedNode

_HALF_OPEN: Final = 1.0
"""Seconds without an answer before a new connection is tried as well: a firewall may have dropped the kept one."""

_LOG_IN: Final = 2.0
"""Seconds that the authentication of a connection to keep may take: a probe waits for it, and has its answer."""


class KeptConnections:
    """Keeps the connections of a probe for the next one. All its calls belong to one event loop."""

    def __init__(self, versions: AskedVersions | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._versions = AskedVersions() if versions is None else versions
        self.lost = asyncio.Event()
        """Set when the broker ends a connection that is kept: it stops or restarts, or the connection was idle for
        longer than the broker's ``connections.max.idle.ms``."""
        self._kept: dict[Candidate, Connection] = {}
        self._used: set[Candidate] = set()

    def is_of_this_loop(self) -> bool:
        """Return whether it was made in the loop that runs."""
        return self._loop is asyncio.get_running_loop()

    @asynccontextmanager
    async def connect(
        self, address: Address, settings: Settings, expected: ExpectedNode | None = None
    ) -> AsyncIterator[Negotiation]:
        """Send ApiVersions on the connection that is kept, or on a new one; keep it if it can be used again."""
        key = Candidate(address, expected)
        self._used.add(key)
        found = await self._negotiate(key, settings)
        try:
            yield found
            # A broker answers ApiVersions once before authentication, and any time after it. Where the bootstrap list
            # names every broker, nothing else is sent.
            if settings.broker_list != "bootstrap":
                with suppress(FeatureGateError, TimeoutError):  # the answer counts, whatever follows it
                    async with asyncio.timeout(_LOG_IN):
                        await authenticate(found.connection, settings)
        except BaseException:
            found.connection.close()
            raise
        if found.connection.authenticated or not settings.protocol.startswith("SASL_"):
            self._keep(key, found.connection)
        else:
            found.connection.close()

    def close_unused(self) -> None:
        """Close the connections that no probe has used since the last call: their nodes are no longer listed."""
        for key in self._kept.keys() - self._used:
            self._kept.pop(key).close()
        self._used.clear()

    def close(self) -> None:
        """Close all connections."""
        while self._kept:
            _, connection = self._kept.popitem()
            connection.close()

    async def _negotiate(self, key: Candidate, settings: Settings) -> Negotiation:
        new = partial(open_negotiated, key.address, settings, key.expected, self._versions)
        kept = self._kept.pop(key, None)
        if kept is None:
            return await new()
        kept.on_end(None)
        again = partial(_negotiate_again, kept, self._versions.newest(key.address))
        found = await ASYNCIO_LOOP.race([again, new], stagger=_HALF_OPEN, dispose=_close)
        assert found is not None, "a new connection is open, or raises"
        return found

    def _keep(self, key: Candidate, connection: Connection) -> None:
        if (before := self._kept.pop(key, None)) is not None:
            before.close()
        self._kept[key] = connection
        connection.on_end(partial(self._ended, key, connection))

    def _ended(self, key: Candidate, connection: Connection) -> None:
        if self._kept.get(key) is connection:  # and not another one, which took its place
            del self._kept[key]
            connection.close()
            self.lost.set()


async def _negotiate_again(connection: Connection, newest: int) -> Negotiation | None:
    """Send ApiVersions again; return None where the connection has failed."""
    try:
        return Negotiation(connection, await connection.negotiate(newest))
    except BaseException as error:
        connection.close()
        if not isinstance(error, FeatureGateError):
            raise
        return None


def _close(negotiation: Negotiation) -> None:
    negotiation.connection.close()
