"""Two attempts at one shard, and what a dead driver leaves behind, with real Kafka."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from eos.pipes import BOUND, Pipe
from shards import batch_on, rows_of, values_in, write

from featuregate.testing import LocalKafka
from featuregate_spark import TransactionTimedOut
from featuregate_spark.sink.progress import ShardProgress
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Batch, Shard, Sharding
from featuregate_spark.sink.startup import progress_at_start

pytestmark = [pytest.mark.live, pytest.mark.slow]

SHARDS = 2


def batch_of(kafka: LocalKafka, name: str, **more: Any) -> Batch:
    topic = Pipe.on(kafka, name, partitions=2 * SHARDS).sink
    more = {"progress_topic": topic, "topic": topic, **more}
    return batch_on(kafka.client_config(), name, batch_id=0, **more)


def committed_values(batch: Batch) -> list[bytes]:
    return values_in(batch.connection, batch.progress_topic)


class Halting:
    """Rows whose second part follows when the test allows it; the transaction is open by then."""

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
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def test_an_attempt_that_continues_after_the_other_has_committed_writes_nothing(
    kafka: LocalKafka, beside: Callable[..., Any]
) -> None:
    """Spark gave the attempt up while it was paused: readers never see its rows, and the attempt succeeds."""
    shard = Shard(batch_of(kafka, "twins"), 1)
    rows = Halting(rows_of(shard, b"a"), rows_of(shard, b"b"))
    late = beside(write, shard, iter(rows))
    assert rows.begun.wait(BOUND)
    assert write(shard, [rows_of(shard, b"a", b"b")]) == CommittedShard(2, 2, skipped=False)
    rows.go_on.set()
    assert late.result(BOUND) == CommittedShard()
    assert committed_values(shard.batch) == [b"a", b"b"]
    assert write(shard, [rows_of(shard, b"a", b"b")]) == CommittedShard(), "and a later attempt succeeds too"


def test_a_fenced_attempt_waits_until_the_other_has_committed(kafka: LocalKafka, beside: Callable[..., Any]) -> None:
    """If the attempt failed at once, Spark would start a third one, which would fence the second."""
    shard = Shard(batch_of(kafka, "waiting"), 0)
    first, second = (Halting(rows_of(shard, b"a"), rows_of(shard, b"b")) for _ in range(2))
    fenced = beside(write, shard, iter(first))
    assert first.begun.wait(BOUND)
    with ThreadPoolExecutor(1) as pool:
        twin = pool.submit(write, shard, iter(second))
        assert second.begun.wait(BOUND)
        first.go_on.set()
        with pytest.raises(TimeoutError):
            fenced.result(2.0)
        second.go_on.set()
        assert twin.result(BOUND) == CommittedShard(2, 2, skipped=False)
    assert fenced.result(BOUND) == CommittedShard()
    assert committed_values(shard.batch) == [b"a", b"b"]


def dying(batch: Batch, number: int, *, with_progress: bool) -> Producer:
    """Return the batch of a driver that died in it: its transaction is open, with or without its progress."""
    shard = Shard(batch, number)
    producer = Producer({**batch.producer, "transactional.id": shard.transactional_id})
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    producer.produce(batch.progress_topic, b"of the dead", partition=0)
    producer.flush(BOUND)
    if with_progress:
        with Consumer({**batch.connection, "group.id": batch.query}) as consumer:
            place = TopicPartition(batch.progress_topic, number, batch.batch_id + 1, batch.sharding.to_metadata())
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), BOUND)
    return producer


@pytest.mark.parametrize("wide", [Sharding(2 * SHARDS), Sharding(SHARDS, ("region",))])
def test_the_transaction_of_a_dead_driver_is_aborted_before_a_sharding_is_chosen(
    kafka: LocalKafka, wide: Sharding
) -> None:
    """If the transaction could still commit in its other sharding, rows would be duplicated or lost."""
    batch = batch_of(kafka, f"dead-{wide.shards}-{len(wide.shard_by)}")
    left = dying(replace(batch, sharding=wide), wide.shards - 1, with_progress=True)
    progress = progress_at_start(batch, range(2 * SHARDS))
    assert set(progress.values()) == {None}
    with pytest.raises(KafkaException):
        left.commit_transaction(BOUND)
    assert not committed_values(batch)


def test_shards_that_the_new_sharding_lacks_are_fenced_too(kafka: LocalKafka) -> None:
    """The dead driver's task has sent no progress, so that only the progress of other shards shows its sharding."""
    batch = batch_of(kafka, "surplus")
    wide = replace(batch, sharding=Sharding(2 * SHARDS))
    assert write(Shard(wide, 0), [rows_of(Shard(wide, 0), b"a")]) == CommittedShard(1, 1, skipped=False)
    left = dying(wide, 2 * SHARDS - 1, with_progress=False)
    progress = progress_at_start(batch, range(2 * SHARDS))
    assert progress[0] == ShardProgress(1, wide.sharding)
    with pytest.raises(KafkaException):
        left.commit_transaction(BOUND)


class Slow:
    """Rows whose second part follows when Kafka has aborted the transaction of the first."""

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
    """The task fails at once and names the seconds, because there is no other attempt to wait for."""
    batch = batch_of(kafka, f"slow-{rest}")
    batch = replace(batch, producer={**batch.producer, "transaction.timeout.ms": 1500, "linger.ms": 0})
    shard = Shard(batch, 0)
    rows = Slow(batch, rows_of(shard, b"a"), *[rows_of(shard, b"b")] * rest)
    with pytest.raises(TransactionTimedOut) as refused:
        write(shard, iter(rows))
    assert re.search(r"was open for [\d.]+ s, longer than transaction\.timeout\.ms=1500", str(refused.value))
    assert "maxOffsetsPerTrigger" in str(refused.value)
    assert not committed_values(batch)
    assert write(shard, [rows_of(shard, b"a", b"b")]) == CommittedShard(2, 2, skipped=False), "the next attempt is free"


def test_a_shard_that_outlived_its_transaction_succeeds_if_another_attempt_has_committed(kafka: LocalKafka) -> None:
    """Spark has started another attempt meanwhile."""
    batch = batch_of(kafka, "slow-twin")
    slow = replace(batch, producer={**batch.producer, "transaction.timeout.ms": 1500, "linger.ms": 0})
    shard = Shard(slow, 0)

    def rows() -> Iterator[pa.RecordBatch]:
        yield from Slow(slow, rows_of(shard, b"a"))
        assert write(Shard(batch, 0), [rows_of(shard, b"a", b"b")]) == CommittedShard(2, 2, skipped=False)
        yield rows_of(shard, b"b")

    assert write(shard, rows()) == CommittedShard()
    assert committed_values(batch) == [b"a", b"b"]


def test_two_workers_that_keep_their_producers_take_turns(kafka: LocalKafka) -> None:
    """Spark gives a shard to any worker. Each worker writes the batches that it is given, and no row counts twice."""
    batch = batch_of(kafka, "turns")
    with closing(KeptClients()) as one, closing(KeptClients()) as two:
        for batch_id, kept in enumerate([one, one, two, one, two, two, one, one]):
            shard = Shard(replace(batch, batch_id=batch_id), 0)
            rows = [rows_of(shard, b"%d" % batch_id)]
            assert write_shards([shard], iter(rows), kept) == [CommittedShard(1, 1, skipped=False)]
            assert write_shards([shard], iter(rows), two if kept is one else one) == [CommittedShard()], (
                "it comes again"
            )
    assert committed_values(batch) == [b"%d" % batch_id for batch_id in range(8)]


def test_a_kept_producer_that_was_fenced_sends_nothing(kafka: LocalKafka) -> None:
    """A driver that starts fences the producers of all shards, and only they write their batches."""
    batch = batch_of(kafka, "fenced")
    with closing(KeptClients()) as kept:
        for batch_id in range(2):
            shard = Shard(replace(batch, batch_id=batch_id), 0)
            rows = [rows_of(shard, b"%d" % batch_id)]
            assert write_shards([shard], iter(rows), kept) == [CommittedShard(1, 1, skipped=False)]
            progress_at_start(replace(shard.batch, sharding=Sharding(3), batch_id=batch_id), range(SHARDS))
    assert committed_values(batch) == [b"0", b"1"]


def both_shards(batch: Batch, batch_id: int) -> tuple[list[Shard], pa.RecordBatch]:
    shards = [Shard(replace(batch, batch_id=batch_id), number) for number in range(SHARDS)]
    parts = [rows_of(shard, b"%d-%d" % (batch_id, shard.number)) for shard in shards]
    return shards, pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def test_a_task_of_two_shards_writes_each_row_once(kafka: LocalKafka) -> None:
    """Rows that fail abort both transactions; another worker and a task for each shard may write the next batch."""
    batch = batch_of(kafka, "side-by-side")
    with closing(KeptClients()) as one, closing(KeptClients()) as two:
        for batch_id, kept in enumerate([one, one, two, one]):
            shards, rows = both_shards(batch, batch_id)

            def failing(rows: pa.RecordBatch = rows) -> Iterator[pa.RecordBatch]:
                yield rows
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                write_shards(shards, failing(), kept)
            assert write_shards(shards, iter([rows]), kept) == [CommittedShard(1, 3, skipped=False)] * SHARDS
            assert write_shards(shards, iter([rows]), two if kept is one else one) == [CommittedShard()] * SHARDS
        shards, rows = both_shards(batch, 4)
        assert write(shards[0], [rows.slice(0, 1)]) == CommittedShard(1, 3, skipped=False)
        assert write_shards(shards, iter([rows]), one) == [CommittedShard(), CommittedShard(1, 3, skipped=False)]
    assert sorted(committed_values(batch)) == [b"%d-%d" % (batch_id, n) for batch_id in range(5) for n in range(SHARDS)]
