"""A compacted topic that keeps latches, and how it is read to its ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import RESOURCE_TOPIC, ConfigResource  # type: ignore[attr-defined]  # not re-exported

from featuregate_confluent.client import clients
from featuregate_confluent.errors import LatchTopicError, LatchTopicUnreadable
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS, description_of

if TYPE_CHECKING:
    from concurrent.futures import Future

_BATCH: Final = 500
Place = tuple[int, bytes]
"""A partition and a key. After partitions were added to the topic, one key may stand in two of them."""
ANY_PARTITION: Final = -1
"""The partition of a key, as the client chooses it."""
GRACE: Final = 2.0
"""Seconds that an answer may come after librdkafka's own bound."""


class Reading:
    """Partitions that one consumer reads to their ends, as its isolation level shows them."""

    def __init__(self, consumer: Consumer, take: Callable[[Message], None]) -> None:
        self._consumer = consumer
        self._take = take
        self.ends: dict[int, int] = {}
        """The end of each partition that was reached: with ``read_committed`` its last stable offset."""

    def begin(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read partitions from these offsets on."""
        self._consumer.assign([TopicPartition(topic, number, offset) for number, offset in offsets.items()])

    def step(self, seconds: float) -> None:
        """Take the next records. Raises KafkaException."""
        for message in self._consumer.consume(_BATCH, timeout=seconds):
            error = message.error()
            if error is None:
                self._take(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name of librdkafka
                self.ends[message.partition() or 0] = message.offset() or 0
            else:  # transient errors do not come as messages
                raise KafkaException(error)

    def hidden(self, topic: str) -> dict[int, int]:
        """Return the ends of the partitions in which more records follow: an open transaction hides them."""
        found = {}
        for number, end in self.ends.items():
            _low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
            if high > end:
                found[number] = end
        return found


class CompactedTopic:
    """A topic of one cluster, which must exist with ``cleanup.policy=compact`` and nothing else."""

    def __init__(self, topic: str, config: Mapping[str, Any]) -> None:
        self.topic = topic
        self._config = dict(config)  # an app may change its own for its next client

    def _read_to_ends(
        self, consumer: Consumer, take: Callable[[Message], None], offsets: Mapping[int, int], until: float, late: str
    ) -> Reading:
        """Read partitions from these offsets to their ends."""
        reading = Reading(consumer, take)
        reading.begin(self.topic, offsets)
        self._read_until(reading, lambda: len(reading.ends) == len(offsets), until, late)
        return reading

    def _read_until(self, reading: Reading, done: Callable[[], bool], until: float, late: str) -> None:
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                raise LatchTopicUnreadable(self._words(late))
            try:
                reading.step(min(left, 0.5))
            except KafkaException as failure:
                raise self._error(f"{description_of(failure.args[0])}. Reading needs the right READ") from failure

    def _write(self, records: Mapping[Place, bytes | None], until: float) -> None:
        """Write records, None for a tombstone, to all replicas in sync. Raises `LatchTopicError`."""
        if not records:
            return
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = clients.writer(self._config)
        try:
            for (partition, key), value in records.items():
                producer.produce(self.topic, value, key, partition, on_delivery=delivered)
        except KafkaException as failure:
            failures.append(failure.args[0])
        left = producer.flush(max(until - time.monotonic(), 0.0))
        if left or failures:
            why = description_of(failures[0]) if failures else "no answer in time"
            raise self._error(f"a record was not written: {why}. Writing needs the right WRITE. Try again")

    def _check(self, timeout: float) -> list[int]:
        """Return the topic's partitions where it may be used at all."""
        admin = clients.admin(self._config)
        until = time.monotonic() + timeout + GRACE
        resource = ConfigResource(RESOURCE_TOPIC, self.topic)
        described = admin.describe_topics(TopicCollection([self.topic]), request_timeout=timeout)[self.topic]
        configured = admin.describe_configs([resource], request_timeout=timeout)[resource]
        partitions = [partition.id for partition in self._answer(described, until, "DESCRIBE").partitions]
        entry = self._answer(configured, until, "DESCRIBE_CONFIGS").get("cleanup.policy")
        policy = "unknown" if entry is None else entry.value
        if policy != "compact":
            raise self._error(
                f"its cleanup.policy is {policy}, so that brokers delete latches. Set cleanup.policy=compact, alone"
            )
        return partitions

    def _answer(self, future: Future[Any], until: float, right: str) -> Any:
        try:
            return future.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            raise LatchTopicUnreadable(self._words("no broker answered in time. Try again")) from None
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() in TRANSIENT_ERRORS:
                raise LatchTopicUnreadable(self._words(f"{description_of(error)}. Try again")) from failure
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._error(
                    "it does not exist. Create it with cleanup.policy=compact, and with as many replicas as the "
                    "topics that the app reads"
                ) from failure
            raise self._error(f"{description_of(error)}. This needs the right {right}") from failure

    def _error(self, problem: str) -> LatchTopicError:
        return LatchTopicError(self._words(problem))

    def _words(self, problem: str) -> str:
        return f"latch topic {self.topic!r}: {problem}"
