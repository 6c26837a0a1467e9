"""What operators announce in the usage topic: written by ``featuregate plan --announce``, read by apps that report."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from featuregate.config import Settings
from featuregate.errors import FeatureGateError, UsageReportError
from featuregate.usage.announcement import KEY, Announcement
from featuregate_librdkafka.core_settings import librdkafka_properties

_logger = logging.getLogger("featuregate.usage")

LOOK_BACK_SECONDS: Final = 24 * 3600.0
"""A process that starts reads what was announced in this time."""
_MOST_RECORDS: Final = 20_000
"""Of one partition that are read when a process starts, and in one look: reports of other apps are among them."""
_MOST_KEPT: Final = 100
_SECONDS: Final = 10.0
_BATCH: Final = 500


def announce(config: Mapping[str, Any] | str, topic: str, announcement: Announcement) -> None:
    """Write an announcement, and wait until brokers have it.

    Raises
    ------
    ConfigError
        The config cannot be used.
    FeatureGateError
        The record was refused, or not delivered.
    """
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    properties = {**_properties(config), "acks": "all", "message.timeout.ms": int(_SECONDS * 1000)}
    producer = Producer(properties, logger=_logger)
    producer.produce(topic, announcement.to_json().encode(), KEY, on_delivery=on_delivery)
    if producer.flush(_SECONDS + 2):
        failures.append(KafkaError(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001 - a public name of librdkafka
    for error in failures:
        raise FeatureGateError(f"{error.name()}: {error.str()}. Writing needs the right WRITE on the topic")


class Announcements:
    """Reads the announcements of a topic: each call goes on where the one before has ended.

    Nothing stays open between two calls, so that a forked child may go on.
    """

    def __init__(self, config: Mapping[str, Any] | str, topic: str) -> None:
        self._config = config
        self._topic = topic
        self._next: dict[int, int] = {}
        self._found: list[Announcement] = []

    def read(self) -> list[Announcement]:
        """Return what has been announced so far, the newest last. Takes 10 seconds at the most.

        Raises
        ------
        KafkaException
            The topic cannot be read.
        """
        until = time.monotonic() + _SECONDS
        ours = {"group.id": "featuregate-announcements", "enable.auto.commit": False, "enable.partition.eof": True}
        with closing(Consumer({**_properties(self._config), **ours}, logger=_logger)) as consumer:
            left = self._begin(consumer, until)
            while left and time.monotonic() < until:
                for message in consumer.consume(_BATCH, timeout=0.5):
                    self._take(message, left)
        return list(self._found)

    def _begin(self, consumer: Consumer, until: float) -> set[int]:
        """Assign the partitions, each from where the last call ended, or from a while ago."""
        seconds = until - time.monotonic()
        found = consumer.list_topics(self._topic, timeout=seconds).topics[self._topic]
        if found.error is not None:
            raise KafkaException(found.error)
        since = int((datetime.now(UTC).timestamp() - LOOK_BACK_SECONDS) * 1000)
        new = [TopicPartition(self._topic, number, since) for number in found.partitions if number not in self._next]
        begins = (
            {place.partition: place.offset for place in consumer.offsets_for_times(new, timeout=seconds)} if new else {}
        )
        for number, offset in begins.items():
            low, high = consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=seconds)
            begin = high if offset in (OFFSET_END, None) else offset
            self._next[number] = max(low, begin, high - _MOST_RECORDS)
        consumer.assign([TopicPartition(self._topic, number, offset) for number, offset in self._next.items()])
        return set(self._next)

    def _take(self, message: Message, left: set[int]) -> None:
        error, number = message.error(), message.partition() or 0
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name of librdkafka
                raise KafkaException(error)
            left.discard(number)
            return
        self._next[number] = (message.offset() or 0) + 1
        key, value = message.key(), message.value()
        if key != KEY or not isinstance(value, bytes):
            return
        try:
            found = Announcement.from_json(value)
        except UsageReportError as problem:
            _logger.warning("an announcement in topic %r cannot be read: %s", self._topic, problem)
        else:
            self._found = sorted([*self._found, found], key=lambda each: each.announced_at)[-_MOST_KEPT:]


def _properties(config: Mapping[str, Any] | str) -> dict[str, Any]:
    return {**librdkafka_properties(Settings.parse(config)), "log_level": 3, "error_cb": _log_error}


def _log_error(error: KafkaError) -> None:
    _logger.debug("%s", error)
