"""The task of one shard, against brokers that answer as each test says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from shards import FakeConsumer, FakeProducer, batch_on, commit_progress, records_of, rows_of, values_in, write

from featuregate_spark import ProgressLost, TransactionTimedOut, WriteFailed
from featuregate_spark.sink import shard_attempt, shards
from featuregate_spark.sink.progress_reader import Clients
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shards import Batch, Shard, Sharding

if TYPE_CHECKING:
    import pyarrow as pa
    from mock_kafka import MockKafka

PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 0, 26, 28


def test_rows_are_written_where_their_columns_say(kafka: MockKafka, shard: Shard) -> None:
    kafka.create_topic("other")
    records = [
        {"value": b"a", "key": b"k", "partition": 0, "headers": [{"key": "h", "value": b"v"}]},
        {"value": b"bb", "topic": "other"},
        {"value": None, "partition": 1},
    ]
    done = write(shard, [records_of(shard, *records)])
    assert done == CommittedShard(rows=3, bytes=4, skipped=False)
    assert (values_in(shard.batch.connection, "output"), values_in(shard.batch.connection, "other")) == (
        [b"a"],
        [b"bb"],
    )


@pytest.mark.parametrize(("next_batch", "sharding"), [(9, Sharding(2)), (8, Sharding(3))], ids=["later", "other"])
def test_progress_of_another_driver_is_an_error(shard: Shard, next_batch: int, sharding: Sharding) -> None:
    """To skip the shard would lose rows silently."""
    commit_progress(shard, next_batch, sharding.to_metadata())
    with pytest.raises(ProgressLost):
        write(shard, [rows_of(shard, b"a")])
    assert not values_in(shard.batch.connection, "output")


class FullProducer(FakeProducer):
    """Has room for one record."""

    def produce(self, topic: str, *_: object, **__: object) -> None:
        if self.queue:
            raise BufferError
        super().produce(topic)


class StuckProducer(FullProducer):
    """Has room for one record, which it never delivers."""

    def poll(self, _timeout: float) -> None:
        pass


@pytest.mark.slow
def test_a_task_waits_for_room_in_the_queue_of_the_producer() -> None:
    """The task fails if the queue stays full for the timeout."""
    shard, impatient = Shard(batch_on({}), 0), Shard(batch_on({}, timeout=0.1), 0)
    rows = rows_of(shard, b"a", b"b", b"c")
    done = write(shard, [rows], Clients(FakeConsumer, FullProducer))
    assert done == CommittedShard(rows=3, bytes=3, skipped=False)
    with pytest.raises(WriteFailed, match=r"the producer's queue was full for 0\.1 s"):
        write(impatient, [rows], Clients(FakeConsumer, StuckProducer))


class FailedProducer(FakeProducer):
    """Reports a fatal error, whose cause only the abort names."""

    cause = KafkaError._FENCED

    def produce(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def abort_transaction(self, _timeout: float) -> None:
        raise KafkaException(KafkaError(self.cause))


class DisconnectedProducer(FailedProducer):
    """Cannot abort its transaction either."""

    cause = KafkaError._TRANSPORT


def test_an_abort_that_was_fenced_names_the_cause_of_a_fatal_error() -> None:
    """The task then waits for the other attempt, and fails only if that attempt never commits."""
    shard = Shard(batch_on({}, timeout=0.1), 0)
    with pytest.raises(WriteFailed, match=r"_FATAL.*: _FENCED.*, and the other attempt has not committed"):
        write(shard, [rows_of(shard, b"a")], Clients(FakeConsumer, FailedProducer))


def test_a_transaction_that_cannot_be_aborted_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka aborts the transaction at its timeout, and the task fails with the first error."""
    shard = Shard(batch_on({}, timeout=0.1), 0)
    with pytest.raises(WriteFailed, match=r"_FATAL"):
        write(shard, [rows_of(shard, b"a")], Clients(FakeConsumer, DisconnectedProducer))
    assert "the transaction was not aborted, and ends by its timeout: _TRANSPORT" in caplog.text


def fenced_after_first(kafka: MockKafka, shard: Shard, *committed: str | None) -> Iterator[pa.RecordBatch]:
    """Yield a row; then another attempt fences the task, and commits (None: as the batch does) or does not."""
    yield rows_of(shard, b"a")
    for metadata in committed:
        commit_progress(shard, 8, metadata)
    kafka.answer(END_TXN, [KafkaError.INVALID_PRODUCER_EPOCH])


def test_a_fenced_task_succeeds_when_the_other_attempt_has_committed(kafka: MockKafka, shard: Shard) -> None:
    """If the task failed, Spark would start a third attempt."""
    assert write(shard, fenced_after_first(kafka, shard, None)) == CommittedShard()


def test_a_fenced_task_fails_when_another_driver_has_committed_other_shards(kafka: MockKafka, shard: Shard) -> None:
    """A worker of a dead driver, which divided the batch otherwise, went on late: to skip the shard would lose rows."""
    with pytest.raises(ProgressLost, match="two drivers run this query"):
        write(shard, fenced_after_first(kafka, shard, Sharding(3).to_metadata()))


class FencedProducer(FakeProducer):
    """Another attempt has fenced it."""

    def produce(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError.PRODUCER_FENCED))


def test_a_fenced_task_fails_when_the_other_attempt_does_not_commit() -> None:
    """Rows that no attempt has written must not pass for written."""
    shard = Shard(batch_on({}, timeout=0.1), 0)
    clients = Clients(consumer=FakeConsumer, producer=FencedProducer)
    with pytest.raises(WriteFailed, match=r"PRODUCER_FENCED.*, and the other attempt has not committed within 0.1 s"):
        write(shard, [rows_of(shard, b"a")], clients)


@pytest.mark.parametrize("committed", [True, False])
def test_a_fenced_task_with_an_old_transaction_reads_the_progress_once(
    monkeypatch: pytest.MonkeyPatch, kafka: MockKafka, shard: Shard, *, committed: bool
) -> None:
    """Kafka fences a transaction that has timed out: without another attempt there is nothing to wait for."""
    monkeypatch.setattr(shards, "_TRANSACTION_TIMEOUT_MS", 0)
    monkeypatch.setattr(shard_attempt, "QUICK_READ_SECONDS", shard.batch.timeout)  # the machine may be busy
    rows = fenced_after_first(kafka, shard, *[None] * committed)
    if committed:
        assert write(shard, rows) == CommittedShard()
    else:
        with pytest.raises(TransactionTimedOut, match=r"longer than transaction\.timeout\.ms=0"):
            write(shard, rows)


OF_SHARD = "^shard 0 of 2 of query 'output', batch 7: .*GROUP_AUTHORIZATION_FAILED"
OF_DELIVERY = "the first delivery error was for topic 'output', partition 0: TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        *((key, KafkaError.GROUP_AUTHORIZATION_FAILED, OF_SHARD) for key in (TXN_OFFSET_COMMIT, END_TXN)),
        # the error of the commit says only that some record was not delivered
        (PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED, OF_DELIVERY),
    ],
)
def test_a_refusal_fails_the_task(kafka: MockKafka, shard: Shard, request_: int, error: int, words: str) -> None:
    kafka.answer(request_, [error])
    with pytest.raises(WriteFailed, match=words):
        write(shard, [rows_of(shard, b"a")])


def test_a_row_without_a_topic_is_refused(batch: Batch) -> None:
    """The sink has no topic of its own."""
    shard = Shard(replace(batch, topic=None), 0)
    with pytest.raises(WriteFailed, match="a row has no topic, and the sink was given none"):
        write(shard, [rows_of(shard, b"a")])


def test_rows_of_a_batch_with_one_shard_need_not_name_it(shard: Shard) -> None:
    """Spark would write the column for each row, and there is one value."""
    alone = Shard(replace(shard.batch, sharding=Sharding(1)), 0)
    rows = rows_of(alone, b"a", b"b").select(["value", "partition"])
    assert write(alone, [rows]) == CommittedShard(rows=2, bytes=2, skipped=False)
    assert values_in(shard.batch.connection, "output") == [b"a", b"b"]
