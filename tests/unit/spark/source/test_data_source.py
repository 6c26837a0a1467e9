"""The data source without Spark's JVM: its options, its reader and the offsets of its stream, with fake brokers."""

import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from featuregate.errors import ConfigError, DiscoveryError
from featuregate.testing import FakeCluster
from featuregate_spark import KafkaFeatures
from featuregate_spark.source.data_source import FeatureReader, FeatureStream, PushedReader
from featuregate_spark.source.reader_options import ReaderOptions
from featuregate_spark.source.rows import FeatureRow

TV = "transaction.version"
BOOTSTRAP = "kafka.bootstrap.servers"
SILENT = {BOOTSTRAP: "127.0.0.1:1", "timeout": "2"}


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    with FakeCluster(finalized={TV: 2}) as cluster:
        yield cluster


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream:
    """Calls a stream's reader as Spark does: asks for the latest offset, then plans and reads what is new."""

    def __init__(self, options: dict[str, str], goes_on_from: dict[str, Any] | None = None) -> None:
        self.clock = Clock()
        self.reader = FeatureStream(ReaderOptions.parse(options), self.clock)
        self.at = goes_on_from or self.reader.initialOffset()
        if goes_on_from is not None:
            assert self.reader.partitions(goes_on_from, goes_on_from) == []

    def next(self) -> list[FeatureRow]:
        """Poll after the interval; return the rows of the batch, none if nothing is new."""
        self.clock.now += 30
        end = json.loads(json.dumps(self.reader.latestOffset()))
        start, self.at = self.at, end
        return self.between(start, end)

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[FeatureRow]:
        return [row for part in self.reader.partitions(start, end) for row in self.reader.read(part)]


def levels(rows: list[FeatureRow]) -> list[tuple[int | None, int | None]]:
    return [(row.level, row.reported_level) for row in rows if row.feature == TV and row.scope == "cluster"]


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "kafka.bootstrap.servers: is missing: the bootstrap brokers, as host:port"),
        ({"bootstrap.servers": "b:9092"}, "bootstrap.servers: is not an option of kafka_features, which has broker, "),
        ({"path": "x"}, "path: is not an option of kafka_features"),
        ({BOOTSTRAP: "b:9092", "broker": "1,b"}, "broker: '1,b' is not a comma-separated list of broker ids"),
        ({BOOTSTRAP: "b:9092", "kind": "api, apis"}, "kind: 'api, apis' has items that are none of: api, feature"),
        ({BOOTSTRAP: "b:9092", "feature": " ,"}, "feature: is empty: omit it to get all"),
        ({BOOTSTRAP: "b:9092", "timeout": "0"}, "timeout: '0' is not a number of seconds above 0"),
        ({BOOTSTRAP: "b:9092", "interval": "nan"}, "interval: 'nan' is not a number of seconds above 0"),
        ({BOOTSTRAP: "b:9092", "levels": "newest"}, "levels: 'newest' is none of: latched, latest"),
        ({BOOTSTRAP: "b:9092", "broker_list": "none"}, "broker_list: 'none' is none of: cluster, bootstrap"),
        ({BOOTSTRAP: "b:9092", "pushdown": "1"}, "pushdown: '1' is none of: true, false"),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_used_is_one_line_that_names_it(options, says):
    """The error is raised when Spark asks for the columns, before any broker is asked."""
    with pytest.raises(ConfigError) as raised:
        KafkaFeatures(options).schema()
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


def test_a_misspelled_secret_is_not_shown():
    """The error names the option, and not its value."""
    with pytest.raises(ConfigError) as raised:
        KafkaFeatures({BOOTSTRAP: "b:9092", "sasl.password": "hush"}).schema()
    assert "sasl.password" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_the_repr_of_options_shows_no_secrets():
    """The repr of the options has no secret."""
    assert "hush" not in repr(ReaderOptions.parse({BOOTSTRAP: "b:9092", "kafka.sasl.password": "hush"}))


def test_a_wrong_property_of_kafka_is_named_as_it_was_spelled():
    """The error of the core has the prefix of Spark's options."""
    reader = FeatureReader(ReaderOptions.parse({BOOTSTRAP: "b:9092", "kafka.security.protocol": "TLS"}))
    with pytest.raises(ConfigError, match=r"^kafka.security.protocol: its value is none of: PLAINTEXT"):
        reader.partitions()


# ---------------------------------------------------------------------- one look


def test_a_batch_asks_brokers_once_and_may_be_read_again(kafka: FakeCluster):
    """A task that is retried gives the same rows, though the cluster has changed."""
    reader = FeatureReader(ReaderOptions.parse({BOOTSTRAP: kafka.bootstrap}))
    (part,) = reader.partitions()
    first = list(reader.read(part))
    kafka.finalize({TV: 1})
    asked = len(kafka.requests)
    again = pickle.loads(pickle.dumps(reader))
    assert list(again.read(pickle.loads(pickle.dumps(part)))) == first
    assert len(kafka.requests) == asked
    assert levels(first) == [(2, 2)]


def test_options_narrow_the_rows(kafka: FakeCluster):
    """Options hold lists with commas between."""
    options = {BOOTSTRAP: kafka.bootstrap, "broker": "1, 3", "kind": "api", "feature": "Fetch,Produce"}
    reader = FeatureReader(ReaderOptions.parse(options))
    (part,) = reader.partitions()
    assert [(row.broker, row.feature) for row in reader.read(part)] == [
        (1, "Produce"),
        (1, "Fetch"),
        (3, "Produce"),
        (3, "Fetch"),
    ]


def test_a_broker_that_does_not_answer_is_a_row_and_a_whole_cluster_an_error(kafka: FakeCluster):
    """The error names each broker."""
    options = {BOOTSTRAP: kafka.bootstrap, "kind": "error", "timeout": "5"}
    addresses = kafka.bootstrap.split(",")
    reader = FeatureReader(ReaderOptions.parse(options))
    kafka.broker(2).stop()
    (part,) = reader.partitions()
    assert [(row.broker, row.error) for row in reader.read(part)] == [(2, "ConnectFailed")]
    kafka.broker(1).stop()
    kafka.broker(3).stop()
    with pytest.raises(DiscoveryError) as raised:
        reader.partitions()
    assert all(address in str(raised.value) for address in addresses)


def test_controllers_are_asked_where_they_are_named():
    """Their rows say so."""
    with FakeCluster(controllers=1) as cluster:
        options = {"kafka.bootstrap.controllers": cluster.bootstrap_controllers, "feature": TV}
        reader = FeatureReader(ReaderOptions.parse(options))
        (part,) = reader.partitions()
        (controller,) = cluster.controllers
        rows = list(reader.read(part))
        assert [(row.role, row.scope) for row in rows] == [("controller", "cluster"), ("controller", "broker")]
        assert f"{rows[1].host}:{rows[1].port}" == controller.address


def test_only_the_reader_that_was_asked_for_takes_filters_over():
    """PySpark 4.1 refuses to plan with such a reader while its push-down is switched off, the default."""
    plain = KafkaFeatures({BOOTSTRAP: "b:9092"}).reader(None)
    assert "pushFilters" not in type(plain).__dict__
    assert isinstance(KafkaFeatures({BOOTSTRAP: "b:9092", "pushdown": "true"}).reader(None), PushedReader)


# ---------------------------------------------------------------------- the stream


def test_only_a_change_of_content_is_a_new_offset(kafka: FakeCluster):
    """A new epoch alone is no change."""
    stream = Stream({BOOTSTRAP: kafka.bootstrap})
    assert levels(stream.next()) == [(2, 2)]
    first = stream.at
    kafka.advance_epoch(5)
    assert stream.next() == []
    assert stream.at == first


def test_levels_are_latched_unless_the_latest_are_wanted(kafka: FakeCluster):
    """Either way an operator's downgrade is visible."""
    latched = Stream({BOOTSTRAP: kafka.bootstrap})
    latest = Stream({BOOTSTRAP: kafka.bootstrap, "levels": "latest"})
    latched.next()
    latest.next()
    kafka.finalize({TV: 1})
    assert levels(latched.next()) == [(2, 1)]
    assert levels(latest.next()) == [(1, 1)]


def test_a_restart_continues_from_the_offset(kafka: FakeCluster):
    """An unchanged cluster gives no row, the number of changes continues, and levels stay latched."""
    stream = Stream({BOOTSTRAP: kafka.bootstrap})
    stream.next()
    kafka.finalize({TV: 1})
    stream.next()
    again = Stream({BOOTSTRAP: kafka.bootstrap}, goes_on_from=stream.at)
    assert again.next() == []
    kafka.finalize({"group.version": 1})
    assert levels(again.next()) == [(2, 1)]
    assert again.at["n"] == 3


def test_a_replay_gives_the_same_rows_and_asks_no_broker(kafka: FakeCluster):
    """The offset holds their content."""
    stream = Stream({BOOTSTRAP: kafka.bootstrap})
    start = stream.at
    rows = stream.next()
    kafka.finalize({TV: 1})
    asked = len(kafka.requests)
    assert Stream({BOOTSTRAP: kafka.bootstrap}).between(start, stream.at) == rows
    assert len(kafka.requests) == asked


def test_brokers_are_asked_once_in_an_interval(kafka: FakeCluster):
    """Spark may ask for the latest offset a hundred times a second."""
    stream = Stream({BOOTSTRAP: kafka.bootstrap, "interval": "60"})
    stream.next()
    asked = len(kafka.requests)
    stream.next()
    assert len(kafka.requests) == asked
    stream.next()
    assert len(kafka.requests) > asked


def test_a_cluster_that_does_not_answer_is_logged_and_changes_nothing(
    kafka: FakeCluster, caplog: pytest.LogCaptureFixture
):
    """The stream continues, before the first answer and after it."""
    with caplog.at_level(logging.WARNING, "featuregate"):
        stream = Stream(SILENT)
        assert stream.next() == []
        assert stream.at == {"n": 0}
    assert "a poll failed: no broker answered: 127.0.0.1:1" in caplog.text
    assert Stream(SILENT, goes_on_from=stream.at).next() == []
    alive = Stream({BOOTSTRAP: kafka.bootstrap}, goes_on_from=stream.at)
    assert levels(alive.next()) == [(2, 2)]
