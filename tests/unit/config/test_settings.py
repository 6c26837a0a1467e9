"""Settings from every spelling of a configuration."""

import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.config import KEYS, Address, Secret, Settings
from featuregate.config.keys import misspelt
from featuregate.errors import ConfigError

BOOT = "bootstrap.servers"
PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="hunter2";'


def refused(config, **options):
    """Return the error that this configuration causes."""
    with pytest.raises(ConfigError) as caught:
        Settings.parse(config, **options)
    return caught.value


def test_the_defaults_are_those_of_the_reference():
    """The limits are 5 s to connect, 5 s for a request, 15 s in all, 16 MiB for a frame, and 32 connections."""
    settings = Settings.parse("a:1")
    assert settings == Settings(bootstrap=(Address("a", 1),))
    bounds = (settings.connect_timeout, settings.request_timeout, settings.total_timeout)
    assert (*bounds, settings.max_frame, settings.concurrency) == (5, 5, 15, 16 * 1024 * 1024, 32)


def test_librdkafka_and_java_and_spark_spellings_mean_the_same():
    """The three spellings of one cluster give equal settings."""
    librdkafka = {
        "metadata.broker.list": "a:9092",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "app",
        "sasl.password": "hunter2",
    }
    java = {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN_JAAS,
    }
    spark = {f"kafka.{name}": value for name, value in java.items()} | {"subscribe": "t", "startingOffsets": "latest"}
    assert Settings.parse(librdkafka) == Settings.parse(java) == Settings.parse(spark)


def test_unrelated_properties_are_ignored():
    """An app can pass the configuration of its producer."""
    config = {"bootstrap.servers": "a", "group.id": 7, "enable.idempotence": "maybe", "on_commit": print, "acks": None}
    assert Settings.parse(config) == Settings.parse("a")


@pytest.mark.parametrize("prefix", ["", "kafka."])
@pytest.mark.parametrize(
    "given",
    [
        "bootstrap.server",
        "bootstap.servers",
        "bootstrap-servers",
        "Bootstrap.Servers",
        "spring.kafka.bootstrap-servers",
        "consumer.bootstrap.servers",
    ],
)
def test_a_misspelt_bootstrap_list_gets_a_hint(given, prefix):
    """The error that it is missing names what the app gives in its place."""
    assert str(refused({prefix + given: "a:1"})).endswith(f"; did you mean it by {prefix}{given}?")


@pytest.mark.parametrize(
    "name", ["socket.connection.setup.timeout.max.ms", "sasl.client.callback.handler.class", "session.timeout.ms"]
)
def test_a_property_of_kafka_is_not_misspelt(name):
    """Some properties that are not read have nearly the names of others that are."""
    assert misspelt([name, "security.protocol"]) == {}


@pytest.mark.parametrize("prefix", ["", "kafka."])
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("sasl.mechanisim", "sasl.mechanism"),
        ("sasl.mehcanism", "sasl.mechanism"),
        ("ssl.ca.locaton", "ssl.ca.location"),
        ("sasl_plain_pasword", "sasl_plain_password"),
    ],
)
def test_a_misspelt_property_of_security_is_a_warning_without_its_value(given, meant, prefix, caplog):
    """It has no effect, so the app might talk in plain text."""
    Settings.parse({prefix + "bootstrap.servers": "a", prefix + given: "hunter2"})
    said = f"{prefix}{given} has no effect, so connections may be less secure than meant: write {prefix}{meant}"
    assert caplog.record_tuples == [("featuregate", logging.WARNING, said)]


@pytest.mark.parametrize(
    "name",
    [
        "sasl.client.callback.handler.class",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.oauthbearer.jwks.endpoint.url",
        "security.providers",
        "ssl.cipher.suites",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl_ciphers",
        "socket.timeout.mss",
        "securitee",
    ],
)
def test_a_property_of_another_client_is_no_warning(name, caplog):
    """Apps share their dict with clients of Java, librdkafka and Python, and only security is worth a warning."""
    Settings.parse({"bootstrap.servers": "a", name: "x"})
    assert caplog.records == []


def test_with_a_spark_prefix_only_prefixed_names_count():
    """Spark passes no other property to Kafka."""
    assert Settings.parse({"kafka.bootstrap.servers": "a", "bootstrap.servers": "b"}).bootstrap[0].host == "a"


def test_controllers_are_asked_where_they_are_named():
    """The property does what `--bootstrap-controller` does."""
    assert Settings.parse({"bootstrap.controllers": "c:9093"}).role == "controller"


def test_timeouts_come_from_the_properties():
    """In milliseconds. In librdkafka request.timeout.ms limits how long a broker waits for its followers."""
    config = {BOOT: "a", "socket.connection.setup.timeout.ms": 1500, "request.timeout.ms": "2500"}
    settings = Settings.parse(config)
    assert (settings.connect_timeout, settings.request_timeout) == (1.5, 2.5)
    config["socket.timeout.ms"] = 7_000
    assert Settings.parse(config).request_timeout == 7


def test_settings_pickle_whole():
    """A Spark executor needs the password, too."""
    settings = Settings.parse(
        {
            "bootstrap.servers": "a",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": PLAIN_JAAS,
        }
    )
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert again.sasl.password.reveal() == "hunter2"


@given(st.text(min_size=1))
def test_invariant_12_a_secret_shows_itself_in_no_text(text):
    """repr, str, format and % all print "<secret>"."""
    secret = Secret(text)
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r}", "%s" % secret} == {"<secret>"}  # noqa: UP031 - logging formats so


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=4),
    st.lists(st.text()),
)


@given(st.dictionaries(st.sampled_from([spelling for key in KEYS for spelling in key.spellings]), values))
def test_any_values_of_known_properties_parse_or_are_a_config_error(config):
    """The parser raises no other exception, whatever the values."""
    try:
        settings = Settings.parse(config)
    except ConfigError:
        return
    assert settings.bootstrap


def test_every_key_is_named_once():
    """The table has no two rows that read the same property."""
    spellings = [spelling for key in KEYS for spelling in key.spellings]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("name", ["featuregate.trust.shared.addresses", "kafka.featuregate.trust.shared.addresses"])
def test_trust_in_shared_addresses_is_a_property_or_an_argument(name: str) -> None:
    """The argument is for apps whose dict also configures librdkafka, which refuses the property."""
    prefix = name.removesuffix("featuregate.trust.shared.addresses")
    config = {f"{prefix}bootstrap.servers": "h:1", name: "true"}
    assert Settings.parse(config).trust_shared_addresses
    assert not Settings.parse(config, trust_shared_addresses=False).trust_shared_addresses
    assert Settings.parse("h:1", trust_shared_addresses=True).trust_shared_addresses
    assert not Settings.parse("h:1").trust_shared_addresses
