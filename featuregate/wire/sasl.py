"""SaslHandshake (key 17) and SaslAuthenticate (key 36): authentication by any mechanism.

After SaslHandshake v1 the mechanism's tokens travel inside SaslAuthenticate (KIP-152). After v0, the only version of
brokers before 1.0, they travel bare, each behind a length: see `featuregate.wire.session.Session.send_token`. Source:
``SaslHandshakeRequest.json``, ``SaslAuthenticateRequest.json`` and their responses of Apache Kafka 4.4.0.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from featuregate.values import field
from featuregate.wire.message import Request, Response
from featuregate.wire.schema import Int16, Int64, Versions, structure

_NEVER: Final = 2**15
"""No version of SaslHandshake is flexible: a broker must be able to read it before any agreement."""


@structure
class SaslHandshakeResponse(Response, api=(17, "SaslHandshake"), versions=(0, 1), flexible_from=_NEVER):
    """Tells whether the listener enables the mechanism."""

    error_code: Int16 = 0
    """33 (UNSUPPORTED_SASL_MECHANISM): choose one of ``mechanisms``; 34: the listener does not expect SASL, or not in
    this state."""
    mechanisms: tuple[str, ...] = ()
    """The mechanisms that the listener enables."""


@structure
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Choose a mechanism."""

    mechanism: str


@structure
class SaslAuthenticateResponse(Response, api=(36, "SaslAuthenticate"), versions=(0, 2), flexible_from=2):
    """The server's next token, or an error."""

    error_code: Int16 = 0
    """58 (SASL_AUTHENTICATION_FAILED): ``error_message`` may have the reason; the broker then closes the connection."""
    error_message: str | None = None
    auth_bytes: bytes = field(default=b"", repr=False)
    """The mechanism's token: never shown."""
    session_lifetime_ms: Annotated[Int64, Versions(1)] = 0
    """Time until the client must authenticate again (KIP-368); 0 for never."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Unknown tagged fields, as received."""


@structure
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The client's next token."""

    auth_bytes: bytes = field(repr=False)
    """The mechanism's token, a password in the clear for PLAIN: never shown."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Unknown tagged fields, as received."""
