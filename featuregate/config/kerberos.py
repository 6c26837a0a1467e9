"""Kerberos settings (GSSAPI), in the spelling of each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.config.jaas import KERBEROS_MODULE, Login
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from featuregate.config.properties import Properties

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
        raise ConfigError(
            key, f"has a serviceName that differs from {properties.spelling('sasl.kerberos.service.name')}"
        )
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
