"""One connection to one broker: open, negotiate, authenticate, request, close. Every wait is bounded."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, TypeVar, cast

from featuregate.errors import ConnectionLost, NetError, TimedOut, TlsFailed
from featuregate.net.carrier import Carrier
from featuregate.net.dial import dial
from featuregate.net.tls import explain
from featuregate.version import __version__
from featuregate.wire.session import Disconnected, Negotiated, Refused, Reply, Session, Token

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from featuregate.config import Address, Settings
    from featuregate.wire.message import Request, Response
    from featuregate.wire.session import Event, Identity

__all__ = ["Connection"]

R = TypeVar("R", bound="Response")


class Connection:
    """A connection that is open until `close`; also a context manager. One coroutine at a time may use it.

    Everything raises `NetError` for bytes that do not get through, and `RemoteWireError` for bytes that make no sense.
    After either, all that is left to do is to close.
    """

    def __init__(self, address: Address, settings: Settings, session: Session, carrier: Carrier) -> None:
        self.address = address
        self._settings = settings
        self._session = session
        self._carrier = carrier

    @classmethod
    async def open(cls, address: Address, settings: Settings, identity: Identity | None = None) -> Self:
        """Connect, trying each address that the host's name stands for, and shake hands where TLS is spoken.

        ``identity`` is whom we expect to find there, told to brokers that can check it (KIP-1242). Raises
        `ConnectFailed`, `TlsFailed` or `TimedOut`; all of it takes ``settings.connect_timeout`` seconds at the most.
        """
        software = ("featuregate", __version__)

        def make() -> Carrier:
            session = Session(
                client_id=settings.client_id, software=software, identity=identity, max_frame=settings.max_frame
            )
            return Carrier(session)

        carrier = await dial(address, settings, make)
        return cls(address, settings, carrier.session, carrier)

    async def negotiate(self) -> Negotiated:
        """Ask for API ranges and features. `BrokerError` when the broker refuses."""
        self._session.negotiate()
        match await self._event("waiting for ApiVersions"):
            case Refused(error):
                raise error
            case event:
                return cast("Negotiated", event)

    async def authenticate(self) -> None:
        """Prove who we are, where the settings say how. `AuthenticationFailed` when the broker does not believe it."""
        if self._settings.sasl is not None:
            from featuregate.net.sasl import authenticate  # noqa: PLC0415 - SCRAM's library takes 80 ms to import

            await authenticate(self, self._settings.sasl, self._settings.request_timeout)

    def version_for(self, message: Request[R]) -> int:
        """Choose the version that `request` would use. `UnsupportedVersion` when there is none in common."""
        return self._session.version_for(message)

    async def request(self, message: Request[R], within: float | None = None) -> R:
        """Ask, and give the answer, whose error code is for the caller to judge.

        ``within`` is in seconds, for what takes longer than ``settings.request_timeout``. `UnsupportedVersion` when
        there is no version in common; then nothing was sent.
        """
        version = self._session.version_for(message)
        self._session.send(message)
        reply = cast("Reply", await self._event(f"waiting for {message.NAME} v{version}", within))
        return cast("R", reply.response)

    async def exchange_token(self, token: bytes) -> bytes:
        """Send a bare SASL token and give the broker's, as after SaslHandshake v0."""
        self._session.send_token(token)
        return cast("Token", await self._event("waiting for a SASL token")).data

    def close(self) -> None:
        """Drop the connection, at once and without waiting; twice does no harm."""
        self._carrier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    async def _event(self, stage: str, within: float | None = None) -> Event:
        """Send what is queued and wait for what comes back, which the session has matched with what was asked."""
        timeout = self._settings.request_timeout if within is None else within
        try:
            async with asyncio.timeout(timeout):
                event = await self._carrier.event()
        except TimeoutError:
            raise TimedOut(self.address, stage, f"no answer within {timeout:g} s") from None
        if isinstance(event, Disconnected):
            raise self._lost(stage)
        return event

    def _lost(self, stage: str) -> NetError:
        error = self._carrier.lost
        if isinstance(error, ssl.SSLError):  # a TLS 1.3 broker judges our certificate after its half of the handshake
            return TlsFailed(self.address, stage, explain(error))
        advice = _advice(self._settings, negotiated=self._session.api_ranges is not None)
        return ConnectionLost(self.address, stage, "; ".join(filter(None, [str(error or ""), advice])))


def _advice(settings: Settings, *, negotiated: bool) -> str:
    """Say why Kafka's listeners hang up on clients whose security.protocol is not theirs."""
    if settings.tls is not None and settings.tls.certificate is None and not negotiated:
        return "does this listener want a client certificate? See ssl.certificate.location"
    if settings.tls is None and not negotiated:
        return "does this listener speak TLS? See security.protocol"
    if not settings.protocol.startswith("SASL_"):
        return "does this listener want authentication? See security.protocol"
    return ""
