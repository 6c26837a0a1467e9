"""Advice on Spark's own Kafka options, with real clusters: advised options work, and the others do not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from topics import create_topics, first_batch

from featuregate.testing import LocalKafka
from featuregate_spark import AdviceState, FeatureSession, kafka_options, with_kafka_options
from featuregate_spark.options import OPTIONS, SparkRole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [
    pytest.mark.proof("spark"),
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

BOUND = 60.0
ZSTD = 4
NO_PRODUCER_ID = -1
QUIET = logging.getLogger("tests.options")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
LEGACY = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


class Place(NamedTuple):
    """A cluster of one broker, and its view."""

    version: str
    kafka: LocalKafka
    data: Path
    features: FeatureSession
    spark: SparkSession
    admin: AdminClient

    def write(self, topic: str, values: int = 5, **options: Any) -> None:
        rows = self.spark.range(values, numPartitions=1).selectExpr("repeat(cast(id as string), 100) as value")
        to = {"kafka.bootstrap.servers": self.kafka.bootstrap, "topic": topic}
        rows.write.format("kafka").options(**to, **options).save()

    def read(self, topic: str, **options: Any) -> int:
        of = {"kafka.bootstrap.servers": self.kafka.bootstrap, "subscribe": topic}
        return self.spark.read.format("kafka").options(**of, **options).load().count()

    def groups(self) -> set[str]:
        return {each.group_id for each in self.admin.list_consumer_groups().result(BOUND).valid}


@pytest.fixture(scope="module", params=["2.4.1", "4.2.0"])
def place(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    data = tmp_path_factory.mktemp("data")
    with (
        LocalKafka(request.param, properties={"log.dirs": data}) as kafka,
        FeatureSession(spark, kafka.bootstrap) as features,
    ):
        yield Place(request.param, kafka, data, features, spark, AdminClient(kafka.client_config(), logger=QUIET))


@pytest.fixture
def topic(place: Place, request: pytest.FixtureRequest) -> str:
    name = f"topic-{crc32(request.node.name.encode())}"
    create_topics(place.kafka.client_config({"logger": QUIET}), name)
    return name


def abort(place: Place, topic: str) -> None:
    producer = Producer(place.kafka.client_config({"transactional.id": topic}), logger=QUIET)
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"aborted")
    producer.flush(BOUND)
    producer.abort_transaction(BOUND)


def test_a_writer_with_advice_compresses_and_is_idempotent(place: Place, topic: str) -> None:
    """The broker's log file shows both; acks and idempotence are on by default, as the advice says."""
    options = with_kafka_options({}, role="writer", features=place.features)
    assert options == {"kafka.compression.type": "zstd"}
    place.write(topic, **options)
    codec, producer_id = first_batch(place.data, topic)
    assert (codec, producer_id != NO_PRODUCER_ID) == (ZSTD, True)


@pytest.mark.parametrize(
    "options",
    [{"kafka.acks": "1"}, {"kafka.retries": "0"}, {"kafka.max.in.flight.requests.per.connection": "6"}],
    ids=str,
)
def test_options_that_exclude_idempotence_disable_it_or_fail_the_task(
    place: Place, topic: str, options: dict[str, str]
) -> None:
    """Kafka's client disables idempotence, or the task fails if the app has set it. The advice knows both."""

    def advice(**more: str) -> tuple[AdviceState, bool]:
        found = {each.name: each for each in kafka_options(place.features.view, "writer", {**options, **more})}
        return found["idempotence"].state, bool(found["idempotence"].conflicts)

    assert advice() == (AdviceState.MAY, True)
    place.write(topic, **options)
    assert first_batch(place.data, topic)[1] == NO_PRODUCER_ID
    assert advice(**{"kafka.enable.idempotence": "true"}) == (AdviceState.FAILS, True)
    with pytest.raises(Exception, match="ConfigException: Must set"):
        place.write(topic, **options, **{"kafka.enable.idempotence": "true"})


def test_a_reader_with_advice_does_not_see_aborted_records(place: Place, topic: str) -> None:
    """A reader without advice reads them."""
    place.write(topic, values=5)
    abort(place, topic)
    assert place.read(topic) == 8
    assert place.read(topic, **with_kafka_options({}, role="reader", features=place.features)) == 5


VALUES = {
    "kafka.group.protocol": "consumer",
    "kafka.partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "kafka.transaction.timeout.ms": "9000",
    "kafka.auto.offset.reset": "earliest",
    "kafka.enable.auto.commit": "false",
}
"""What one would set, where Kafka's own client is particular about it."""


def as_set(option: str) -> dict[str, str]:
    return {option: VALUES.get(option, "uniform")}


def wrong(role: SparkRole, *, fails: bool) -> list[str]:
    state = AdviceState.FAILS if fails else AdviceState.NO_EFFECT
    mine = (each for each in OPTIONS if each.role == role and each.support.state is state)
    return [spelling for each in mine for spelling in each.spellings]


@pytest.mark.parametrize("option", wrong("reader", fails=True))
def test_options_that_fail_a_reader_do_so(place: Place, topic: str, option: str) -> None:
    """Spark names the rejected option before it asks any broker."""
    with pytest.raises(Exception, match=rf"Kafka option '{option.removeprefix('kafka.')}' is not supported"):
        place.read(topic, **as_set(option))


@pytest.mark.parametrize("option", wrong("writer", fails=True))
def test_options_that_fail_a_writer_do_so(place: Place, topic: str, option: str) -> None:
    """Serializers are refused by name; with a transactional id the task fails, because Spark begins no transaction.

    It fails once the delivery timeout is over, of two minutes by default.
    """
    match = "IllegalStateException" if option == "kafka.transactional.id" else "is not supported"
    soon = {"kafka.delivery.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    place.write(topic, **soon)
    with pytest.raises(Exception, match=match):
        place.write(topic, **as_set(option), **soon)


@pytest.mark.parametrize("option", wrong("reader", fails=False))
def test_options_without_effect_on_a_reader_have_none(place: Place, topic: str, option: str) -> None:
    """The reader reads the same rows and joins no group, also where the cluster lacks the protocol."""
    place.write(topic)
    before = place.groups()
    assert place.read(topic, **as_set(option)) == 5
    assert place.groups() == before


def test_the_new_group_protocol_fails_where_the_driver_joins_a_group(place: Place, topic: str) -> None:
    """The driver joins a group with the older way of fetching offsets; the advice says that it fails."""
    place.write(topic)
    place.spark.conf.set(LEGACY, "true")
    try:
        before = place.groups()
        assert place.read(topic) == 5
        assert place.groups() > before, "this way a group is joined"
        with pytest.raises(Exception, match=r'not supported when "group\.protocol" is "consumer"'):
            place.read(topic, **{"kafka.group.protocol": "consumer"})
    finally:
        place.spark.conf.unset(LEGACY)
    found = {each.name: each for each in kafka_options(place.features.view, "reader")}
    assert LEGACY in found["group-protocol"].reason
