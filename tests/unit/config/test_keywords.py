"""The keyword arguments of kafka-python and aiokafka."""

import ssl
from typing import Any

import pytest

from featuregate.config import Settings
from featuregate.config.oauthbearer import TokenProvider

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


class Provider:
    """A token provider."""

    def token(self) -> str:
        """Return a token."""
        return "hunter2"


def parse(**config: Any) -> Settings:
    """Parse keyword arguments of kafka-python."""
    return Settings.parse({"bootstrap_servers": "a", **config})


@pytest.fixture
def pem(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a file that exists."""
    path = tmp_path_factory.mktemp("pem") / "some.pem"
    path.write_text(PEM)
    return str(path)


def test_keywords_mean_what_librdkafkas_properties_mean(pem: str) -> None:
    """Equal configurations give equal settings."""
    keywords = {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "app",
        "request_timeout_ms": 7000,
        "socket_connection_setup_timeout_ms": 3000,
        "security_protocol": "SASL_SSL",
        "ssl_context": None,
        "ssl_check_hostname": False,
        "ssl_cafile": pem,
        "ssl_certfile": pem,
        "ssl_keyfile": pem,
        "ssl_password": "pw",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "hunter2",
        "linger_ms": 5,
    }
    properties = {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "app",
        "socket.timeout.ms": 7000,
        "socket.connection.setup.timeout.ms": 3000,
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.location": pem,
        "ssl.certificate.location": pem,
        "ssl.key.location": pem,
        "ssl.key.password": "pw",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "hunter2",
    }
    theirs, ours = Settings.parse(keywords), Settings.parse(properties)
    assert (theirs.tls, theirs.sasl) != (None, None)
    assert str(theirs).replace("ssl_cafile", "ssl.ca.location").replace(
        "ssl_certfile", "ssl.certificate.location"
    ).replace("ssl_keyfile", "ssl.key.location") == str(ours)
    assert theirs.sasl == ours.sasl


def test_aiokafkas_default_mechanism_is_plain() -> None:
    """kafka-python has no default, and Java's is GSSAPI."""
    sasl = parse(security_protocol="SASL_SSL", sasl_plain_username="ann", sasl_plain_password="p").sasl
    assert sasl is not None
    assert sasl.mechanism == "PLAIN"


def test_a_context_is_used_as_it_is() -> None:
    """Its checks are those of the settings."""
    context = ssl.create_default_context()
    tls = parse(security_protocol="SSL", ssl_context=context).tls
    assert tls is not None
    assert (tls.context, tls.verify, tls.check_hostname) == (context, True, True)
    context = ssl._create_unverified_context()
    tls = parse(security_protocol="SSL", ssl_context=context).tls
    assert tls is not None
    assert (tls.verify, tls.check_hostname) == (False, False)


OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


def test_a_token_provider_is_a_source_of_tokens() -> None:
    """Its repr may hold a secret, and is not shown."""
    sasl = parse(**OAUTH, sasl_oauth_token_provider=Provider()).sasl
    assert sasl is not None
    assert isinstance(sasl.token, TokenProvider)
    assert "Provider object" not in repr(sasl)
