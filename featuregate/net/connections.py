"""Where a probe gets its connections: a new one for each node, or the one of the last probe.

Version ranges are valid for one connection (KIP-35), and a broker that restarts breaks its connections. So a broker
answers ApiVersions on a connection that lives as it would on a new one, at a fraction of the cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from featuregate.errors import ConnectionLost, FeatureGateError
from featuregate.net.asked_versions import AskedVersions
from featuregate.net.connection import Connection
from featuregate.net.race import race

if TYPE_CHECKING:
    from featuregate.config import Address, Settings
    from featuregate.wire.events import ExpectedNode, Negotiated

_HALF_OPEN: Final = 1.0
"""Seconds without an answer before a new connection is tried as well: a firewall may have dropped the kept one."""

_LOG_IN: Final = 2.0
"""Seconds that the authentication of a connection to keep may take: a probe waits for it, and has its answer."""


class Negotiation(NamedTuple):
    """A connection that is open, and the broker's answer to ApiVersions on it, which came just now."""

    connection: Connection
    negotiated: Negotiated


Connect: TypeAlias = "Callable[[Address, Settings, ExpectedNode | None], AbstractAsyncContextManager[Negotiation]]"
"""Lends a connection on which ApiVersions has just been answered. Raises as :meth:`Connection.open` and
:meth:`Connection.negotiate`."""


async def open_negotiated(
    address: Address, settings: Settings, expected: ExpectedNode | None, versions: AskedVersions | None = None
) -> Negotiation:
    """Open a connection, and send ApiVersions. The caller closes it; where this raises, it is closed.

    Where the peer closes the connection without a byte, another connection asks for an older version; ``versions``
    remembers which one was answered. No other failure leads to another version. Raises as :meth:`Connection.open` and
    :meth:`Connection.negotiate`; where each version was met by a close, the error is that of the newest.
    """
    versions = AskedVersions() if versions is None else versions
    closed: ConnectionLost | None = None
    for version in versions.to_try(address):
        connection = await Connection.open(address, settings, expected)
        try:
            negotiated = await connection.negotiate(version)
        except BaseException as error:
            connection.close()
            if not isinstance(error, ConnectionLost) or connection.received:
                raise
            closed = closed or error
        else:
            versions.answered(address, version)
            return Negotiation(connection, negotiated)
    versions.forget(address)
    assert closed is not None, "there is a version to try"
    raise closed


@asynccontextmanager
async def new_connection(
    address: Address,
    settings: Settings,
    expected: ExpectedNode | None = None,
    versions: AskedVersions | None = None,
) -> AsyncIterator[Negotiation]:
    """Open a connection, send ApiVersions, and close the connection in the end."""
    negotiation = await open_negotiated(address, settings, expected, versions)
    with negotiation.connection:
        yield negotiation


async def authenticate(connection: Connection, settings: Settings) -> None:
    """Authenticate a negotiated connection once, where the settings name a mechanism.

    Raises as :func:`featuregate.net.sasl.authenticate`.
    """
    if settings.sasl is not None and not connection.authenticated:
        from featuregate.net import sasl  # noqa: PLC0415 - a tenth of the start of a command, for secured clusters only

        await sasl.authenticate(connection, settings.sasl, settings.request_timeout)
        connection.authenticated = True


class _Key(NamedTuple):
    address: Address
    expected: ExpectedNode | None


class KeptConnections:
    """Keeps the connections of a probe for the next one. All its calls belong to one event loop."""

    def __init__(self, versions: AskedVersions | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._versions = AskedVersions() if versions is None else versions
        self.lost = asyncio.Event()
        """Set when the broker ends a connection that is kept: it stops or restarts, or the connection was idle for
        longer than the broker's ``connections.max.idle.ms``."""
        self._kept: dict[_Key, Connection] = {}
        self._used: set[_Key] = set()

    def is_of_this_loop(self) -> bool:
        """Return whether it was made in the loop that runs."""
        return self._loop is asyncio.get_running_loop()

    @asynccontextmanager
    async def connect(
        self, address: Address, settings: Settings, expected: ExpectedNode | None = None
    ) -> AsyncIterator[Negotiation]:
        """Send ApiVersions on the connection that is kept, or on a new one; keep it if it can be used again."""
        key = _Key(address, expected)
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

    async def _negotiate(self, key: _Key, settings: Settings) -> Negotiation:
        new = partial(open_negotiated, key.address, settings, key.expected, self._versions)
        kept = self._kept.pop(key, None)
        if kept is None:
            return await new()
        kept.on_end = None
        again = partial(_negotiate_again, kept, self._versions.newest(key.address))
        found = await race([again, new], stagger=_HALF_OPEN, dispose=_close)
        assert found is not None, "a new connection is open, or raises"
        return found

    def _keep(self, key: _Key, connection: Connection) -> None:
        if (before := self._kept.pop(key, None)) is not None:
            before.close()
        self._kept[key] = connection
        connection.on_end = partial(self._ended, key, connection)

    def _ended(self, key: _Key, connection: Connection) -> None:
        if self._kept.get(key) is connection:  # and not another one, which took its place
            del self._kept[key]
            connection.close()
            self.lost.set()


async def _negotiate_again(connection: Connection, newest: int) -> Negotiation | None:
    """Send ApiVersions again; return None where the connection has failed."""
    try:
        return Negotiation(connection, await connection.negotiate(newest))
    except FeatureGateError:
        connection.close()
        return None
    except asyncio.CancelledError:
        connection.close()
        raise


def _close(negotiation: Negotiation) -> None:
    negotiation.connection.close()
