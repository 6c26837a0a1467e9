"""SASL settings: a mechanism, and its credentials."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.config.jaas import KERBEROS_MODULE, Login, parse_jaas
from featuregate.config.missing import MissingCredentials
from featuregate.config.secrets import Secret
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from featuregate.config.kerberos import Kerberos
    from featuregate.config.oauthbearer import TokenSource
    from featuregate.config.properties import Properties

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_OF_MSK = "AWS_MSK_IAM"
"""The one unsupported mechanism that an error names: any other word may be a password in the wrong place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """A mechanism with a user name and a password, with a source of tokens, or with Kerberos."""

    mechanism: str
    username: str = ""
    password: Secret | None = None
    token: TokenSource | None = None
    kerberos: Kerberos | None = None
    delegation_token: bool = False
    """Whether the user name is the id of a delegation token, and the password its HMAC (KIP-48)."""


def read_sasl(properties: Properties, *, bootstrap_only: bool) -> Sasl | None:
    """Read the ``sasl.`` properties of either spelling.

    The broker list of a cluster requires authentication. With ``bootstrap_only`` it is not fetched: then the result is
    None where credentials are missing, or where their mechanism is not supported.
    """
    try:
        return _read(properties)
    except MissingCredentials as error:
        if bootstrap_only:
            return None
        raise _of_jaas_file(properties, error) from None


_JAAS_FILE: Final = "java.security.auth.login.config"


def _of_jaas_file(properties: Properties, error: MissingCredentials) -> MissingCredentials:
    """Add to an error that Java's clients would have read the credentials from a JAAS file."""
    named = [name for name in ("KAFKA_OPTS", "JAVA_TOOL_OPTIONS") if _JAAS_FILE in os.environ.get(name, "")]
    named += [_JAAS_FILE] if _JAAS_FILE in properties.unread else []
    if not named or properties.is_set("sasl.jaas.config"):
        return error
    return error.beside(
        f"; {named[0]} names a JAAS file, which only Java reads: give what is between the braces of its KafkaClient as "
        "sasl.jaas.config"
    )


def _read(properties: Properties) -> Sasl:
    key = properties.spelling("sasl.mechanism")
    said = properties.text("sasl.mechanism")
    mechanism = (said or _default(properties)).upper()
    if mechanism == _OF_MSK:
        problem = (
            f"{_OF_MSK} is not supported: use OAUTHBEARER, which the same port takes, and give oauth_cb a function "
            "that calls MSK's signer; a file has it as oauth_cb=MODULE:FUNCTION"
        )
        raise MissingCredentials(key, problem)
    if mechanism not in MECHANISMS:
        raise MissingCredentials(key, f"it is not supported: use one of {', '.join(MECHANISMS)}")
    login = _login(properties)
    _require_own_credentials(properties, mechanism)
    if mechanism == "GSSAPI":
        if not said and (meant := _meant(properties, login)):
            raise MissingCredentials(key, f"is not set, which means GSSAPI, {meant}{properties.hint('sasl.mechanism')}")
        from featuregate.config.kerberos import read_kerberos  # noqa: PLC0415 - others do not wait for it

        return Sasl(mechanism=mechanism, kerberos=read_kerberos(properties, login))
    if mechanism == "OAUTHBEARER":
        from featuregate.config.oauthbearer import read_token_source  # noqa: PLC0415 - others do not wait for it

        return Sasl(mechanism=mechanism, token=read_token_source(properties, login))
    username, password = _name_and_password(properties, login)
    by_token = login is not None and login.options.get("tokenauth", "false").lower() == "true"
    if by_token and mechanism == "PLAIN":
        raise ConfigError(
            properties.spelling("sasl.jaas.config"), "has tokenauth, which only SCRAM knows: see sasl.mechanism"
        )
    return Sasl(mechanism=mechanism, username=username, password=password, delegation_token=by_token)


_HANDLER: Final = "sasl.login.callback.handler.class"


def _require_own_credentials(properties: Properties, mechanism: str) -> None:
    """Raise `MissingCredentials` where other clients would take the credentials from where featuregate takes none."""
    if mechanism == "OAUTHBEARER":
        if properties.is_set("oauth_cb") or properties.is_set("sasl_oauth_token_provider"):
            return  # the app's function gives the token
        handler = {}
    else:
        handler = {"sasl.login.class": properties.text(_HANDLER)} if properties.is_set(_HANDLER) else {}
    from featuregate.config.no_effect import refused  # noqa: PLC0415 - most apps have no other properties

    if found := refused(handler, "login"):
        raise MissingCredentials(properties.spelling(_HANDLER), found[1])
    if found := refused(properties.unread, "login"):
        raise MissingCredentials(properties.prefix + found[0], found[1])


def _default(properties: Properties) -> str:
    """Return the mechanism where none is set: GSSAPI, but PLAIN with the password of aiokafka, whose default it is."""
    return "PLAIN" if properties.spelling("sasl.password") == "sasl_plain_password" else "GSSAPI"


_BY_MODULE = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM-SHA-256 or SCRAM-SHA-512",
    "OAuthBearerLoginModule": "OAUTHBEARER",
    "IAMLoginModule": "OAUTHBEARER with an oauth_cb that calls MSK's signer",
}
_OF_TOKENS = ("oauth_cb", "sasl_oauth_token_provider", "sasl.oauthbearer.token.endpoint.url")


def _meant(properties: Properties, login: Login | None) -> str:
    """Return what to do about a mechanism that is not set, though the credentials are those of another than GSSAPI."""
    if login is not None and login.module in _BY_MODULE:
        jaas = properties.spelling("sasl.jaas.config")
        return f"without the {login.module} of {jaas}: give it, as {_BY_MODULE[login.module]}"
    if login is not None and login.module != KERBEROS_MODULE:
        return f"without the login module of {properties.spelling('sasl.jaas.config')}: give it"
    if properties.is_set("sasl.username") or properties.is_set("sasl.password"):
        return "without a password: give it, as PLAIN or SCRAM"
    given = next((name for name in _OF_TOKENS if properties.is_set(name)), None)
    return f"without {properties.spelling(given)}: give it, as OAUTHBEARER" if given else ""


def _login(properties: Properties) -> Login | None:
    if not properties.is_set("sasl.jaas.config"):
        return None
    text = properties.secret("sasl.jaas.config")
    return parse_jaas(properties.spelling("sasl.jaas.config"), text.reveal() if text else "", properties.unread)


def _name_and_password(properties: Properties, login: Login | None) -> tuple[str, Secret]:
    username, password = properties.text("sasl.username"), properties.secret("sasl.password")
    if login is not None:
        jaas = properties.spelling("sasl.jaas.config")
        if login.module not in {"PlainLoginModule", "ScramLoginModule"}:
            raise ConfigError(jaas, "has a login module without user name and password: use Plain- or ScramLoginModule")
        theirs = login.options.get("username"), Secret(login.options.get("password", ""))
        if (username is not None and username != theirs[0]) or (password is not None and password != theirs[1]):
            raise ConfigError(jaas, f"differs from {properties.spelling('sasl.username')} and its password")
        username, password = theirs
    if not username:
        raise MissingCredentials(properties.spelling("sasl.username"), "is missing: give it")
    if not password or not password.reveal():
        raise MissingCredentials(properties.spelling("sasl.password"), "is missing: give it")
    return username, password
