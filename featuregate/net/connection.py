"""One connection to one broker: open, negotiate, request, close. Every wait has a limit."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, TypeVar, cast

from featuregate.errors import ConnectionLost, NetError, TimedOut, TlsFailed
from featuregate.loops.short_loop import running_loop
from featuregate.net.dial import dial
from featuregate.version import __version__
from featuregate.wire.session import (
    NEWEST,
    Disconnected,
    ExpectedNode,
    Negotiated,
    Refused,
    Reply,
    Session,
    SessionEvent,
    Token,
)

if TYPE_CHECKING:
    from featuregate.config import Address, Settings
    from featuregate.net.carrier import Carrier
    from featuregate.wire.message import Request, Response

R = TypeVar("R", bound="Response")


class Connection:
    """A connection that is open until `close`; also a context manager. One coroutine at a time may use it.

    Every method raises `NetError` where the connection fails, and `RemoteWireError` where the broker's bytes do not
    parse. After either, the caller can only close the connection.
    """

    def __init__(self, address: Address, settings: Settings, session: Session, carrier: Carrier) -> None:
        self.address = address
        self._settings = settings
        self._session = session
        self._carrier = carrier
        self.authenticated = False
        """Whether the broker knows who this client is."""
        self._worked = False
        """Whether a node of the cluster has answered more than ApiVersions, which needs no authentication."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """The address and the port at which the connection ends, after name resolution."""
        return self._carrier.peer()

    @property
    def received(self) -> bool:
        """Whether the broker has sent any byte."""
        return self._session.received

    def on_end(self, call: Callable[[], object] | None) -> None:
        """Call a function when the broker ends the connection, or none any more."""
        self._carrier.on_end = call

    @classmethod
    async def open(cls, address: Address, settings: Settings, expected: ExpectedNode | None = None) -> Self:
        """Connect to the first address of the host that accepts, and complete the TLS handshake where TLS is on.

        Brokers that know ApiVersions v5 check ``expected`` against their own ids (KIP-1242), unless the settings turn
        the check off. Raises `ConnectFailed`, `TlsFailed` or `TimedOut`, within ``settings.connect_timeout`` seconds.
        """
        named = expected if settings.check_node else None
        software = ("featuregate", __version__)

        def make() -> Session:
            return Session(
                client_id=settings.client_id, software=software, expected=named, max_frame=settings.max_frame
            )

        carrier = await dial(address, settings, make)
        connection = cls(address, settings, carrier.session, carrier)
        connection._worked = expected is not None  # a node has given the broker list then
        return connection

    async def negotiate(self, newest: int = NEWEST) -> Negotiated:
        """Request the API ranges and features of the broker, for the first time or again.

        ``newest`` is the newest version of ApiVersions to ask for. Raises `BrokerError` when the broker refuses.
        """
        self._session.negotiate(newest)
        match await self._event("waiting for ApiVersions"):
            case Refused(error):
                raise error
            case event:
                return cast("Negotiated", event)

    def version_for(self, message: Request[R]) -> int:
        """Return the version that `request` would use. Raises `UnsupportedVersion` where there is none in common."""
        return self._session.version_for(message)

    async def request(self, message: Request[R], within: float | None = None) -> R:
        """Send a request, and return its response. The caller checks the error code.

        ``within`` is in seconds, in place of ``settings.request_timeout``. Raises `UnsupportedVersion` where there is
        no version in common; then nothing was sent.
        """
        version = self._session.version_for(message)
        self._session.send(message)
        reply = cast("Reply", await self._event(f"waiting for {message.NAME} v{version}", within))
        self._worked = True
        return cast("R", reply.response)

    async def exchange_token(self, token: bytes) -> bytes:
        """Send a bare SASL token, as after SaslHandshake v0, and return the broker's token."""
        self._session.send_token(token)
        return cast("Token", await self._event("waiting for a SASL token")).data

    def close(self) -> None:
        """Close the connection without waiting; may be called twice."""
        self._carrier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _event(self, stage: str, within: float | None = None) -> SessionEvent:
        timeout = self._settings.request_timeout if within is None else within
        try:
            async with running_loop().timeout(timeout):
                event = await self._carrier.event()
        except TimeoutError:
            raise TimedOut(self.address, stage, f"no answer within {timeout:g} s") from None
        if isinstance(event, Disconnected):
            raise self._lost(stage)
        return event

    def _lost(self, stage: str) -> NetError:
        error = self._carrier.lost
        if self._settings.tls is not None:
            import ssl  # noqa: PLC0415 - only TLS waits for it

            # A TLS 1.3 broker checks the client certificate after its half of the handshake.
            if isinstance(error, ssl.SSLError):
                from featuregate.net.tls import explain  # noqa: PLC0415 - likewise

                return TlsFailed(self.address, stage, explain(error))
        advice = "" if self._worked else _advice(self._settings, negotiated=self._session.api_ranges is not None)
        return ConnectionLost(self.address, stage, "; ".join(filter(None, [str(error or ""), advice])))


def _advice(settings: Settings, *, negotiated: bool) -> str:
    """Return the likely reason: a Kafka listener closes connections whose security.protocol is not its own."""
    if settings.tls is not None and settings.tls.certificate is None and not negotiated:
        return "does this listener want a client certificate? See ssl.certificate.location"
    if settings.tls is None and not negotiated:
        return "does this listener speak TLS? See security.protocol"
    if not settings.protocol.startswith("SASL_"):
        return "does this listener want authentication? See security.protocol"
    return ""


OLDER: Final = (3, 0)
"""The versions to try after the newest one: the last before 3.9 (KAFKA-17011), and the one that every broker has."""
_REMEMBERED: Final = 600.0
"""Seconds after which an address is asked for the newest version again: a service may have learned it by then."""


class AskedVersions:
    """The versions of ApiVersions that addresses answer, of those that close the connection on newer ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[Address, tuple[int, float]] = {}
        """The version, and when it was answered."""

    @property
    def closed_on_newer(self) -> dict[Address, int]:
        """Each address that closed the connection on newer versions, with the version that it answered."""
        return {address: version for address, (version, _) in list(self._asked.items())}

    def newest(self, address: Address) -> int:
        """Return the newest version to ask an address for."""
        version, at = self._asked.get(address, (NEWEST, 0.0))
        return NEWEST if self._clock() - at > _REMEMBERED else version

    def to_try(self, address: Address) -> Iterator[int]:
        """Yield the versions to ask for, each on a connection of its own, until one is answered."""
        newest = self.newest(address)
        yield newest
        yield from (version for version in OLDER if version < newest)

    def answered(self, address: Address, version: int) -> None:
        """Note that an address answered ``version`` and, where that is not the newest, closed on newer ones."""
        if version == NEWEST:
            self._asked.pop(address, None)
        elif self.newest(address) != version:
            self._asked[address] = version, self._clock()

    def forget(self, address: Address) -> None:
        """Ask for the newest version next time: the address answers none."""
        self._asked.pop(address, None)

    def keep(self, addresses: set[Address]) -> None:
        """Forget all other addresses."""
        for address in self._asked.keys() - addresses:
            del self._asked[address]


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
    address: Address, settings: Settings, expected: ExpectedNode | None = None, versions: AskedVersions | None = None
) -> AsyncIterator[Negotiation]:
    """Open a connection, send ApiVersions, and close the connection in the end."""
    negotiation = await open_negotiated(address, settings, expected, versions)
    with negotiation.connection:
        yield negotiation
