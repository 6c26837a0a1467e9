"""OAUTHBEARER: where tokens come from, in the spelling of each client."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from featuregate.config.from_files import require_path
from featuregate.config.secrets import MissingCredentials, Secret, is_path
from featuregate.errors import ConfigError
from featuregate.files import local_path

if TYPE_CHECKING:
    from featuregate.config.jaas import Login
    from featuregate.config.properties import Properties

_ENDPOINT = re.compile(r"https?://([\w.\-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#]\S*)?", re.IGNORECASE)
_JAVA_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_][\w$]*)+")

Pairs = tuple[tuple[str, str], ...]

_LIFE_DIGITS = 9
"""Digits of a token's life in seconds: 31 years at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """confluent-kafka's ``oauth_cb``: called with `config`, returns ``(token, expiry[, principal, extensions])``.

    The expiry is in seconds since 1970.
    """

    function: Callable[[str], Any] = field(repr=False, hash=False)
    """Not shown, since a `functools.partial` shows what is bound to it; not hashed, since a dataclass has no hash."""
    config: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """An OAuth 2 endpoint that gives a token for a client id and a secret (RFC 6749, section 4.4)."""

    endpoint: str = field(repr=False)
    """Not shown, since its query may hold a key; see `place`."""
    client_id: str
    client_secret: Secret
    scope: str | None = None
    extensions: Pairs = ()
    ca_location: str | None = None

    @property
    def place(self) -> str:
        """The endpoint without its query, for people."""
        return re.split(r"[?#]", self.endpoint, maxsplit=1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredToken:
    """A token without a signature (RFC 7515, appendix A.5), for development clusters."""

    claims: Pairs
    life_seconds: int = 3600
    extensions: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProvider:
    """The token provider of kafka-python (``token()``) or aiokafka (``async token()``), called for each connection.

    Such a provider gives no expiry, and caches its tokens itself.
    """

    provider: Any = field(repr=False, hash=False)
    """Not shown, since it may hold a secret; not hashed, since a dataclass has no hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A file with a token, such as one that Kubernetes mounts and renews; it is read for each connection."""

    key: str
    """The property, in the app's spelling."""
    path: str
    extensions: Pairs = ()


TokenSource = Callback | ClientCredentials | TokenFile | TokenProvider | UnsecuredToken


def read_token_source(properties: Properties, login: Login | None) -> TokenSource:
    """Read where tokens come from. Raises `MissingCredentials` where no property says it."""
    options = _oauth_options(properties, login)
    function = properties.function("oauth_cb")
    config = properties.text("sasl.oauthbearer.config") or ""
    provider = properties.provider("sasl_oauth_token_provider", "token")
    if function is not None and provider is not None:
        raise ConfigError(properties.spelling("sasl_oauth_token_provider"), "oauth_cb is given too: keep one of them")
    if function is not None:
        return Callback(function=function, config=config)
    if provider is not None:
        return TokenProvider(provider=provider)
    if endpoint := properties.text("sasl.oauthbearer.token.endpoint.url"):
        return (
            _token_file(properties, endpoint, options)
            if endpoint.lower().startswith("file:")
            else _client_credentials(properties, options)
        )
    if properties.choice("sasl.oauthbearer.method") == "oidc":
        raise ConfigError(properties.spelling("sasl.oauthbearer.token.endpoint.url"), "is missing, and oidc needs it")
    if properties.flag("enable.sasl.oauthbearer.unsecure.jwt"):
        return _unsecured(properties.spelling("sasl.oauthbearer.config"), _words(config))
    if "unsecuredLoginStringClaim_sub" in options:
        return _unsecured_login(properties.spelling("sasl.jaas.config"), options)
    handler = properties.text("sasl.login.callback.handler.class")
    named = handler if handler and _JAVA_CLASS.fullmatch(handler) else "the callback handler"
    because = f" ({named} is a Java class, which Python cannot run)" if handler else ""
    raise MissingCredentials(
        properties.spelling("sasl.mechanism"),
        f"OAUTHBEARER has no token{because}: give oauth_cb, which a file has as oauth_cb=MODULE:FUNCTION, or "
        "sasl.oauthbearer.token.endpoint.url",
    )


def _oauth_options(properties: Properties, login: Login | None) -> dict[str, str]:
    if login is None:
        return {}
    if login.module != "OAuthBearerLoginModule":
        key = properties.spelling("sasl.jaas.config")
        raise ConfigError(key, "has a login module without a token: use OAuthBearerLoginModule for OAUTHBEARER")
    return login.options


def _token_file(properties: Properties, endpoint: str, options: dict[str, str]) -> TokenFile:
    """Read a ``file:`` URL, as Java's ``FileJwtRetriever`` does."""
    key = properties.spelling("sasl.oauthbearer.token.endpoint.url")
    try:
        path = local_path(key, endpoint)
    except ConfigError:
        path = None
    if path is None or not path.is_absolute():
        raise ConfigError(key, "is not the URL of a file on this machine: write file:///var/run/secrets/token")
    require_path(key, endpoint, str(path))
    if not path.is_file():
        raise ConfigError(key, f"there is no file {str(path)!r}" if is_path(str(path)) else "there is no such file")
    extensions = _extensions(properties) + _options_after("extension_", options)
    return TokenFile(key=key, path=str(path), extensions=extensions)


def _client_credentials(properties: Properties, options: dict[str, str]) -> ClientCredentials:
    properties.choice("sasl.oauthbearer.grant.type")
    url_key = properties.spelling("sasl.oauthbearer.token.endpoint.url")
    endpoint = properties.text("sasl.oauthbearer.token.endpoint.url") or ""
    if "@" in endpoint:
        raise ConfigError(
            url_key,
            "holds a user name or a password: give sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
        )
    if not _ENDPOINT.fullmatch(endpoint):
        raise ConfigError(url_key, "is not an address with http, https or file")
    client_id = properties.text("sasl.oauthbearer.client.id") or options.get("clientId")
    secret = properties.secret("sasl.oauthbearer.client.secret") or Secret(options.get("clientSecret", ""))
    if not client_id:
        raise MissingCredentials(properties.spelling("sasl.oauthbearer.client.id"), "is missing: give it")
    if not secret.reveal():
        raise MissingCredentials(properties.spelling("sasl.oauthbearer.client.secret"), "is missing: give it")
    return ClientCredentials(
        endpoint=endpoint,
        client_id=client_id,
        client_secret=secret,
        scope=properties.text("sasl.oauthbearer.scope") or options.get("scope"),
        extensions=_extensions(properties) + _options_after("extension_", options),
        ca_location=None if (location := properties.text("https.ca.location")) == "probe" else location,
    )


def _extensions(properties: Properties) -> Pairs:
    text = properties.text("sasl.oauthbearer.extensions") or ""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not name.strip() or not equals for name, equals, _ in pairs):
        raise ConfigError(properties.spelling("sasl.oauthbearer.extensions"), "is not of the form key=value,key=value")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _options_after(prefix: str, options: dict[str, str]) -> Pairs:
    return tuple((name.removeprefix(prefix), value) for name, value in options.items() if name.startswith(prefix))


def _words(config: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in config.split())
    return {name: value.strip('"') for name, _, value in pairs}


def _unsecured(key: str, words: dict[str, str]) -> UnsecuredToken:
    """Make librdkafka's built-in token, from ``principal=admin scope=a,b lifeSeconds=600 extension_x=y``."""
    if not words.get("principal"):
        raise ConfigError(key, "names no principal, and an unsecured token needs one: principal=NAME")
    claims = [(words.get("principalClaimName", "sub"), words["principal"])]
    if scope := words.get("scope"):
        claims.append((words.get("scopeClaimName", "scope"), scope.replace(",", " ")))
    return UnsecuredToken(
        claims=tuple(claims),
        life_seconds=_life(key, words.get("lifeSeconds", "3600")),
        extensions=_options_after("extension_", words),
    )


def _unsecured_login(key: str, options: dict[str, str]) -> UnsecuredToken:
    """Make the token of Java's ``OAuthBearerUnsecuredLoginCallbackHandler``."""
    return UnsecuredToken(
        claims=_options_after("unsecuredLoginStringClaim_", options),
        life_seconds=_life(key, options.get("unsecuredLoginLifetimeSeconds", "3600")),
        extensions=_options_after("unsecuredLoginExtension_", options),
    )


def _life(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LIFE_DIGITS and int(text) > 0):
        raise ConfigError(key, "the token's lifetime is not a whole number of seconds")
    return int(text)
