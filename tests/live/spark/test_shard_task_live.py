"""One shard of a batch and whoever else would write it: twins, and what dead drivers leave, by real Kafka."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from eos.pipes import BOUND, Pipe

from featuregate.testing import LocalKafka
from featuregate_spark import ProgressLost, TransactionTimedOut, WriteFailed
from featuregate_spark.sink.progress import Progress
from featuregate_spark.sink.shard_task import Committed, write_shard
from featuregate_spark.sink.shards import Batch, Shard, Sharding
from featuregate_spark.sink.startup import progress_at_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.live, pytest.mark.slow]

SHARDS = 2
AT_ONCE = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
"""Lets the coordinator abort a transaction as soon as it has timed out; by default it looks every 10 s."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka("4.2.0", properties=AT_ONCE) as cluster:
        yield cluster


def batch_of(kafka: LocalKafka, name: str, batch_id: int = 0, **more: Any) -> Batch:
    """Give a batch of a query of its own."""
    topic = Pipe.on(kafka, name, partitions=2 * SHARDS).sink
    connection = kafka.client_config()
    terms = {"query": name, "batch_id": batch_id, "sharding": Sharding(SHARDS), "progress_topic": topic, "topic": topic}
    return Batch(
        **{**terms, "producer": connection, "connection": connection, "stable_offsets": True, "timeout": BOUND} | more
    )


def rows_of(shard: Shard, *values: bytes) -> pa.RecordBatch:
    """Give rows as the plan gives them."""
    nothing = [None] * len(values)
    columns = {
        "shard": pa.array([shard.number] * len(values), pa.int32()),
        "key": pa.array(nothing, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(nothing, pa.string()),
        "partition": pa.array([0] * len(values), pa.int32()),
        "headers": pa.array(nothing, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        "here": pa.array([True] * len(values)),
    }
    return pa.RecordBatch.from_pydict(columns)


def told(done: Committed) -> tuple[int, bool]:
    """Give how many rows were written, and whether another attempt had committed them."""
    return done.rows, done.skipped


def values_in(kafka: LocalKafka, batch: Batch) -> list[bytes]:
    """Read what is committed."""
    config = {"group.id": "values", "isolation.level": "read_committed", "enable.partition.eof": True}
    found: list[bytes] = []
    with Consumer(kafka.client_config({**config, "auto.offset.reset": "earliest"})) as consumer:
        consumer.assign([TopicPartition(batch.progress_topic, 0, 0)])
        while True:
            (message,) = consumer.consume(1, BOUND)
            if message.error() is not None:
                return found
            found.append(message.value() or b"")


class Halting:
    """Rows of which the second part comes when the test lets it; by then the transaction is open."""

    def __init__(self, *parts: pa.RecordBatch) -> None:
        self._parts = parts
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield self._parts[0]
        self.begun.set()
        assert self.go_on.wait(BOUND)
        yield from self._parts[1:]


@pytest.fixture
def beside() -> Iterator[Callable[..., Any]]:
    """Run a function beside the test."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def test_who_comes_back_after_its_twin_has_written_writes_nothing(
    kafka: LocalKafka, beside: Callable[..., Any]
) -> None:
    """It was given up while it stood still; its rows never count, and it ends as if it had written."""
    shard = Shard(batch_of(kafka, "twins"), 1)
    rows = Halting(rows_of(shard, b"a"), rows_of(shard, b"b"))
    late = beside(write_shard, shard, iter(rows))
    assert rows.begun.wait(BOUND)
    assert told(write_shard(shard, iter([rows_of(shard, b"a", b"b")]))) == (2, False)
    rows.go_on.set()
    assert told(late.result(BOUND)) == (0, True)
    assert values_in(kafka, shard.batch) == [b"a", b"b"]
    assert told(write_shard(shard, iter([rows_of(shard, b"a", b"b")]))) == (0, True), "and so does whoever comes later"


def test_who_was_fenced_waits_until_its_twin_has_committed(kafka: LocalKafka, beside: Callable[..., Any]) -> None:
    """If it failed at once, Spark would begin a third attempt, which would fence the second."""
    shard = Shard(batch_of(kafka, "waiting"), 0)
    first, second = (Halting(rows_of(shard, b"a"), rows_of(shard, b"b")) for _ in range(2))
    fenced = beside(write_shard, shard, iter(first))
    assert first.begun.wait(BOUND)
    with ThreadPoolExecutor(1) as pool:
        twin = pool.submit(write_shard, shard, iter(second))
        assert second.begun.wait(BOUND)
        first.go_on.set()
        with pytest.raises(TimeoutError):
            fenced.result(2.0)
        second.go_on.set()
        assert told(twin.result(BOUND)) == (2, False)
    assert told(fenced.result(BOUND)) == (0, True)
    assert values_in(kafka, shard.batch) == [b"a", b"b"]


def test_who_was_fenced_by_one_that_never_commits_fails_in_the_end(
    kafka: LocalKafka, beside: Callable[..., Any]
) -> None:
    """Else rows that nobody wrote would pass for written."""
    shard = Shard(batch_of(kafka, "gone", timeout=3.0), 0)
    rows = Halting(rows_of(shard, b"a"), rows_of(shard, b"b"))
    fenced = beside(write_shard, shard, iter(rows))
    assert rows.begun.wait(BOUND)
    taken = Producer({**shard.batch.producer, "transactional.id": shard.transactional_id})
    taken.init_transactions(BOUND)
    rows.go_on.set()
    with pytest.raises(WriteFailed, match="the other attempt has not committed within 3 s"):
        fenced.result(BOUND)
    assert not values_in(kafka, shard.batch)


def dying(batch: Batch, number: int, *, says_where: bool) -> Producer:
    """Give what a driver leaves that dies amid a batch: an open transaction, before or after its progress was sent."""
    shard = Shard(batch, number)
    producer = Producer({**batch.producer, "transactional.id": shard.transactional_id})
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    producer.produce(batch.progress_topic, b"of the dead", partition=0)
    producer.flush(BOUND)
    if says_where:
        with Consumer({**batch.connection, "group.id": batch.query}) as consumer:
            place = TopicPartition(batch.progress_topic, number, batch.batch_id + 1, batch.sharding.to_metadata())
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), BOUND)
    return producer


@pytest.mark.parametrize("wide", [Sharding(2 * SHARDS), Sharding(SHARDS, ("region",))])
def test_what_a_dead_driver_left_is_ended_before_a_layout_is_chosen(kafka: LocalKafka, wide: Sharding) -> None:
    """It had begun the batch in another sharding: if it could still commit, rows would be there twice, or never."""
    batch = batch_of(kafka, f"dead-{wide.shards}-{len(wide.shard_by)}")
    left = dying(replace(batch, sharding=wide), wide.shards - 1, says_where=True)
    progress = progress_at_start(batch, range(2 * SHARDS))
    assert set(progress.values()) == {None}
    with pytest.raises(KafkaException):
        left.commit_transaction(BOUND)
    assert not values_in(kafka, batch)


def test_shards_that_the_new_layout_has_no_more_are_ended_too(kafka: LocalKafka) -> None:
    """A task of the dead driver has not sent its progress yet, so that only its sharding, which others noted, tells."""
    batch = batch_of(kafka, "surplus")
    wide = replace(batch, sharding=Sharding(2 * SHARDS))
    assert told(write_shard(Shard(wide, 0), iter([rows_of(Shard(wide, 0), b"a")]))) == (1, False)
    left = dying(wide, 2 * SHARDS - 1, says_where=False)
    progress = progress_at_start(batch, range(2 * SHARDS))
    assert progress[0] == Progress(1, wide.sharding)
    with pytest.raises(KafkaException):
        left.commit_transaction(BOUND)


def test_a_shard_that_another_driver_wrote_in_its_own_layout_is_told(kafka: LocalKafka) -> None:
    """To skip it as written would lose rows in silence."""
    batch = batch_of(kafka, "other-driver")
    wide = replace(batch, sharding=Sharding(2 * SHARDS))
    write_shard(Shard(wide, 0), iter([rows_of(Shard(wide, 0), b"a")]))
    with pytest.raises(ProgressLost, match="two drivers run this query"):
        write_shard(Shard(batch, 0), iter([rows_of(Shard(batch, 0), b"a", b"b")]))
    assert values_in(kafka, batch) == [b"a"]


class Slow:
    """Rows of which the second part comes when Kafka has aborted the transaction of the first."""

    def __init__(self, batch: Batch, *parts: pa.RecordBatch) -> None:
        self._batch = batch
        self._parts = parts

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield self._parts[0]
        until = time.monotonic() + BOUND
        while not self._is_aborted():
            assert time.monotonic() < until, "the transaction was not aborted"
        yield from self._parts[1:]

    def _is_aborted(self) -> bool:
        try:
            committed, written = self._end("read_committed"), self._end("read_uncommitted")
        except KafkaException:  # a partition that was just made may have no leader yet
            return False
        return 0 < committed == written

    def _end(self, isolation: str) -> int:
        config = {**self._batch.connection, "group.id": "ends", "isolation.level": isolation}
        with Consumer(config) as consumer:
            return int(consumer.get_watermark_offsets(TopicPartition(self._batch.progress_topic, 0), BOUND)[1])


@pytest.mark.parametrize("rest", [0, 1], ids=["no_more_rows", "more_rows"])
def test_a_shard_that_outlives_its_transaction_says_which_property_to_raise(kafka: LocalKafka, rest: int) -> None:
    """At once, and with how long it took: nobody has taken its id, so that there is nobody to wait for."""
    batch = batch_of(kafka, f"slow-{rest}")
    batch = replace(batch, producer={**batch.producer, "transaction.timeout.ms": 1500, "linger.ms": 0})
    shard = Shard(batch, 0)
    rows = Slow(batch, rows_of(shard, b"a"), *[rows_of(shard, b"b")] * rest)
    with pytest.raises(TransactionTimedOut) as refused:
        write_shard(shard, iter(rows))
    assert re.search(r"was open for [\d.]+ s, longer than transaction\.timeout\.ms=1500", str(refused.value))
    assert "maxOffsetsPerTrigger" in str(refused.value)
    assert not values_in(kafka, batch)
    assert told(write_shard(shard, iter([rows_of(shard, b"a", b"b")]))) == (2, False), "the next attempt is free"


def test_a_shard_that_outlived_its_transaction_and_was_written_by_its_twin_is_written(kafka: LocalKafka) -> None:
    """Spark has begun a twin meanwhile: the late one ends as if it had written."""
    batch = batch_of(kafka, "slow-twin")
    slow = replace(batch, producer={**batch.producer, "transaction.timeout.ms": 1500, "linger.ms": 0})
    shard = Shard(slow, 0)

    def rows() -> Iterator[pa.RecordBatch]:
        yield from Slow(slow, rows_of(shard, b"a"))
        assert told(write_shard(Shard(batch, 0), iter([rows_of(shard, b"a", b"b")]))) == (2, False)
        yield rows_of(shard, b"b")

    assert told(write_shard(shard, rows())) == (0, True)
    assert values_in(kafka, batch) == [b"a", b"b"]
