"""The session on the driver, with a stand-in for Spark."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from mock_kafka import MockKafka
from waiting import eventually

from featuregate.errors import ClosedError, ConfigError, NotPicklable
from featuregate.testing import FakeCluster
from featuregate_spark import FeatureSession, WriteFailed, WrongSession
from featuregate_spark.sink.kafka_sink import STABLE_OFFSETS_GATE, ZSTD_GATE

BOUND = 60.0


def spark() -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object(), broadcast=lambda value: value))


def connect() -> Any:
    return type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "is_stopped": False})()


def test_a_session_gives_the_decisions_of_its_gates(fake_kafka: FakeCluster) -> None:
    with FeatureSession(spark(), fake_kafka.bootstrap, gates={"old": "Produce>=3"}) as features:
        features.gate("new", "Produce>=99")
        assert features.snapshot().opened == {"old": True, "new": False}
        assert features.broadcast() == features.snapshot()
        assert features.view is not None
        assert features.health()["gates"].keys() == {"old", "new"}


def test_a_session_stays_on_the_driver(fake_kafka: FakeCluster) -> None:
    """The error of pickling a session says what to send instead."""
    with (
        FeatureSession(spark(), fake_kafka.bootstrap) as features,
        pytest.raises(NotPicklable, match=r"send features\.snapshot\(\)"),
    ):
        pickle.dumps(features)


def test_no_representation_of_a_session_shows_its_secrets(fake_kafka: FakeCluster) -> None:
    """The watch keeps the app's config, to start again in another process."""
    config = {"bootstrap.servers": fake_kafka.bootstrap, "sasl.password": "hush"}
    with FeatureSession(spark(), config) as features:
        assert "hush" not in repr(features) + repr(features._watch)


def test_spark_connect_has_no_broadcasts(fake_kafka: FakeCluster) -> None:
    """The error says what works on Spark Connect."""
    with (
        FeatureSession(connect(), fake_kafka.bootstrap) as features,
        pytest.raises(WrongSession, match=r"let the function close over features\.snapshot\(\)"),
    ):
        features.broadcast()


def test_a_closed_session_says_so(fake_kafka: FakeCluster) -> None:
    features = FeatureSession(spark(), fake_kafka.bootstrap)
    features.close()
    features.close()
    with pytest.raises(ClosedError, match="make a new FeatureSession"):
        features.snapshot()


def test_a_session_closes_when_its_spark_is_stopped(fake_kafka: FakeCluster) -> None:
    """The session closes at the next event of the poll loop, and passes that event to the hook."""
    stopped, events = spark(), []
    features = FeatureSession(stopped, fake_kafka.bootstrap, metrics=events.append)
    stopped.sparkContext._jsc = None
    features._on_event("polled")
    assert events[-1] == "polled"
    with pytest.raises(ClosedError):
        features.snapshot()


def test_a_sink_writes_to_the_cluster_of_the_session() -> None:
    """As the same user; the app may name other brokers; the gates of the sink are gates of the session."""
    with MockKafka() as kafka, MockKafka() as other, FeatureSession(spark(), kafka.bootstrap) as features:
        for each in (kafka, other):
            each.create_topic("output", partitions=2)
        sink = features.kafka_sink("copies", "output")
        assert sink._options.connection == {
            "bootstrap.servers": kafka.bootstrap,
            "security.protocol": "PLAINTEXT",
            "broker.address.family": "any",
        }
        assert features.snapshot().opened.keys() == {STABLE_OFFSETS_GATE, ZSTD_GATE}
        given: dict[str, Any] = {"producer": {"bootstrap.servers": other.bootstrap}}
        for elsewhere in (given, {"bootstrap": other.bootstrap}):
            sink = features.kafka_sink("copies", "output", **elsewhere)
            assert sink._options.connection == {"bootstrap.servers": other.bootstrap}


def test_a_sink_that_cannot_write_is_refused_before_its_query_starts() -> None:
    """A topic that is missing, also beside that of the progress, and more shards than it has partitions."""
    with MockKafka() as kafka, FeatureSession(spark(), kafka.bootstrap) as features:
        kafka.create_topic("output", partitions=2)
        with pytest.raises(WriteFailed, match="topic 'outptu' does not exist"):
            features.kafka_sink("copies", "outptu")
        with pytest.raises(WriteFailed, match="topic 'outptu' does not exist"):
            features.kafka_sink("copies", "outptu", progress_topic="output")
        for shards in (0, 3):
            with pytest.raises(ConfigError, match=r"^shards: "):
                features.kafka_sink("copies", "output", shards=shards)
        with pytest.raises(ConfigError, match=r"^bootstrap: is empty"):  # not the brokers that it reads from
            features.kafka_sink("copies", "output", "")


def test_only_the_driver_reports_its_usage() -> None:
    """The app is that of Spark. A process of Spark Connect's server gets a copy of the watch, and does not report."""
    driver = spark()
    names = {"spark.app.name": "copies", "spark.app.id": "local-1"}
    driver.conf, driver.version = SimpleNamespace(get=lambda name, *_: names[name]), "4.0.0"
    with MockKafka() as kafka:
        with FeatureSession(driver, kafka.bootstrap, usage_topic="featuregate-usage") as features:
            reporter = features._watch.usage
            assert reporter is not None
            assert reporter.name_process() == ("copies", "local-1", "spark", "4.0.0")
            assert pickle.loads(pickle.dumps(features._watch)).usage is None
            discoverer = features._watch.features
            assert discoverer.wait(BOUND)
        eventually(lambda: discoverer.health()["usage"]["sent"], "the last report", BOUND)
        assert discoverer.health()["usage"]["failed"] == 0
