"""Connections in librdkafka's spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trustme

from featuregate.config import Settings
from featuregate.errors import ConfigError
from featuregate_confluent.client import clients
from featuregate_librdkafka.core_settings import librdkafka_properties

if TYPE_CHECKING:
    from pathlib import Path

JAAS = 'org.apache.kafka.common.security.{} required username="alice" password="s3cret";'


def spelled(**properties: str) -> dict[str, object]:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return librdkafka_properties(Settings.parse({"bootstrap.servers": "a:1,[::1]:2", **given}))


def test_brokers_and_name() -> None:
    """IPv6 literals keep their brackets."""
    assert spelled(client_id="me") == {
        "bootstrap.servers": "a:1,[::1]:2",
        "security.protocol": "PLAINTEXT",
        "client.id": "me",
        "broker.address.family": "any",
    }


def test_javas_login_module_is_name_and_password() -> None:
    """Kafka's own tools have it in sasl.jaas.config, which librdkafka does not read."""
    found = spelled(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=JAAS.format("scram.ScramLoginModule"),
    )
    assert (found["sasl.mechanisms"], found["sasl.username"], found["sasl.password"]) == (
        "SCRAM-SHA-256",
        "alice",
        "s3cret",
    )
    clients.admin(found)  # librdkafka takes it


def test_a_token_source_becomes_a_callback() -> None:
    """Whoever makes the token, confluent-kafka calls it."""
    found = spelled(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        enable_sasl_oauthbearer_unsecure_jwt="true",
        sasl_oauthbearer_config="principal=alice lifeSeconds=60",
    )
    callback = found["oauth_cb"]
    assert callable(callback)
    token, expiry, _principal, extensions = callback("")
    assert (token.count("."), extensions) == (2, {})
    assert expiry > 1_600_000_000


def test_stores_become_pem(tmp_path: Path) -> None:
    """Java's PEM keystore holds chain and key in one file; librdkafka takes them apart, encrypted or not."""
    authority = trustme.CA()
    ours = authority.issue_cert("client")
    trust, store = tmp_path / "trust.pem", tmp_path / "store.pem"
    authority.cert_pem.write_to_path(str(trust))
    ours.private_key_and_cert_chain_pem.write_to_path(str(store))
    found = spelled(
        security_protocol="SSL",
        ssl_truststore_location=str(trust),
        ssl_keystore_location=str(store),
        ssl_endpoint_identification_algorithm="",
    )
    assert str(found["ssl.ca.pem"]).startswith("-----BEGIN CERTIFICATE")
    assert "PRIVATE KEY" in str(found["ssl.key.pem"])
    assert "PRIVATE KEY" not in str(found["ssl.certificate.pem"])
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    clients.admin(found)  # librdkafka takes it


def test_javas_own_store_is_refused_with_advice(tmp_path: Path) -> None:
    """The core's words; nothing is asked."""
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed rest")
    with pytest.raises(ConfigError, match="JKS keystore"):
        spelled(security_protocol="SSL", ssl_truststore_location=str(store))
