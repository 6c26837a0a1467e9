"""What a driver does before its first batch, against brokers that answer as each test says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError
from shards import batch_on, commit_progress

from featuregate_spark import WriteFailed
from featuregate_spark.sink import startup
from featuregate_spark.sink.progress import ShardProgress
from featuregate_spark.sink.shards import Batch, Shard, Sharding
from featuregate_spark.sink.startup import progress_at_start, sharding_at_start

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
