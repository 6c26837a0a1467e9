"""TLS and SASL properties."""

from functools import partial

import pytest

from featuregate.config import Secret, Settings
from featuregate.config.oauthbearer import Callback, ClientCredentials, UnsecuredToken
from featuregate.errors import ConfigError

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def parse(config, **options):
    """Parse settings of one broker with these properties."""
    return Settings.parse({"bootstrap.servers": "a", **config}, **options)


def tls(**config):
    """Return the TLS settings, from names with underscores."""
    return parse({"security.protocol": "SSL", **{name.replace("_", "."): value for name, value in config.items()}}).tls


def sasl(mechanism, config, **options):
    """Return the SASL settings."""
    return parse({"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **config}, **options).sasl


@pytest.fixture
def file(tmp_path):
    """Return the path of a file that exists."""
    path = tmp_path / "some.pem"
    path.write_text(PEM)
    return path


@pytest.mark.parametrize(
    ("options", "checks"),
    [
        ({}, (True, True)),  # invariant 12
        *(({"ssl_endpoint_identification_algorithm": off}, (True, False)) for off in ("none", "NONE", "")),
        *(({"enable_ssl_certificate_verification": off}, (False, False)) for off in (False, "false", "0", "F")),
    ],
)
def test_certificates_and_host_names_are_checked_unless_that_is_turned_off(options, checks):
    """As in librdkafka and in Java; Python's ssl checks no host name without verifying certificates."""
    settings = tls(**options)
    assert (settings.verify, settings.check_hostname) == checks


def test_a_certificate_authority_is_a_file_a_folder_or_pem_text(file):
    """The parser reads the three properties of librdkafka and the two of Java."""
    assert tls(ssl_ca_location=str(file)).trust.location == str(file)
    assert tls(ssl_ca_location=file).trust.location == str(file)
    assert tls(ssl_ca_location=str(file.parent)).trust.location == str(file.parent)
    assert tls(ssl_ca_pem=PEM).trust.pem == Secret(PEM)
    assert tls(ssl_truststore_certificates=PEM).trust.pem == Secret(PEM)
    assert tls(ssl_truststore_location=str(file), ssl_truststore_password="p").trust.password == Secret("p")


def test_probe_stands_for_what_the_system_trusts():
    """librdkafka has this value for the system's authorities."""
    assert tls(ssl_ca_location="probe").trust is None


def test_our_certificate_comes_from_a_file_a_text_or_a_store(file):
    """The key is in a file or text of its own, or in the store."""
    separate = tls(ssl_certificate_location=str(file), ssl_key_location=str(file), ssl_key_password="p")
    assert (separate.certificate.location, separate.private_key.location) == (str(file), str(file))
    assert separate.key_password == Secret("p")
    java = tls(ssl_keystore_certificate_chain=PEM, ssl_keystore_key=PEM)
    assert java.certificate.key == "ssl.keystore.certificate.chain"
    store = tls(ssl_keystore_location=str(file), ssl_keystore_password="s")
    assert store.certificate.password == Secret("s")
    assert store.private_key is None


def test_scram_credentials_come_from_jaas():
    """The parser reads Java's login module as it reads librdkafka's properties."""
    config = {"sasl.jaas.config": f'{SCRAM} required username="app" password="hunter2";'}
    assert sasl("SCRAM-SHA-512", config) == sasl("scram-sha-512", {"sasl.username": "app", "sasl.password": "hunter2"})


@pytest.mark.parametrize("name", ["ssl.truststore.password", "ssl.keystore.password", "ssl.key.password"])
def test_a_blank_around_the_password_of_a_store_does_not_count(file, name):
    """ConfigDef.parseType of Java trims it, and what it trims are ASCII blanks only."""
    stores = {"ssl.truststore.location": file, "ssl.keystore.location": file}
    for prefix in ("", "kafka."):
        config = {"bootstrap.servers": "a", "security.protocol": "SSL", **stores, name: "\tchangeit \u00a0\r\n "}
        found = Settings.parse({f"{prefix}{key}": value for key, value in config.items()}).tls
        passwords = (found.trust.password, found.certificate.password, found.key_password)
        assert [password for password in passwords if password] == [Secret("changeit \u00a0")]
    assert parse({"security_protocol": "SSL", "ssl_password": " p "}).tls.key_password == Secret(" p ")


def test_a_password_keeps_its_white_space():
    """librdkafka and the Python clients send a password as it is; in Java it stands within a JAAS text."""
    assert sasl("PLAIN", {"sasl.username": " a ", "sasl.password": " p "}).password.reveal() == " p "
    assert sasl("PLAIN", {"sasl.username": " a ", "sasl.password": " p "}).username == "a"


@pytest.mark.parametrize(
    ("mechanism", "config"),
    [
        ("PLAIN", {}),
        ("PLAIN", {"sasl.username": "app"}),
        ("PLAIN", {"sasl.username": "app", "sasl.password": ""}),
        ("SCRAM-SHA-256", {"sasl.jaas.config": f'{SCRAM} required username="app" password="";'}),
        ("OAUTHBEARER", {}),
        ("OAUTHBEARER", {"sasl.oauthbearer.token.endpoint.url": "https://id.example"}),
        ("OAUTHBEARER", {"sasl.login.callback.handler.class": "com.example.Handler"}),
        ("AWS_MSK_IAM", {}),
        ("hunter2", {}),
        (None, {"sasl.username": "app", "sasl.password": "p"}),
        (None, {"sasl.password": "p"}),
    ],
)
def test_missing_credentials_name_both_ways_out_and_are_fine_where_brokers_are_listed(mechanism, config):
    """Brokers answer ApiVersions before authentication, and DescribeCluster only after it."""
    with pytest.raises(ConfigError, match=r"give it|use one of|give oauth_cb") as caught:
        sasl(mechanism, config)
    assert 'or set broker_list="bootstrap"' in caught.value.problem
    assert "hunter2" not in str(caught.value).lower()
    assert sasl(mechanism, config, broker_list="bootstrap") is None


def test_a_token_comes_from_the_callback_that_confluent_kafka_gets():
    """The settings keep the callback and the text of sasl.oauthbearer.config."""

    def fetch(config):
        return config, 0.0

    assert sasl("OAUTHBEARER", {"oauth_cb": fetch, "sasl.oauthbearer.config": "x=y"}).token == Callback(
        function=fetch, config="x=y"
    )


EXPECTED = ClientCredentials(
    endpoint="https://id.example/token",
    client_id="app",
    client_secret=Secret("hunter2"),
    scope="kafka",
    extensions=(("logicalCluster", "lkc-1"), ("identityPoolId", "pool-1")),
)


@pytest.mark.parametrize(
    "config",
    [
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "app",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
        },
        {
            "sasl.login.callback.handler.class": "org.apache.kafka...OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{OAUTH} required clientId="app" clientSecret="hunter2" scope="kafka"'
            ' extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";',
        },
    ],
    ids=["librdkafka", "Java"],
)
def test_a_token_comes_from_the_endpoint_in_either_spelling(config):
    """Java has credentials and extensions in the login module, and names Kafka's own handler."""
    endpoint = {"sasl.oauthbearer.token.endpoint.url": "https://id.example/token"}
    assert sasl("OAUTHBEARER", endpoint | config).token == EXPECTED


def test_an_unsecured_token_is_made_from_librdkafkas_config_and_from_javas_claims():
    """Development clusters accept tokens without a signature. Java's default login module makes the same token."""
    config = {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=admin scope=a,b lifeSeconds=60 extension_x=y",
    }
    assert sasl("OAUTHBEARER", config).token == UnsecuredToken(
        claims=(("sub", "admin"), ("scope", "a b")), life_seconds=60, extensions=(("x", "y"),)
    )
    config = {"sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="admin";'}
    assert sasl("OAUTHBEARER", config).token == UnsecuredToken(claims=(("sub", "admin"),))


def test_invariant_12_no_secret_appears_in_the_repr_of_settings():
    """The repr and str of settings contain no password, no key and no JAAS text."""
    config = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'a.PlainLoginModule required username="app" password="hunter2";',
        "ssl.certificate.pem": PEM,
        "ssl.key.pem": PEM.replace("AAAA", "hunter2"),
        "ssl.key.password": "hunter2",
    }
    settings = parse(config)
    assert "hunter2" not in f"{settings!r} {settings}"
    config = {"oauth_cb": partial(print, "hunter2"), "sasl.oauthbearer.config": "secret=hunter2"}
    assert "hunter2" not in repr(sasl("OAUTHBEARER", config))


CLIENT = {"sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": "b"}


def test_probe_stands_for_what_the_system_trusts_at_the_token_endpoint_too():
    """librdkafka has the value for https.ca.location, too."""
    config = {"sasl.oauthbearer.token.endpoint.url": "https://x", "https.ca.location": "probe", **CLIENT}
    assert sasl("OAUTHBEARER", config).token.ca_location is None
