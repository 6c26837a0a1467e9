"""The data source without Spark's JVM: its options and its reader, with fake brokers."""

import pickle
from collections.abc import Iterator

import pytest

from featuregate.errors import ConfigError, DiscoveryError
from featuregate.testing import FakeCluster
from featuregate_spark import KafkaFeatures
from featuregate_spark.source.data_source import FeatureReader, ReaderOptions
from featuregate_spark.source.rows import FeatureRow

TV = "transaction.version"
BOOTSTRAP = "kafka.bootstrap.servers"


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    with FakeCluster(finalized={TV: 2}) as cluster:
        yield cluster


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
        ({BOOTSTRAP: "b:9092", "timeout": "nan"}, "timeout: 'nan' is not a number of seconds above 0"),
        ({BOOTSTRAP: "b:9092", "broker_list": "none"}, "broker_list: 'none' is none of: cluster, bootstrap"),
        ({BOOTSTRAP: "b:9092", "interval": "5"}, "interval: is not an option of kafka_features"),
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
    with pytest.raises(ConfigError) as raised:
        KafkaFeatures({BOOTSTRAP: "b:9092", "sasl.password": "hush"}).schema()
    assert "sasl.password" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_the_repr_of_options_shows_no_secrets():
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
