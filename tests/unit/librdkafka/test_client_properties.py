"""Connections in librdkafka's spelling."""

import pickle
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from java_stores import jks, protected

from featuregate.errors import ConfigError
from featuregate_confluent.client import clients
from featuregate_librdkafka.client_properties import client_properties

JAAS = 'org.apache.kafka.common.security.{} required username="alice" password="s3cret";'


def spelled(**properties: str) -> dict[str, object]:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return client_properties({"bootstrap.servers": "a:1,[::1]:2", **given})


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
    """confluent-kafka calls it for each token."""
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


def test_a_token_source_that_is_a_value_travels() -> None:
    """A worker of Spark compares the properties of each batch with those of the batch before."""
    first, second = (
        spelled(
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url="https://tokens",
            sasl_oauthbearer_client_id="app",
            sasl_oauthbearer_client_secret="s3cret",
        )
        for _ in range(2)
    )
    assert pickle.loads(pickle.dumps(first)) == second
    assert "s3cret" not in repr(first)


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


def test_javas_own_stores_become_pem(tmp_path: Path) -> None:
    """librdkafka reads no JKS."""
    authority = trustme.CA()
    ours = authority.issue_cert("client")
    key = serialization.load_pem_private_key(ours.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    root, leaf = (
        ssl.PEM_cert_to_DER_cert(pem.bytes().decode()) for pem in (authority.cert_pem, ours.cert_chain_pems[0])
    )
    trust, store = tmp_path / "trust.jks", tmp_path / "store.jks"
    trust.write_bytes(jks([root], password="p"))
    store.write_bytes(jks(keys=[(protected(key, "p"), [leaf])], password="p"))
    found = spelled(
        security_protocol="SSL",
        ssl_truststore_location=str(trust),
        ssl_keystore_location=str(store),
        ssl_keystore_password="p",
    )
    assert found["ssl.ca.pem"] == ssl.DER_cert_to_PEM_cert(root)
    assert found["ssl.certificate.pem"] == ssl.DER_cert_to_PEM_cert(leaf)
    clients.admin(found)  # librdkafka takes it


def test_a_context_of_python_is_refused_with_advice() -> None:
    """librdkafka has a TLS library of its own."""
    config = {"bootstrap_servers": "a", "security_protocol": "SSL", "ssl_context": ssl.create_default_context()}
    with pytest.raises(ConfigError, match=r"ssl_context: librdkafka cannot use an SSLContext: give ssl_cafile"):
        client_properties(config)


def test_a_token_without_an_expiry_is_asked_for_again_after_a_minute() -> None:
    """librdkafka refuses a token that has expired."""

    class Provider:
        def token(self) -> str:
            return "t"

    config = {
        "bootstrap_servers": "a",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    token, expiry, _principal, _extensions = client_properties(config)["oauth_cb"]("")
    assert token == "t"
    assert expiry > datetime.now(UTC).timestamp() + 10


def kerberos(options: str = "", **properties: str) -> dict[str, object]:
    jaas = {"sasl_jaas_config": f"com.sun.security.auth.module.Krb5LoginModule required {options};"} if options else {}
    return spelled(security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI", **jaas, **properties)


def test_kerberos_is_a_keytab_or_a_ticket() -> None:
    """Without a keytab, librdkafka must not run kinit by one."""
    found = kerberos('useKeyTab=true keyTab="/k" principal="app@R" serviceName="s"')
    assert {name: value for name, value in found.items() if "kerberos" in name} == {
        "sasl.kerberos.service.name": "s",
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "app@R",
    }
    assert kerberos()["sasl.kerberos.kinit.cmd"] == ""


def test_kerberos_of_another_client_is_refused() -> None:
    """librdkafka has no property for it."""
    with pytest.raises(ConfigError, match="no ticket cache but the system's"):
        kerberos('useTicketCache=true ticketCache="/t"')


def test_a_delegation_token_is_refused() -> None:
    """librdkafka does not send the extension (KIP-48)."""
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="i" password="m" tokenauth=true;'
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: librdkafka has no delegation tokens"):
        spelled(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=login)


def test_revoked_certificates_stay_a_file(tmp_path: Path) -> None:
    """librdkafka has no property for their text."""
    path = tmp_path / "revoked.pem"
    path.write_text("a list")
    assert spelled(security_protocol="SSL", ssl_crl_location=str(path))["ssl.crl.location"] == str(path)
