"""Properties that other clients obey and featuregate does not: refused, or named, where they change what others mean.

The names are those of librdkafka 2.12 (``CONFIGURATION.md``), Apache Kafka 4.2 (``SaslConfigs``, ``SslConfigs``,
``SecurityConfig``, ``CommonClientConfigs``), and kafka-python.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from featuregate.config.keys import KEYS
from featuregate.errors import ConfigError

Effect = Literal["login", "tls", "connect", "weaker", "none"]
"""``login`` and ``tls``: refused where the listener needs it; ``connect``: refused; ``weaker``: named in the log and by
``doctor``; ``none``: nothing that featuregate does would differ."""


class OtherKey(NamedTuple):
    """Properties of one effect."""

    names: re.Pattern[str]
    effect: Effect
    meaning: str = ""
    """What follows the name: what the property means, and what to do."""
    same: re.Pattern[str] | None = None
    """Values with which other clients do what featuregate does."""


def _row(names: str, effect: Effect, meaning: str = "", same: str | None = None) -> OtherKey:
    return OtherKey(re.compile(names), effect, meaning, None if same is None else re.compile(same, re.IGNORECASE))


_CLASS: Final = "names a Java class, which is not run, and its credentials are not known: give oauth_cb, or a user name"
_KAFKAS: Final = r"org\.apache\.kafka\.common\.security\."
_KEY: Final = "takes keys from another place than a file: give ssl.certificate.location and ssl.key.location"
_PYTHONS: Final = "does not limit featuregate, whose TLS is that of Python's ssl: give ssl_context to limit it"
OTHERS: Final = (
    _row(r"sasl\.(client\.callback\.handler|login)\.class", "login", _CLASS, rf"{_KAFKAS}.*"),
    _row(
        r"(sasl\.oauthbearer\.)?jwt\.retriever\.class",
        "login",
        _CLASS,
        rf"{_KAFKAS}oauthbearer\.(Default|ClientCredentials|File)JwtRetriever",
    ),
    _row(
        r"sasl\.oauthbearer\.metadata\.authentication\..*",
        "login",
        "takes tokens from the metadata service of a cloud: give oauth_cb a function that calls it",
        "none",
    ),
    _row(
        r"sasl\.oauthbearer\.assertion($|\..*)",
        "login",
        "takes tokens for a signed assertion: give oauth_cb, or sasl.oauthbearer.client.secret without it",
    ),
    _row(
        r"sasl\.oauthbearer\.header\.urlencode",
        "login",
        "changes how the client's secret is sent: leave it out, or give oauth_cb",
        "false",
    ),
    _row(r"oauthbearer_token_refresh_cb", "login", "is a function of C: give oauth_cb"),
    _row(r"sasl\.kerberos\.kinit\.cmd", "weaker", "is not run: run it before, or give sasl.kerberos.keytab"),
    _row(r"ssl\.engine\.(factory\.class|location|id)|ssl_engine_callback_data", "tls", _KEY),
    _row(r"ssl\.providers?|security\.providers", "tls", _KEY, r"\s*|SunJSSE|default"),
    _row(
        r"ssl_key|ssl_certificate|ssl_ca", "tls", "is an object of C: give ssl.key.pem, ssl.certificate.pem, ssl.ca.pem"
    ),
    _row(r"ssl\.ca\.certificate\.stores", "tls", "is for Windows: give ssl.ca.location", r"\s*|Root"),
    _row(r"ssl\.certificate\.verify_cb", "weaker", "is not called, so certificates are checked without it"),
    _row(r"https\.ca\.pem", "login", "is not read: give https.ca.location"),
    _row(r"ssl\.(enabled\.)?protocols?", "weaker", _PYTHONS, r"(TLS(v1\.[23])?[,\s]*)+"),
    _row(r"ssl\.(cipher\.suites|curves\.list|sigalgs\.list)|ssl_ciphers", "weaker", _PYTHONS, r"\s*"),
    _row(r"ssl\.(key|trust)manager\.algorithm", "weaker", _PYTHONS, r"SunX509|NewSunX509|IbmX509|PKIX"),
    _row(
        r"socks.*|([\w.]+[._])?proxy([._]url)?",
        "connect",
        "is not used, and the brokers would be reached without it: run featuregate where it needs no proxy",
    ),
    _row(
        r"client\.dns\.lookup",
        "weaker",
        "is not used: brokers are reached by the names in the list, which certificates and Kerberos must have",
        r"use_all_dns_ips|default",
    ),
    _row(r"api\.version\.request", "weaker", "is not used: featuregate always asks for the versions", "true|1|t"),
    _row(r"plugin\.library\.paths", "weaker", "is not used: no library is loaded", r"\s*"),
    _row(
        r"sasl\.login\.(connect|read|refresh|retry)\..*|sasl\.kerberos\.(min|ticket)\..*"
        r"|sasl\.oauthbearer\.(clock|expected|jwks|scope\.claim|sub\.claim|jwt\.validator)\..*"
        r"|ssl\.(client\.auth|secure\.random\.implementation)|ssl\.allow\..*",
        "none",
    ),
    _row(r"(sasl|ssl|security|enable\.s[as]s?l)[._].*", "weaker", "is not a property that featuregate knows"),
)
"""The first row that fits a name counts."""

_OTHER_SERVICES: Final = ("schema.registry.", "confluent.", "producer.confluent.", "consumer.confluent.")
_SECURITY: Final = ("security.", "sasl.", "ssl.", "sasl_", "ssl_", "security_")
_SPELLED: Final = {
    "".join(filter(str.isalpha, spelling)).lower(): key.name
    for key in KEYS
    for spelling in key.spellings
    if spelling.startswith(_SECURITY)
}
_LONGEST: Final = max(map(len, _SPELLED))
_SHORTEST: Final = min(map(len, _SPELLED))


def refused(unread: Mapping[str, object], *effects: Effect) -> tuple[str, str] | None:
    """Return the first property that must not be ignored, and what it means."""
    return next(((name, row.meaning) for name, row in _rows(unread) if row.effect in effects), None)


def weaker(unread: Mapping[str, object], protocol: str) -> dict[str, str]:
    """Return the properties without effect that other clients obey with this protocol, and what each means."""
    unused = tuple(kind for kind in ("ssl", "sasl") if kind.upper() not in protocol.split("_"))
    return {name: row.meaning for name, row in _rows(unread) if row.effect == "weaker" and not name.startswith(unused)}


def _rows(unread: Mapping[str, object]) -> Iterator[tuple[str, OtherKey]]:
    for name, value in unread.items():
        row = next((row for row in OTHERS if row.names.fullmatch(name)), None)
        if row is not None and not (row.same and row.same.fullmatch(str(value).strip())):
            yield name, row


def require_plain_names(prefix: str, read: Collection[str], ignored: Collection[str]) -> None:
    """Raise `ConfigError` where the protocol is not set, and a security property has the name of another program.

    ``read`` are the names of `PropertyKey` that are set, ``ignored`` those that are not read.
    """
    for given in ignored if "security.protocol" not in read else ():
        if given.startswith(_OTHER_SERVICES):
            continue
        letters = "".join(filter(str.isalpha, given)).lower()[-_LONGEST:]
        for at in range(max(1, len(letters) - _SHORTEST + 1)):
            meant = _SPELLED.get(letters[at:])
            if meant is not None and not any(row.names.fullmatch(given) for row in OTHERS[:-1]):
                problem = f"has no effect, since it is the name for another program: write {prefix}{meant}"
                raise ConfigError(given, problem)
