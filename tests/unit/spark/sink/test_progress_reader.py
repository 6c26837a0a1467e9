"""How progress is read from the consumer group, against brokers that answer as each test says."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from shards import batch_on, commit_progress

from featuregate_librdkafka import offsets
from featuregate_spark import ProgressLost, WriteFailed
from featuregate_spark.sink.progress import ShardProgress
from featuregate_spark.sink.progress_reader import Clients, ProgressReader, ProgressUnavailable, find_topic
from featuregate_spark.sink.shards import Batch, Shard, Sharding

if TYPE_CHECKING:
    from mock_kafka import MockKafka

OFFSET_FETCH = 9
BOUND = 30.0


def test_each_shard_has_the_progress_that_it_has_committed(batch: Batch) -> None:
    """A shard that has never committed has no progress."""
    commit_progress(Shard(batch, 1), 7)
    with closing(ProgressReader(batch)) as reader:
        assert reader.read([0, 1], BOUND) == {0: None, 1: ShardProgress(7, Sharding(2))}


def test_an_offset_of_another_app_is_refused(batch: Batch) -> None:
    """The other app commits in the group with the name of the query."""
    commit_progress(Shard(batch, 0), 7, metadata="")
    with closing(ProgressReader(batch)) as reader, pytest.raises(ProgressLost, match="Give the query another name"):
        reader.read([0], BOUND)


def test_a_read_is_repeated_while_a_transaction_holds_the_progress(kafka: MockKafka, batch: Batch) -> None:
    """Brokers finish a transaction a moment after they have answered its commit."""
    commit_progress(Shard(batch, 0), 7)
    kafka.answer(OFFSET_FETCH, [KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
    with closing(ProgressReader(batch)) as reader:
        assert reader.read([0], BOUND) == {0: ShardProgress(7, Sharding(2))}


def test_a_read_without_rights_fails_at_once(kafka: MockKafka, batch: Batch) -> None:
    """A retry would not change the rights."""
    kafka.answer(OFFSET_FETCH, [KafkaError.GROUP_AUTHORIZATION_FAILED])
    with closing(ProgressReader(batch)) as reader, pytest.raises(WriteFailed, match="GROUP_AUTHORIZATION_FAILED"):
        reader.read([0], BOUND)


def test_a_read_has_a_bound(batch: Batch) -> None:
    """No broker answers at this address."""
    silent = batch_on({"bootstrap.servers": "127.0.0.1:1"})
    with closing(ProgressReader(silent)) as reader, pytest.raises(ProgressUnavailable):
        reader.read([0], 0.1)


class FakeConsumer:
    """Answers each read of offsets with the next of these."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = list(offsets)

    def poll(self, timeout: float) -> None:
        pass

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002 - Kafka's
        offset = self.offsets.pop(0)
        return [TopicPartition(each.topic, each.partition, offset, Sharding(2).to_metadata()) for each in wanted]


def read_fenced(consumer: FakeConsumer, *, stable_offsets: bool) -> dict[int, ShardProgress | None]:
    batch = batch_on({}, stable_offsets=stable_offsets)
    return ProgressReader(batch, Clients(consumer=lambda _: consumer)).read_fenced([0])


@pytest.mark.parametrize(("stable_offsets", "offsets"), [(True, [7]), (False, [7, 8, 8])], ids=["stable", "before 2.5"])
def test_progress_is_read_until_two_reads_agree_where_offsets_are_not_stable(
    *, stable_offsets: bool, offsets: list[int]
) -> None:
    """Brokers before 2.5 show an offset a moment after its transaction has ended."""
    consumer = FakeConsumer(*offsets)
    assert read_fenced(consumer, stable_offsets=stable_offsets) == {0: ShardProgress(offsets[-1], Sharding(2))}
    assert not consumer.offsets


def test_progress_that_goes_on_changing_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is that of one read."""
    monkeypatch.setattr(offsets, "LATE_SECONDS", 0.01)
    reader = ProgressReader(
        batch_on({}, stable_offsets=False, timeout=0.1), Clients(consumer=lambda _: FakeConsumer(*range(1, 1_000)))
    )
    with pytest.raises(ProgressUnavailable, match=r"the progress of query '\w+' changes: no two answers agreed"):
        reader.read_fenced([0])


def test_the_partitions_of_a_topic_are_counted(kafka: MockKafka) -> None:
    """A topic that does not exist is an error that says what to do, and the call does not create it."""
    connection: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap}
    topic = find_topic(connection, "output", BOUND)
    assert topic.partitions == 4
    assert topic.cluster_id
    for _ in range(2):
        with pytest.raises(WriteFailed, match=r"topic 'nowhere' does not exist, .*: create it first"):
            find_topic(connection, "nowhere", BOUND)


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_waited_for(kafka: MockKafka) -> None:
    """A new topic becomes known broker by broker."""
    connection: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap}
    asked: list[str] = []

    class Creating(Consumer):
        def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
            found = super().list_topics(topic, timeout=timeout)
            asked.append(topic)
            kafka.create_topic("late", partitions=3)
            return found

    assert find_topic(connection, "late", BOUND, Clients(consumer=Creating)).partitions == 3
    assert asked == ["late"] * 2


def test_a_topic_cannot_be_looked_up_without_a_broker() -> None:
    """The call has a bound, and the error names the topic."""
    with pytest.raises(WriteFailed, match="the number of partitions of topic 'output' cannot be read"):
        find_topic({"bootstrap.servers": "127.0.0.1:1"}, "output", 0.1)
