"""Which clients a worker keeps from batch to batch, and when it makes new ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from shards import batch_on, commit_progress, rows_of, values_in

from featuregate_spark import WriteFailed
from featuregate_spark.sink.progress_reader import Clients
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Shard, Sharding

if TYPE_CHECKING:
    from mock_kafka import MockKafka

OFFSET_FETCH, INIT_PRODUCER_ID, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 9, 22, 25, 26, 28
WRITTEN = CommittedShard(rows=1, bytes=1, skipped=False)


def in_batch(shard: Shard, batch_id: int) -> Shard:
    return Shard(replace(shard.batch, batch_id=batch_id), shard.number)


def put(shard: Shard, value: bytes, kept: KeptClients) -> CommittedShard:
    return write_shards([shard], iter([rows_of(shard, value)]), kept)[0]


def test_the_next_batch_is_written_by_the_same_producer(kafka: MockKafka, shard: Shard, kept: KeptClients) -> None:
    """It neither takes its transactional id again nor reads the progress before it writes."""
    assert put(in_batch(shard, 0), b"a", kept) == WRITTEN
    kafka.wait_for(INIT_PRODUCER_ID)
    for batch_id, value in enumerate((b"b", b"c"), start=1):
        assert put(in_batch(shard, batch_id), value, kept) == WRITTEN
    assert kafka.count(INIT_PRODUCER_ID) == 0
    assert kafka.count(OFFSET_FETCH) == 2, "one read after each commit, and none before"
    assert values_in(shard.batch.connection, "output") == [b"a", b"b", b"c"]


@pytest.mark.parametrize("batch_id", [5, 7, 9])
def test_no_other_batch_is_written_without_a_look_at_the_progress(
    kafka: MockKafka, shard: Shard, kept: KeptClients, batch_id: int
) -> None:
    """Other workers may have written the batches between; a batch that comes again has been written."""
    assert put(in_batch(shard, 7), b"a", kept) == WRITTEN
    kafka.wait_for(INIT_PRODUCER_ID)
    commit_progress(shard, batch_id + 1)
    assert put(in_batch(shard, batch_id), b"again", kept) == CommittedShard()
    assert kafka.count(INIT_PRODUCER_ID) == 1


@pytest.mark.parametrize(
    ("failing", "request_key", "error"),
    [
        # a driver that starts fences all producers, and Kafka forgets an id that no producer has used for a week
        (1, ADD_OFFSETS, KafkaError.INVALID_PRODUCER_EPOCH),
        (1, ADD_OFFSETS, KafkaError.INVALID_PRODUCER_ID_MAPPING),
        # the client repeats the request, and the first one may reach the broker in the transaction of the next batch
        *((0, key, KafkaError._TRANSPORT) for key in (ADD_OFFSETS, TXN_OFFSET_COMMIT, END_TXN)),
    ],
    ids=str,
)
def test_a_kept_producer_is_replaced_before_it_sends_rows(
    kafka: MockKafka, shard: Shard, kept: KeptClients, failing: int, request_key: int, error: int
) -> None:
    for batch_id, value in enumerate((b"a", b"b")):
        if batch_id == failing:
            kafka.answer(request_key, [error])
        assert put(in_batch(shard, batch_id), value, kept) == WRITTEN
        if batch_id == 0:
            kafka.wait_for(INIT_PRODUCER_ID)
    assert kafka.count(INIT_PRODUCER_ID) == 1
    assert values_in(shard.batch.connection, "output") == [b"a", b"b"]


def test_a_batch_that_another_worker_has_written_meanwhile_is_skipped(
    kafka: MockKafka, shard: Shard, kept: KeptClients
) -> None:
    """The other worker has fenced the kept producer, and the new one reads the progress."""
    assert put(in_batch(shard, 0), b"a", kept) == WRITTEN
    commit_progress(shard, 2)
    kafka.answer(ADD_OFFSETS, [KafkaError.INVALID_PRODUCER_EPOCH])
    assert put(in_batch(shard, 1), b"b", kept) == CommittedShard()


def test_nothing_is_kept_of_a_task_that_failed(kafka: MockKafka, shard: Shard) -> None:
    """The next attempt at the batch begins with new clients."""
    made: list[str] = []

    class CountedConsumer(Consumer):
        def __init__(self, config: dict[str, object]) -> None:
            made.append("consumer")
            super().__init__(config)

    class CountedProducer(Producer):
        def __init__(self, config: dict[str, object]) -> None:
            made.append("producer")
            super().__init__(config)

    def rows() -> Iterator[object]:
        yield rows_of(shard, b"of the task that failed")
        raise ZeroDivisionError

    with closing(KeptClients(Clients(CountedConsumer, CountedProducer))) as kept:
        assert put(in_batch(shard, 0), b"a", kept) == WRITTEN
        before = sorted(made)
        with pytest.raises(ZeroDivisionError):
            write_shards([in_batch(shard, 1)], rows(), kept)  # type: ignore[arg-type]
        assert sorted(made) == before == ["consumer", "producer"]
        assert put(in_batch(shard, 1), b"b", kept) == WRITTEN
    assert sorted(made) == sorted(before * 2)
    # A mock cluster keeps the rows of an aborted transaction, if they were sent before the task failed.
    found = values_in(shard.batch.connection, "output")
    assert [value for value in found if value != b"of the task that failed"] == [b"a", b"b"]


def test_a_batch_with_other_options_is_written_by_new_clients(
    kafka: MockKafka, shard: Shard, kept: KeptClients
) -> None:
    """The compression may change when a gate opens, and the sharding when a driver starts."""
    assert put(in_batch(shard, 0), b"a", kept) == WRITTEN
    for batch_id, more in enumerate(
        ({"producer": {**shard.batch.producer, "compression.type": "gzip"}}, {"sharding": Sharding(1)}), start=1
    ):
        kafka.wait_for(INIT_PRODUCER_ID)
        changed = Shard(replace(shard.batch, batch_id=batch_id, **more), 0)
        assert put(changed, b"b", kept) == WRITTEN
        assert kafka.count(INIT_PRODUCER_ID) == 1


def test_a_worker_keeps_the_clients_of_its_last_batches_and_queries(kafka: MockKafka) -> None:
    """It closes the others: another worker writes those shards now, or the query has ended."""
    closed: list[str] = []

    class CountedConsumer(Consumer):
        def close(self) -> None:
            closed.append("consumer")
            super().close()

    class CountedProducer(Producer):
        def close(self, *_: object) -> bool:
            closed.append("producer")
            return bool(super().close())

    batch = batch_on({"bootstrap.servers": kafka.bootstrap})
    with closing(KeptClients(Clients(CountedConsumer, CountedProducer))) as kept:
        for batch_id, number in ((0, 0), (0, 1), (1, 0)):
            assert put(Shard(replace(batch, batch_id=batch_id), number), b"a", kept) == WRITTEN
        assert not closed
        assert put(Shard(replace(batch, batch_id=2), 0), b"a", kept) == WRITTEN
        assert closed == ["producer"], "that of shard 1, whose batch 1 another worker has written"
        for query in "abcd":
            kept.reader(replace(batch, query=query))
        assert closed == ["producer", "producer", "consumer"]


def test_an_error_of_the_group_is_the_error_of_the_task(kafka: MockKafka, shard: Shard, kept: KeptClients) -> None:
    """A kept producer hides no error that a new one meets, too."""
    assert put(in_batch(shard, 0), b"a", kept) == WRITTEN
    kafka.answer(TXN_OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED] * 2)
    with pytest.raises(WriteFailed, match="GROUP_AUTHORIZATION_FAILED"):
        put(in_batch(shard, 1), b"b", kept)
