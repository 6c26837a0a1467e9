"""Kerberos, in the spelling of each client, and delegation tokens."""

from typing import Any

import pytest

from featuregate.config import Settings
from featuregate.config.sasl import Kerberos, Sasl

KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def parsed(config: dict[str, Any], mechanism: str | None = "GSSAPI") -> Sasl:
    """Return the SASL settings of these properties."""
    base = {"bootstrap.servers": "a", "security.protocol": "SASL_PLAINTEXT"}
    sasl = Settings.parse({**base, **({"sasl.mechanism": mechanism} if mechanism else {}), **config}).sasl
    assert sasl is not None
    return sasl


def test_librdkafkas_properties() -> None:
    """With a keytab, the principal is librdkafka's by default."""
    assert parsed({"sasl.kerberos.keytab": "/k"}).kerberos == Kerberos(keytab="/k", principal="kafkaclient")
    config = {"sasl.kerberos.service.name": "s", "sasl.kerberos.principal": "app@R", "sasl.kerberos.keytab": "/k"}
    assert parsed(config).kerberos == Kerberos(service="s", principal="app@R", keytab="/k")


@pytest.mark.parametrize("mechanism", ["GSSAPI", "gssapi", None])
def test_gssapi_is_the_default_and_needs_nothing(mechanism: str | None) -> None:
    """The ticket is in the system's cache."""
    assert parsed({}, mechanism).kerberos == Kerberos()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('useKeyTab=true storeKey=true keyTab="/k" principal="app@R"', Kerberos(keytab="/k", principal="app@R")),
        ('useKeyTab=true keyTab="file:/k" serviceName="s"', Kerberos(keytab="/k", service="s")),
        ("useTicketCache=true", Kerberos()),
        ('useTicketCache=true ticketCache="/t" principal="app@R"', Kerberos(ticket_cache="/t", principal="app@R")),
        ('useKeyTab=false keyTab="/k"', Kerberos()),
    ],
)
def test_javas_login_module(options: str, expected: Kerberos) -> None:
    """Its options are those of the JDK."""
    assert parsed({"sasl.jaas.config": f"{KRB5} required {options};"}).kerberos == expected


def test_keywords_of_kafka_python() -> None:
    """The domain name stands in for the host of each broker."""
    config = {"sasl_kerberos_service_name": "s", "sasl_kerberos_domain_name": "kafka.example"}
    assert parsed(config).kerberos == Kerberos(service="s", host="kafka.example")


def test_a_delegation_token_is_told_by_javas_login_module() -> None:
    """No other client has a property for it."""
    sasl = parsed({"sasl.jaas.config": f'{SCRAM} required username=id password=mac tokenauth="true";'}, "SCRAM-SHA-256")
    assert (sasl.username, sasl.delegation_token) == ("id", True)
    sasl = parsed({"sasl.jaas.config": f"{SCRAM} required username=id password=mac;"}, "SCRAM-SHA-256")
    assert not sasl.delegation_token
