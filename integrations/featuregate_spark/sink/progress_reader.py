"""Reads the progress of shards from the consumer group that keeps it: for a driver that starts, and for each task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from featuregate.logs import get_logger
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS, description_of
from featuregate_librdkafka.offsets import read_until_agreed
from featuregate_spark.errors import WriteFailed
from featuregate_spark.sink.progress import ShardProgress

if TYPE_CHECKING:
    from featuregate_spark.sink.shards import Batch

_log = get_logger("featuregate.spark.sink")

POLL_SECONDS: Final = 0.2
QUICK_READ_SECONDS: Final = 2.0
"""For a read that an open transaction may hold up, before the transaction is fenced."""
QUIET: Final = {"log_level": 3}
QUICK: Final = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 20}
"""For what lasts some milliseconds: a transaction holds an offset, or the previous one is not finished yet
(CONCURRENT_TRANSACTIONS). A new client waits for half of the second before it connects to a broker that it has learned
of."""
_REQUEST_SECONDS: Final = 5.0
_NEW_TOPIC_SECONDS: Final = 2.0


class Topic(NamedTuple):
    """The topic of the progress."""

    partitions: int
    cluster_id: str | None
    """None where brokers do not report it."""


class Clients(NamedTuple):
    """The Kafka clients that the sink makes; tests pass fakes."""

    consumer: Callable[[dict[str, Any]], Any] = Consumer
    producer: Callable[[dict[str, Any]], Any] = Producer


KAFKA_CLIENTS: Final = Clients()


class ProgressUnavailable(WriteFailed):
    """The group's coordinator did not answer in time: it moves, or an open transaction holds the offsets."""


class ProgressReader:
    """Reads the progress of shards, and gives transactions the group's metadata. It never joins the group."""

    def __init__(self, batch: Batch, clients: Clients = KAFKA_CLIENTS) -> None:
        self._batch = batch
        self._consumer = clients.consumer(
            {
                **QUIET,
                **QUICK,
                **batch.connection,
                "group.id": batch.query,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "logger": _log,
            }
        )

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    @property
    def group(self) -> Any:
        """The group's metadata, which a transaction sends with the offsets that it commits."""
        return self._consumer.consumer_group_metadata()

    def read(self, shards: Iterable[int], seconds: float) -> dict[int, ShardProgress | None]:
        """Read the progress of shards; retry while a transaction holds it. Raises WriteFailed, ProgressLost."""
        self._consumer.poll(0)  # passes on log lines, which pile up while brokers are away; it has joined no group
        found = self._committed([TopicPartition(self._batch.progress_topic, shard) for shard in shards], seconds)
        for each in found:
            if each.error is not None:
                raise WriteFailed(
                    f"the progress of shard {each.partition} of query {self._batch.query!r} cannot be read: "
                    f"{each.error.str()}"
                )
        return {
            each.partition: ShardProgress.parse(each.offset, each.metadata, self._batch.checkpoint) for each in found
        }

    def read_fenced(self, shards: Iterable[int]) -> dict[int, ShardProgress | None]:
        """Read the progress of shards whose previous producers are fenced, so that it cannot change any more.

        Brokers before 2.5 show an offset a moment after its transaction has ended. There the progress is read until
        two reads agree. Raises as :meth:`read`.
        """
        wanted, seconds = list(shards), self._batch.timeout
        if self._batch.stable_offsets:
            return self.read(wanted, seconds)
        try:
            return read_until_agreed(lambda left: self.read(wanted, left), seconds)
        except TimeoutError as changing:
            raise ProgressUnavailable(f"the progress of query {self._batch.query!r} changes: {changing}") from changing

    def _committed(self, wanted: list[TopicPartition], seconds: float) -> list[TopicPartition]:
        deadline = time.monotonic() + seconds
        while True:
            timeout = min(max(deadline - time.monotonic(), POLL_SECONDS), _REQUEST_SECONDS)
            try:
                found: list[TopicPartition] = self._consumer.committed(wanted, timeout=timeout)
            except KafkaException as failure:
                text = f"the progress of query {self._batch.query!r} cannot be read: {description_of(failure.args[0])}"
                if failure.args[0].code() not in TRANSIENT_ERRORS:
                    raise WriteFailed(text) from failure
                if time.monotonic() > deadline:
                    raise ProgressUnavailable(text) from failure
                time.sleep(POLL_SECONDS)
            else:
                return found


def find_topic(connection: Mapping[str, Any], topic: str, timeout: float, clients: Clients = KAFKA_CLIENTS) -> Topic:
    """Return what the cluster says about a topic. A consumer asks, so that no topic is created. Raises WriteFailed."""
    client = clients.consumer({**QUIET, **connection, "group.id": "featuregate", "logger": _log})
    try:
        cluster_id, found = _described(client, topic, timeout)
    except KafkaException as failure:
        raise WriteFailed(
            f"the number of partitions of topic {topic!r} cannot be read: {description_of(failure.args[0])}"
        ) from failure
    finally:
        client.close()
    if _is_missing(found):
        raise WriteFailed(
            f"topic {topic!r} does not exist, or this user may not DESCRIBE it: create it first, as the sink creates "
            "no topics"
        )
    if found.error is not None or not found.partitions:
        raise WriteFailed(f"topic {topic!r} cannot be written: {found.error.str() if found.error else 'no partitions'}")
    return Topic(len(found.partitions), cluster_id)


def _described(client: Any, topic: str, timeout: float) -> tuple[str | None, Any]:
    """Ask for a topic; again for a moment if there is none, since a new topic becomes known broker by broker."""
    deadline = time.monotonic() + min(_NEW_TOPIC_SECONDS, timeout)
    while True:
        metadata = client.list_topics(topic, timeout=timeout)
        found = metadata.topics[topic]
        if not _is_missing(found) or time.monotonic() > deadline:
            return metadata.cluster_id, found
        time.sleep(POLL_SECONDS)


def _is_missing(found: Any) -> bool:
    return found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
