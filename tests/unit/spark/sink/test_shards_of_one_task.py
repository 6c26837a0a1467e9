"""A task that writes several shards side by side, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from shards import FakeConsumer, FakeProducer, batch_on, commit_progress, rows_of, values_in

from featuregate_spark import NotReplayable, WriteFailed
from featuregate_spark.sink.progress_reader import Clients
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Batch, Shard, Sharding

if TYPE_CHECKING:
    from mock_kafka import MockKafka

PRODUCE, INIT_PRODUCER_ID, END_TXN = 0, 22, 26


def shards_of(batch: Batch, batch_id: int = 0) -> list[Shard]:
    return [Shard(replace(batch, batch_id=batch_id), number) for number in (0, 1)]


def mixed(shards: list[Shard], value: bytes) -> pa.RecordBatch:
    """Return two rows of each shard, in turn, as they come without a shuffle."""
    parts = [rows_of(shard, value + str(shard.number).encode()) for shard in (*shards, *shards)]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def test_each_shard_gets_its_rows_and_keeps_its_producer(kafka: MockKafka, batch: Batch, kept: KeptClients) -> None:
    """Rows that come mixed are parted by their shard, batch after batch."""
    for batch_id, value in enumerate((b"a", b"b", b"c", b"d", b"e")):
        shards = shards_of(batch, batch_id)
        done = write_shards(shards, iter([mixed(shards, value), mixed(shards, value)]), kept)
        assert done == [CommittedShard(rows=4, bytes=8, skipped=False)] * 2
    assert kafka.count(INIT_PRODUCER_ID) == 2
    found = values_in(batch.connection, "output")
    for number in (b"0", b"1"):
        own = [value for value in found if value.endswith(number)]
        assert own == [value + number for value in (b"a", b"b", b"c", b"d", b"e") for _ in range(4)]


def test_producers_of_batches_that_other_workers_wrote_are_replaced(
    kafka: MockKafka, batch: Batch, kept: KeptClients
) -> None:
    """This worker has written batch 0, and another one batch 1."""
    write_shards(shards_of(batch, 0), iter([mixed(shards_of(batch, 0), b"a")]), kept)
    for shard in shards_of(batch, 2):
        commit_progress(shard, 2)
    done = write_shards(shards_of(batch, 2), iter([mixed(shards_of(batch, 2), b"c")]), kept)
    assert done == [CommittedShard(rows=2, bytes=4, skipped=False)] * 2
    assert kafka.count(INIT_PRODUCER_ID) == 4


def test_a_shard_that_has_committed_is_skipped_beside_one_that_has_not(
    kafka: MockKafka, batch: Batch, kept: KeptClients
) -> None:
    """The task does not write its rows again (P7)."""
    shards = shards_of(batch)
    commit_progress(shards[0], 1)
    done = write_shards(shards, iter([mixed(shards, b"a")]), kept)
    assert done == [CommittedShard(), CommittedShard(rows=2, bytes=4, skipped=False)]
    assert values_in(batch.connection, "output") == [b"a1", b"a1"]


def test_an_error_of_the_rows_aborts_the_transactions_of_all_shards(
    kafka: MockKafka, batch: Batch, kept: KeptClients
) -> None:
    """No shard may commit a part of its rows."""
    shards = shards_of(batch)

    def rows() -> Iterator[pa.RecordBatch]:
        yield mixed(shards, b"a")
        kafka.wait_for(PRODUCE)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_shards(shards, rows(), kept)
    assert kafka.count(END_TXN) == 2


def test_an_error_of_one_shard_is_that_of_the_task(kafka: MockKafka, batch: Batch, kept: KeptClients) -> None:
    """The other one commits, and the next attempt skips it; nothing is kept of a task that failed."""
    shards = shards_of(batch)
    kafka.answer(END_TXN, [KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
    with pytest.raises(WriteFailed, match=r"^shard [01] of 2 .*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        write_shards(shards, iter([mixed(shards, b"a")]), kept)
    kafka.wait_for(INIT_PRODUCER_ID)
    assert (
        write_shards(shards, iter([mixed(shards, b"a")]), kept) == [CommittedShard(rows=2, bytes=4, skipped=False)] * 2
    )
    assert kafka.count(INIT_PRODUCER_ID) == 2


def test_a_shard_that_fails_at_once_leaves_no_other_transaction_open() -> None:
    """Readers of committed data would wait there until the transaction times out."""
    commits: list[str] = []

    class RefusedProducer(FakeProducer):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            self.transactional_id = config["transactional.id"]

        def commit_transaction(self, _timeout: float) -> None:
            commits.append(self.transactional_id)
            if self.transactional_id == "output-0":
                raise KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))

    batch = batch_on({}, sharding=Sharding(8))
    shards = [Shard(batch, number) for number in range(8)]
    for _ in range(10):  # threads decide what has not begun by then
        commits.clear()
        with (
            closing(KeptClients(Clients(FakeConsumer, RefusedProducer))) as kept,
            pytest.raises(WriteFailed, match=r"^shard 0 of 8 .*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ):
            write_shards(shards, iter([]), kept)
        assert sorted(commits) == [shard.transactional_id for shard in shards]


def test_a_fenced_shard_waits_for_the_other_attempt_and_the_rest_commits(kafka: MockKafka, batch: Batch) -> None:
    """The progress of a fenced shard is not read before the rest has committed: the other attempt may hold it."""
    shards = shards_of(batch)
    read: list[int] = []

    class RecordingConsumer(Consumer):
        def committed(self, wanted: list[TopicPartition], *more: float, **named: float) -> list[TopicPartition]:
            read.append(len(wanted))
            return super().committed(wanted, *more, **named)

    def rows() -> Iterator[pa.RecordBatch]:
        yield mixed(shards, b"a")
        for shard in shards:
            commit_progress(shard, 1)
        kafka.answer(END_TXN, [KafkaError.INVALID_PRODUCER_EPOCH])

    with closing(KeptClients(Clients(consumer=RecordingConsumer))) as kept:
        done = write_shards(shards, rows(), kept)
    assert sorted(each.skipped for each in done) == [False, True]
    assert set(read) == {1}


def test_rows_of_a_shard_of_another_task_are_refused(batch: Batch, kept: KeptClients) -> None:
    """A replay would look for these rows in their own shard (P8)."""
    own, other = shards_of(batch)
    with pytest.raises(NotReplayable, match=r"the task of shard 0 of 2 .* was given rows of shard 1"):
        write_shards([own], iter([mixed([own, other], b"a")]), kept)
    assert values_in(batch.connection, "output") == []
