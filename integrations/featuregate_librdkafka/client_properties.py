"""From the properties of an app to those of a client of librdkafka that reaches the same brokers as the same user.

The app spells them as any client does; `Settings` reads all spellings. Each client of an integration begins here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from featuregate.config import Settings
from featuregate.config.providers import without_placeholders
from featuregate.credentials.keystores import client_identity, trusted_certificates
from featuregate.credentials.tokens import TokenFetcher
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from featuregate.config.oauthbearer import TokenSource
    from featuregate.config.sasl import Kerberos, Sasl
    from featuregate.config.tls import Tls

_CONNECTION: Final = (
    "api.version.",
    "bootstrap.",
    "broker.address.",
    "broker.version.fallback",
    "client.dns.lookup",
    "client.id",
    "connections.max.idle.ms",
    "enable.sasl.",
    "enable.ssl.",
    "https.",
    "metadata.broker.list",
    "metadata.recovery.",
    "oauth_cb",
    "receive.message.max.bytes",
    "reconnect.backoff.",
    "retry.backoff.",
    "sasl.",
    "security.protocol",
    "socket.",
    "ssl.",
)
"""How the properties begin that say where the cluster is and who we are; all else is the app's own business."""
_BROKERS: Final = {"bootstrap.servers", "metadata.broker.list"}
_TLS: Final = ("ssl.", "enable.ssl.")
_SASL: Final = ("sasl.", "enable.sasl.", "oauth_cb")
_TOKEN_SECONDS: Final = 10.0
_SHORTEST_LIFE: Final = 60.0
"""Seconds: librdkafka refuses a token that has expired, and some sources give no expiry."""

_OF_A_COMMAND: Final = re.compile(r"[\w.@/:+][\w.@/:+\-]*")

_FETCHER: Final = TokenFetcher()
"""The tokens of this process: clients of one source share them."""

_Token = tuple[str, float, str, dict[str, str]]


def connection_properties(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a client's properties that any other client needs to reach the same brokers as the same user.

    ``oauth_cb`` is one of them. The app's other callbacks are not: they are about the app's own client.
    """
    return {name: value for name, value in config.items() if name.startswith(_CONNECTION)}


def client_properties(
    config: Mapping[str, Any] | str, given: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the properties of a client: those that it is given, and the connection of an app's ``config``.

    A property that is given wins, in the spelling of librdkafka. One of TLS replaces all of the app's TLS, and one of
    SASL all of its SASL: no password of one user meets the name of another. Brokers that are given get nothing of the
    app, whose password is not theirs. Certificates and keys of the app become PEM text, whatever files they were in.
    Raises ConfigError (librdkafka cannot use a property of the app, or a file cannot be read).
    """
    given = without_placeholders(given)
    if _BROKERS & given.keys():
        return dict(given)
    has_tls, has_sasl = (any(name.startswith(kind) for name in given) for kind in (_TLS, _SASL))
    settings = Settings.parse(config)
    properties: dict[str, Any] = {
        "bootstrap.servers": ",".join(str(address) for address in settings.bootstrap),
        "security.protocol": settings.protocol,
        "client.id": settings.client_id,
        "broker.address.family": settings.address_family,
    }
    if settings.tls is not None and not has_tls:
        properties |= _tls(settings.tls)
    if settings.sasl is not None and not has_sasl:
        properties |= _sasl(settings.sasl)
    return properties | dict(given)


def _tls(tls: Tls) -> dict[str, Any]:
    if tls.context is not None:
        problem = "librdkafka cannot use an SSLContext: give ssl_cafile, ssl_certfile and ssl_keyfile instead"
        raise ConfigError("ssl_context", problem)
    properties: dict[str, Any] = {
        "enable.ssl.certificate.verification": tls.verify,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
    }
    if tls.trust is not None:
        if tls.trust.location and Path(tls.trust.location).is_dir():
            properties["ssl.ca.location"] = tls.trust.location
        else:
            properties["ssl.ca.pem"] = trusted_certificates(tls.trust)
    if tls.revoked is not None:
        properties["ssl.crl.location"] = tls.revoked.location
    if tls.certificate is not None:
        identity = client_identity(tls)
        properties |= {"ssl.certificate.pem": identity.certificates, "ssl.key.pem": identity.private_key}
    if tls.key_password is not None:
        properties["ssl.key.password"] = tls.key_password.reveal()
    return properties


def _sasl(sasl: Sasl) -> dict[str, Any]:
    if sasl.delegation_token:
        raise ConfigError("sasl.jaas.config", "librdkafka has no delegation tokens: give a user name and password")
    properties: dict[str, Any] = {"sasl.mechanisms": sasl.mechanism}
    if sasl.password is not None:
        properties |= {"sasl.username": sasl.username, "sasl.password": sasl.password.reveal()}
    if sasl.token is not None:
        properties["oauth_cb"] = _TokenCallback(sasl.token)
    if sasl.kerberos is not None:
        properties |= _kerberos(sasl.kerberos)
    return properties


def _kerberos(kerberos: Kerberos) -> dict[str, Any]:
    if kerberos.host or kerberos.ticket_cache:
        problem = "librdkafka has no name of its own for the broker's host, and no ticket cache but the system's"
        raise ConfigError("sasl.mechanism", problem)
    properties = {"sasl.kerberos.service.name": kerberos.service}
    if kerberos.keytab is None:
        return properties | {"sasl.kerberos.kinit.cmd": ""}  # a ticket is there
    for key, value in (("sasl.kerberos.keytab", kerberos.keytab), ("sasl.kerberos.principal", kerberos.principal)):
        if value is not None and not _OF_A_COMMAND.fullmatch(value):
            raise ConfigError(key, "has characters that a shell obeys, and librdkafka runs kinit in a shell")
    if kerberos.principal is not None:
        properties["sasl.kerberos.principal"] = kerberos.principal
    return properties | {"sasl.kerberos.keytab": kerberos.keytab}


@dataclass(frozen=True, slots=True)
class _TokenCallback:
    """An ``oauth_cb`` for a token source. Picklable where the source is; two of one source are equal."""

    source: TokenSource

    def __call__(self, _config: str) -> _Token:
        found = _FETCHER.fetch(self.source, _TOKEN_SECONDS)
        expiry = max(found.reuse_until, datetime.now(UTC).timestamp() + _SHORTEST_LIFE)
        return found.value.reveal(), expiry, "", dict(found.extensions)
