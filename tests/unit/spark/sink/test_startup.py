"""Who may write a batch: what a driver does before its first one, and which calls of two sinks are refused."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError
from shards import batch_on, commit_progress

from featuregate_spark import WriteFailed, WrittenBefore
from featuregate_spark.sink import startup
from featuregate_spark.sink.plans import Run
from featuregate_spark.sink.progress import ShardProgress
from featuregate_spark.sink.shards import Batch, Shard, Sharding
from featuregate_spark.sink.startup import QueryName, Writers, progress_at_start, sharding_at_start

if TYPE_CHECKING:
    from mock_kafka import MockKafka

OFFSET_FETCH, INIT_PRODUCER_ID = 9, 22
BOUND = 30.0


def fences(kafka: MockKafka) -> int:
    """Return how many producers were fenced since the last call of this function."""
    return kafka.count(INIT_PRODUCER_ID)


def test_nothing_is_fenced_where_the_progress_is_certain(kafka: MockKafka, batch: Batch) -> None:
    """Each fence takes a producer, and a batch that begins needs none."""
    for number in (0, 1):
        commit_progress(Shard(batch, number), 7)
    assert progress_at_start(batch, range(2)) == {0: ShardProgress(7, Sharding(2)), 1: ShardProgress(7, Sharding(2))}
    assert fences(kafka) == 0


@pytest.mark.parametrize("shard_by", [(), ("region",)])
def test_all_shards_are_fenced_where_the_sharding_changes(
    kafka: MockKafka, batch: Batch, shard_by: tuple[str, ...]
) -> None:
    """A task of the older driver could still commit its part in the older sharding (P8)."""
    commit_progress(Shard(batch, 0), 7, Sharding(3 - len(shard_by), shard_by).to_metadata())
    progress_at_start(batch, range(2))
    assert fences(kafka) == 2


def test_all_shards_are_fenced_while_a_transaction_holds_the_progress(
    monkeypatch: pytest.MonkeyPatch, kafka: MockKafka, batch: Batch
) -> None:
    """Fencing aborts the transaction now, and not at its timeout."""
    monkeypatch.setattr(startup, "QUICK_READ_SECONDS", 0.2)
    commit_progress(Shard(batch, 0), 7)
    kafka.answer(OFFSET_FETCH, [KafkaError.UNSTABLE_OFFSET_COMMIT] * 10, after_ms=50)
    assert progress_at_start(batch, range(2)) == {0: ShardProgress(7, Sharding(2)), 1: None}
    assert fences(kafka) == 2


def test_all_shards_are_fenced_where_offsets_are_not_stable(kafka: MockKafka, batch: Batch) -> None:
    """Brokers before 2.5 do not say whether a transaction holds the progress."""
    commit_progress(Shard(batch, 0), 7)
    progress_at_start(batch_on(batch.connection, stable_offsets=False), range(2))
    assert fences(kafka) == 2


def test_a_driver_that_is_fenced_itself_has_a_rival(kafka: MockKafka) -> None:
    """Two drivers run the query."""
    kafka.answer(INIT_PRODUCER_ID, [KafkaError.PRODUCER_FENCED] * 2)
    batch = batch_on({"bootstrap.servers": kafka.bootstrap}, stable_offsets=False)
    with pytest.raises(WriteFailed, match="another driver runs this query"):
        progress_at_start(batch, range(2))


def test_the_previous_batch_may_become_visible_a_moment_later(batch: Batch) -> None:
    """Brokers finish a transaction after they have answered its commit."""
    commit_progress(Shard(batch, 0), 7)
    commit_progress(Shard(batch, 1), 6)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(sharding_at_start, batch, 2, 0)
        with pytest.raises(TimeoutError):
            found.result(0.5)
        commit_progress(Shard(batch, 1), 7)
        assert found.result(BOUND) == Sharding(2)


NAME = QueryName("copies", "cluster")
FIRST, SECOND, OTHER = Run("checkpoint", "first"), Run("checkpoint", "second"), Run("other", "third")
UNKNOWN = Run()


class Sink:
    """Stands for a sink."""


@pytest.fixture
def writers() -> Writers:
    return Writers()


def write(writers: Writers, sink: object, run: Run, batch_id: int, name: QueryName = NAME) -> None:
    with writers.writing(name, sink, run, batch_id):
        pass


@pytest.mark.parametrize("run", [FIRST, UNKNOWN])
def test_a_second_sink_of_a_name_is_refused_in_a_batch(writers: Writers, run: Run) -> None:
    """Kafka would show its rows as written. The first sink goes on with the next batch."""
    first, second = Sink(), Sink()
    write(writers, first, run, 3)
    for _ in range(2):
        with pytest.raises(WrittenBefore, match=r"another sink of query 'copies' .* has begun batch 3"):
            write(writers, second, run, 3)
    write(writers, first, run, 4)


@pytest.mark.parametrize("run", [FIRST, UNKNOWN])
@pytest.mark.parametrize("batch_id", [3, 4])
def test_a_second_sink_is_refused_while_the_first_one_writes(writers: Writers, run: Run, batch_id: int) -> None:
    """Each would fence the producers of the other."""
    with writers.writing(NAME, Sink(), run, 3), pytest.raises(WrittenBefore):
        write(writers, Sink(), run, batch_id)


def test_a_second_sink_is_refused_where_the_first_one_has_failed_or_is_gone(writers: Writers) -> None:
    """Some of its shards may have committed, and a run has each batch once."""
    for batch_id in (0, 1):
        sink = Sink()
        with suppress(ZeroDivisionError), writers.writing(NAME, sink, FIRST, batch_id):
            raise ZeroDivisionError
        if batch_id:
            writers.forget(sink)
        del sink
        gc.collect()
        with pytest.raises(WrittenBefore):
            write(writers, Sink(), FIRST, batch_id)


def test_outside_of_a_run_a_new_sink_may_replay_a_batch(writers: Writers) -> None:
    """After the first one has failed, was closed, or is not referred to any more."""
    failed, closed, again = Sink(), Sink(), Sink()
    with suppress(ZeroDivisionError), writers.writing(NAME, failed, UNKNOWN, 3):
        raise ZeroDivisionError
    write(writers, closed, UNKNOWN, 3)
    writers.forget(closed)
    write(writers, Sink(), UNKNOWN, 3)
    gc.collect()
    write(writers, again, UNKNOWN, 3)
    write(writers, again, UNKNOWN, 3)


def test_a_restart_of_the_query_takes_the_name_over(writers: Writers) -> None:
    """The batch is replayed, by a new sink or the same one, even while a call of the old run has not returned yet."""
    first, second = Sink(), Sink()
    write(writers, first, FIRST, 3)
    with writers.writing(NAME, second, SECOND, 3):
        write(writers, first, FIRST._replace(id="fourth"), 3)
    write(writers, second, SECOND, 4)


def test_two_queries_do_not_write_under_one_name_at_once(writers: Writers) -> None:
    """The progress tells their checkpoints apart once one of them has committed."""
    with writers.writing(NAME, Sink(), FIRST, 3), pytest.raises(WrittenBefore):
        write(writers, Sink(), OTHER, 0)
    write(writers, Sink(), OTHER, 0)


def test_sinks_of_other_names_and_clusters_are_independent(writers: Writers) -> None:
    """One function may write to two clusters under one name."""
    write(writers, Sink(), FIRST, 3)
    write(writers, Sink(), FIRST, 3, NAME._replace(cluster="other"))
    write(writers, Sink(), FIRST, 3, NAME._replace(query="other"))
