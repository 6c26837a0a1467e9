"""How the clients of the sink reach Kafka: the session's connection, and what the app says instead."""

import ssl
import threading
from typing import Any

import pytest

from featuregate.errors import ConfigError
from featuregate_librdkafka.client_properties import connection_properties
from featuregate_spark.sink.options import sink_properties

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SESSION = {
    "kafka.bootstrap.servers": "a:1",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": f'{SCRAM} required username="alice" password="hush";',
}
OURS = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "broker.address.family": "any",
    "enable.ssl.certificate.verification": True,
    "ssl.endpoint.identification.algorithm": "https",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "hush",
}


def without(kind: str) -> dict[str, Any]:
    return {name: value for name, value in OURS.items() if kind not in name}


def test_a_sink_has_the_connection_of_its_session() -> None:
    """The session may spell properties in any way; consumers have the same. The name in request logs is its own."""
    assert sink_properties(SESSION, {}) == connection_properties(OURS) == OURS


def test_no_placeholder_reaches_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka knows no config.providers, and would send the placeholder as the password."""
    monkeypatch.setenv("KPW", "hush")
    env = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    given = {**without("sasl"), "sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": "${env:KPW}"}
    assert sink_properties(SESSION, given | env) == {**given, "sasl.password": "hush"}
    jaas = f'{SCRAM} required username="alice" password="${{env:KPW}}";'
    session = SESSION | {f"kafka.{name}": text for name, text in env.items()} | {"kafka.sasl.jaas.config": jaas}
    assert sink_properties(session, {}) == OURS
    with pytest.raises(ConfigError, match=r"set config\.providers=env"):
        sink_properties(SESSION, given)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"linger.ms": 5, "client.id": "copies"}, {**OURS, "linger.ms": 5, "client.id": "copies"}),
        ({"ssl.ca.location": "/ca"}, {**without("ssl."), "ssl.ca.location": "/ca"}),
        ({"sasl.mechanism": "PLAIN"}, {**without("sasl."), "sasl.mechanism": "PLAIN"}),
        ({"bootstrap.servers": "b:2"}, {"bootstrap.servers": "b:2"}),
        ({"metadata.broker.list": "b:2", "acks": "1"}, {"metadata.broker.list": "b:2", "acks": "1"}),
    ],
)
def test_what_the_app_gives_wins(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """No password goes to other brokers, or beside the name of another user."""
    assert sink_properties(SESSION, given) == wanted


def test_the_app_replaces_what_librdkafka_cannot_use() -> None:
    """A context of Python's own TLS is no error of a sink that does not inherit it."""
    session = {"bootstrap_servers": "a:1", "security_protocol": "SSL", "ssl_context": ssl.create_default_context()}
    with pytest.raises(ConfigError, match="librdkafka cannot use an SSLContext"):
        sink_properties(session, {})
    assert sink_properties(session, {"ssl.ca.location": "/ca"})["ssl.ca.location"] == "/ca"


def test_a_callback_that_does_not_travel_is_refused() -> None:
    """When the sink is made, and not by the first batch; the error shows nothing of the callback."""
    secret = ("hush", threading.Lock())
    session = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (secret[0], 4e9),
    }
    refused = r"^oauth_cb: cannot be sent to executors, since pickling it fails with TypeError"
    for config, given in ((session, {}), (SESSION, {"oauth_cb": session["oauth_cb"]})):
        with pytest.raises(ConfigError, match=refused) as error:
            sink_properties(config, given)
        assert "hush" not in str(error.value)
    session["oauth_cb"] = lambda _: ("token", 4e9)
    assert sink_properties(session, {})["oauth_cb"]("")[0] == "token"
