"""The keyword arguments of kafka-python and aiokafka."""

import ssl
from typing import Any

import pytest

from featuregate.config import Settings
from featuregate.config.oauthbearer import TokenProvider
from featuregate.errors import ConfigError

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


class Provider:
    """A token provider."""

    def token(self) -> str:
        """Return a token."""
        return "hunter2"


def parse(**config: Any) -> Settings:
    """Parse keyword arguments of kafka-python."""
    return Settings.parse({"bootstrap_servers": "a", **config})


def refused(config: dict[str, Any]) -> ConfigError:
    """Return the error that these keyword arguments cause."""
    with pytest.raises(ConfigError) as caught:
        parse(**config)
    return caught.value


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


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"bootstrap.servers": "b"}, "bootstrap.servers"),
        ({"client.id": "x", "client_id": "y"}, "client.id"),
        ({"security_protocol": "SSL", "security.protocol": "SASL_SSL"}, "security.protocol"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"}, "sasl.mechanisms"),
    ],
)
def test_spellings_that_disagree_are_an_error(config: dict[str, Any], key: str) -> None:
    """The parser cannot know which of the two the app means."""
    error = refused(config)
    assert error.key == key
    assert "which means the same" in error.problem


def test_spellings_that_agree_are_none() -> None:
    """A list and a text with the same servers agree."""
    both = {"bootstrap_servers": ["a:1", "b:2"], "bootstrap.servers": "a:1,b:2"}
    assert [str(address) for address in Settings.parse(both).bootstrap] == ["a:1", "b:2"]


@pytest.mark.parametrize("servers", [[1], [None], {"a": 1}, ("a", b"b")])
def test_servers_that_are_no_texts_are_an_error(servers: object) -> None:
    """The error names the keyword."""
    assert refused({"bootstrap_servers": servers}).key == "bootstrap_servers"


def test_a_missing_property_is_named_in_the_apps_spelling() -> None:
    """An app with keywords sets keywords."""
    error = refused({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"})
    assert error.key == "sasl_plain_username"


def test_aiokafkas_default_mechanism_is_plain() -> None:
    """kafka-python has no default, and Java's is GSSAPI."""
    sasl = parse(security_protocol="SASL_SSL", sasl_plain_username="ann", sasl_plain_password="p").sasl
    assert sasl is not None
    assert sasl.mechanism == "PLAIN"


def test_host_names_that_are_checked_and_not_are_an_error() -> None:
    """The two properties have different values for the same check."""
    both = {"security_protocol": "SSL", "ssl_check_hostname": False, "ssl.endpoint.identification.algorithm": "https"}
    assert refused(both).key == "ssl_check_hostname"
    settings = parse(**{**both, "ssl.endpoint.identification.algorithm": "none"})
    assert settings.tls is not None
    assert not settings.tls.check_hostname


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


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile"])
def test_a_context_beside_certificates_is_an_error(pem: str, name: str) -> None:
    """kafka-python ignores the certificates then; the app cannot know."""
    error = refused({"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), name: pem})
    assert str(error) == f"ssl_context: {name} is given too: keep one of them"


def test_a_context_that_is_none_is_an_error() -> None:
    """A path may be there by mistake."""
    error = refused({"security_protocol": "SSL", "ssl_context": "hunter2"})
    assert str(error) == "ssl_context: must be an ssl.SSLContext, not a str"


OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


def test_a_token_provider_is_a_source_of_tokens() -> None:
    """Its repr may hold a secret, and is not shown."""
    sasl = parse(**OAUTH, sasl_oauth_token_provider=Provider()).sasl
    assert sasl is not None
    assert isinstance(sasl.token, TokenProvider)
    assert "Provider object" not in repr(sasl)


def test_a_token_provider_without_its_method_is_an_error() -> None:
    """A function belongs to oauth_cb."""
    error = refused({**OAUTH, "sasl_oauth_token_provider": lambda: "hunter2"})
    assert str(error) == "sasl_oauth_token_provider: must have a method token(), which a function has not"


def test_two_sources_of_tokens_are_an_error() -> None:
    """The parser cannot know which of the two the app means."""
    error = refused({**OAUTH, "sasl_oauth_token_provider": Provider(), "oauth_cb": print})
    assert error.key == "sasl_oauth_token_provider"
