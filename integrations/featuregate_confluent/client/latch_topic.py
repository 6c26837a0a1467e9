"""The compacted topic that keeps a group's latch against offsets that expire or are reset (R11).

.. code-block:: text

    key      orders|kip447|v2      group, gate and model, each percent-encoded: no name can look like another
    value    fg1;model=v2          as in an offset's metadata; no value (a tombstone): an operator has taken it back

One key for each model makes a set that only grows: a late writer of a lower model overwrites nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import RESOURCE_TOPIC, ConfigResource  # type: ignore[attr-defined]  # not re-exported

from featuregate_confluent.client import clients
from featuregate_confluent.errors import LatchTopicError, LatchTopicUnreadable, UnknownMark
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.models import Model
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from confluent_kafka import Consumer, Message

_BATCH: Final = 500
_GRACE: Final = 2.0  # seconds that an answer may come after librdkafka's own bound
_BY_LABEL: Final = {model.label: model for model in Model}

_Place = tuple[int, bytes]
"""A partition and a key. After partitions were added to the topic, one key may stand in two of them."""


@dataclass(frozen=True, slots=True)
class LatchRecord:
    """What is produced in the transaction that latches the group."""

    topic: str
    key: bytes
    value: bytes | None
    """None: a tombstone."""
    headers: tuple[tuple[str, bytes], ...] = ()


class LatchTopic:
    """The latch of one group, in a compacted topic that many groups may share.

    Parameters
    ----------
    topic
        Its name. It must exist, with ``cleanup.policy=compact`` and nothing else.
    config
        The app's consumer properties; only those about the connection are used.
    group, gate
        Whose latch it is.

    Notes
    -----
    Reading needs the rights READ and DESCRIBE_CONFIGS on the topic, and DESCRIBE on the group; writing needs WRITE on
    the topic. Nothing stays open between two calls.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], *, group: str, gate: str) -> None:
        self.topic = topic
        self._config = config
        self._group = group
        self._prefix = f"{quote(group, safe='')}|{quote(gate, safe='')}|".encode()

    def record(self, model: Model) -> LatchRecord:
        """Return what to produce in the same transaction as the first commit of a model."""
        return LatchRecord(self.topic, self._prefix + model.label.encode(), marks.write(Mark(model)).encode())

    def read(self, timeout: float) -> Model | None:
        """Return the highest model that the topic holds for this group and gate; None: it holds none.

        It is read to its end with ``read_committed``: what an open transaction holds does not count.

        Raises
        ------
        LatchTopicError
            The topic is missing, or is not compacted.
        LatchTopicUnreadable
            It was not read to its end within ``timeout`` seconds.
        UnknownMark
            Newer software has latched this group.
        """
        return max((self._model(key, value) for (_, key), value in self._held(timeout).items()), default=None)

    def erase(self, timeout: float) -> int:
        """Write a tombstone over each record of this group and gate, for a rollback; return how many there were.

        Records of newer software go, too. Raises `LatchTopicError` where that is not done within ``timeout`` seconds.
        """
        until = time.monotonic() + timeout
        held = self._held(timeout)
        producer = clients.writer(self._config)
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        for partition, key in held:
            producer.produce(self.topic, None, key, partition, on_delivery=delivered)
        left = producer.flush(max(until - time.monotonic(), _GRACE)) if held else 0
        if left or failures:
            why = f"{failures[0].name()}: {failures[0].str()}" if failures else f"no answer within {timeout:g} s"
            raise self._error(f"not all of its records were erased: {why}. Writing needs the right WRITE. Try again")
        return len(held)

    def _model(self, key: bytes, value: bytes) -> Model:
        """Read one record. What its value says beyond our format cannot lower what its key says."""
        marks.read(value.decode(errors="replace"))
        label = key.removeprefix(self._prefix).decode(errors="replace")
        if label not in _BY_LABEL:
            raise UnknownMark(key.decode(errors="replace"))
        return _BY_LABEL[label]

    def _held(self, timeout: float) -> dict[_Place, bytes]:
        until = time.monotonic() + timeout
        partitions = self._check(timeout)
        consumer = clients.reader(self._config, self._group)
        try:
            consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in partitions])
            return self._read_to_the_end(consumer, set(partitions), until, timeout)
        finally:
            consumer.close()

    def _read_to_the_end(
        self, consumer: Consumer, unread: set[int], until: float, timeout: float
    ) -> dict[_Place, bytes]:
        held: dict[_Place, bytes] = {}
        while unread:
            left = until - time.monotonic()
            if left <= 0:
                raise LatchTopicUnreadable(self._words(f"it was not read to its end within {timeout:g} s. Try again"))
            for message in consumer.consume(_BATCH, timeout=min(left, 0.5)):
                partition, error = message.partition(), message.error()
                if error is None:
                    self._take(held, message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name of librdkafka
                    unread.discard(-1 if partition is None else partition)
                else:  # transient errors do not come as messages
                    raise self._error(f"{error.name()}: {error.str()}. Reading needs the right READ")
        return held

    def _take(self, held: dict[_Place, bytes], message: Message) -> None:
        key, value, partition = message.key(), message.value(), message.partition()
        if not isinstance(key, bytes) or partition is None or not key.startswith(self._prefix):
            return  # of another group, or of other software
        if isinstance(value, bytes):
            held[partition, key] = value
        else:
            held.pop((partition, key), None)

    def _check(self, timeout: float) -> list[int]:
        """Return the topic's partitions where it may be used at all."""
        admin = clients.admin(self._config)
        until = time.monotonic() + timeout + _GRACE
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
                raise LatchTopicUnreadable(self._words(f"{error.name()}: {error.str()}. Try again")) from failure
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._error(
                    "it does not exist. Create it with cleanup.policy=compact, and with as many replicas as the "
                    "topics that the app reads"
                ) from failure
            raise self._error(f"{error.name()}: {error.str()}. This needs the right {right}") from failure

    def _error(self, problem: str) -> LatchTopicError:
        return LatchTopicError(self._words(problem))

    def _words(self, problem: str) -> str:
        return f"latch topic {self.topic!r}: {problem}"
