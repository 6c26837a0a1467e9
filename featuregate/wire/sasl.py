"""SaslHandshake (key 17) and SaslAuthenticate (key 36): authentication by any mechanism.

After SaslHandshake v1 the mechanism's tokens travel inside SaslAuthenticate (KIP-152). After v0, the only version of
brokers before 1.0, they travel bare, each behind a length: see `featuregate.wire.session.Session.send_token`. Source:
``SaslHandshakeRequest.json``, ``SaslAuthenticateRequest.json`` and their responses of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from featuregate.wire.message import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from featuregate.wire.readers import Reader
    from featuregate.wire.writers import Writer

__all__ = ["SaslAuthenticateRequest", "SaslAuthenticateResponse", "SaslHandshakeRequest", "SaslHandshakeResponse"]

_LIFETIME_FROM: Final = 1
_SMALLEST_MECHANISM: Final = 2
_NEVER: Final = 2**15
"""No version of SaslHandshake is flexible: a broker must be able to read it before any agreement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse(Response):
    """Tells whether the listener enables the mechanism."""

    API_KEY: ClassVar = 17
    NAME: ClassVar = "SaslHandshake"
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE_FROM: ClassVar = _NEVER

    error_code: int = 0
    """33 (UNSUPPORTED_SASL_MECHANISM): choose one of ``mechanisms``; 34: the listener does not expect SASL, or not in
    this state."""
    mechanisms: tuple[str, ...] = ()
    """The mechanisms that the listener enables."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        return cls(
            error_code=reader.int16("error_code"),
            mechanisms=reader.array("mechanisms", _SMALLEST_MECHANISM, lambda: reader.string("mechanisms")),
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code, "error_code")
        writer.array(self.mechanisms, lambda mechanism: writer.string(mechanism, "mechanisms"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Choose a mechanism."""

    API_KEY: ClassVar = 17
    NAME: ClassVar = "SaslHandshake"
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE_FROM: ClassVar = _NEVER
    RESPONSE = SaslHandshakeResponse

    mechanism: str

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        return cls(mechanism=reader.string("mechanism"))

    def _write(self, writer: Writer, version: int) -> None:
        writer.string(self.mechanism, "mechanism")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse(Response):
    """The server's next token, or an error."""

    API_KEY: ClassVar = 36
    NAME: ClassVar = "SaslAuthenticate"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 2

    error_code: int = 0
    """58 (SASL_AUTHENTICATION_FAILED): ``error_message`` may have the reason; the broker then closes the connection."""
    error_message: str | None = None
    auth_bytes: bytes = field(default=b"", repr=False)
    """The mechanism's token: never shown."""
    session_lifetime_ms: int = 0
    """Time until the client must authenticate again (KIP-368); 0 for never. v1 and newer."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        return cls(
            error_code=reader.int16("error_code"),
            error_message=reader.nullable_string("error_message"),
            auth_bytes=reader.octets("auth_bytes"),
            session_lifetime_ms=reader.int64("session_lifetime_ms") if version >= _LIFETIME_FROM else 0,
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code, "error_code")
        writer.nullable_string(self.error_message, "error_message")
        writer.octets(self.auth_bytes)
        if version >= _LIFETIME_FROM:
            writer.int64(self.session_lifetime_ms, "session_lifetime_ms")
        writer.tags(self.unknown_tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The client's next token."""

    API_KEY: ClassVar = 36
    NAME: ClassVar = "SaslAuthenticate"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 2
    RESPONSE = SaslAuthenticateResponse

    auth_bytes: bytes = field(repr=False)
    """The mechanism's token, a password in the clear for PLAIN: never shown."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        return cls(auth_bytes=reader.octets("auth_bytes"), unknown_tags=reader.tags())

    def _write(self, writer: Writer, version: int) -> None:
        writer.octets(self.auth_bytes)
        writer.tags(self.unknown_tags)
