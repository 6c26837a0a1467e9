"""SASL settings: a mechanism, and its credentials."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.config.jaas import KERBEROS_MODULE, Login, parse_jaas
from featuregate.config.secrets import MissingCredentials, Secret
from featuregate.errors import ConfigError

if TYPE_CHECKING:
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


_OF_OTHERS = (
    *("sasl.jaas.config", "sasl.username", "sasl.password"),
    *("oauth_cb", "sasl_oauth_token_provider", "sasl.oauthbearer.token.endpoint.url"),
)


def _meant(properties: Properties, login: Login | None) -> str:
    """Return what to do about a mechanism that is not set, though the credentials are those of another than GSSAPI."""
    kerberos = login is not None and login.module == KERBEROS_MODULE
    given = next((name for name in _OF_OTHERS if properties.is_set(name)), None)
    return "" if kerberos or given is None else f"and {properties.spelling(given)} is for another mechanism: give it"


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


_SERVICE: Final = "kafka"
_LIBRDKAFKAS_PRINCIPAL: Final = "kafkaclient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberos:
    """The identity of the client, and the service to which the client proves it."""

    service: str = _SERVICE
    """The first part of the brokers' principals: ``kafka`` of ``kafka/host@REALM``."""
    host: str | None = None
    """The second part; None: the address of the broker, as the client connects to it."""
    principal: str | None = None
    """The client; None: the principal of the tickets, or the first one of the keytab."""
    keytab: str | None = None
    """A file with the client's keys; None: a ticket that ``kinit`` got."""
    ticket_cache: str | None = None
    """Where the tickets are; None: the system's default, which ``KRB5CCNAME`` changes."""


def read_kerberos(properties: Properties, login: Login | None) -> Kerberos:
    """Read the ``sasl.kerberos.`` properties, or Java's Krb5LoginModule."""
    if properties.is_set("sasl_kerberos_name"):
        problem = "is not supported: give sasl_kerberos_service_name and sasl_kerberos_domain_name"
        raise ConfigError(properties.spelling("sasl_kerberos_name"), problem)
    service = properties.text("sasl.kerberos.service.name")
    host = properties.text("sasl_kerberos_domain_name")
    if login is not None:
        return _of_login(properties, login, service, host)
    keytab, principal = properties.text("sasl.kerberos.keytab"), properties.text("sasl.kerberos.principal")
    return Kerberos(
        service=service or _SERVICE,
        host=host,
        keytab=keytab,
        principal=principal or (_LIBRDKAFKAS_PRINCIPAL if keytab else None),
    )


def _of_login(properties: Properties, login: Login, service: str | None, host: str | None) -> Kerberos:
    key, options = properties.spelling("sasl.jaas.config"), login.options
    if login.module != KERBEROS_MODULE:
        raise ConfigError(key, f"has a login module without a ticket: use {KERBEROS_MODULE} for GSSAPI")
    own = options.get("serviceName")
    if own and service and own != service:
        problem = f"has a serviceName that differs from {properties.spelling('sasl.kerberos.service.name')}"
        raise ConfigError(key, problem)
    for name in ("sasl.kerberos.keytab", "sasl.kerberos.principal"):
        if properties.is_set(name):
            raise ConfigError(properties.spelling(name), f"{key} is given too: keep one of them")
    keytab = options.get("keyTab") if _is_true(options, "useKeyTab") else None
    if _is_true(options, "useKeyTab") and not keytab:
        raise ConfigError(key, "has useKeyTab without a file: give keyTab")
    return Kerberos(
        service=own or service or _SERVICE,
        host=host,
        principal=options.get("principal"),
        keytab=keytab.removeprefix("file:") if keytab else None,
        ticket_cache=None if keytab else options.get("ticketCache"),
    )


def _is_true(options: dict[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"
