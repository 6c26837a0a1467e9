"""Usage reports on their way to a topic: each is delivered, or its loss is an error."""

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from mock_kafka import MockKafka

import featuregate as fg
from featuregate.errors import ConfigError
from featuregate.testing import FakeCluster
from featuregate_librdkafka.usage_topic import UsageTopic

BOUND = 60.0
TOPIC = "featuregate-usage"


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as cluster:
        yield cluster


def test_a_report_is_in_the_topic_when_the_call_returns(kafka: MockKafka) -> None:
    """By a producer of its own, which is made once, from any spelling of the properties."""
    own = {"kafka.bootstrap.servers": kafka.bootstrap}
    topic = UsageTopic(own)
    own["kafka.bootstrap.servers"] = "127.0.0.1:1"  # of the app's next client
    topic(b"one")
    (first,) = topic._own.values()
    topic(b"two")
    assert list(topic._own.items()) == [(os.getpid(), first)]
    assert sorted(kafka.values(TOPIC, 2)) == [b"one", b"two"]


def test_a_report_that_no_broker_takes_is_an_error() -> None:
    """The health counts the error."""
    with pytest.raises(KafkaException):
        UsageTopic({"bootstrap.servers": "127.0.0.1:1"}, timeout=1.0)(b"report")


def test_no_answer_of_a_producer_of_our_own_is_a_record_that_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A starved machine may not let librdkafka look at its records in time: the app has nothing to poll."""
    monkeypatch.setattr("featuregate_librdkafka.usage_topic._SCAN", -0.9)
    with pytest.raises(KafkaException, match="timed out"):
        UsageTopic({"bootstrap.servers": "127.0.0.1:1"}, timeout=1.0)(b"report")


def test_a_config_that_cannot_be_used_is_an_error() -> None:
    """As the discoverer with the same config has raised before."""
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        UsageTopic({"bootstrap.servers": "b:1", "security.protocol": "SLL"})(b"report")


def test_reports_that_fail_are_counted_in_health() -> None:
    """The health has the client's own words."""
    sender = UsageTopic({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.5)
    with FakeCluster(1) as cluster:
        features = fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(sender, app="orders"))
        with features:
            assert features.wait(BOUND)
        health = features.health()["usage"]
    assert (health["sent"], health["failed"] >= 1) == (0, True)
    assert "timed out" in health["last_error"]
