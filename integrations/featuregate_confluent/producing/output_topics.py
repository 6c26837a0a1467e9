"""Whether the topics and partitions exist that an app writes to, asked before the first record is sent.

A client finds out late: it keeps a record for a topic that does not exist until the transaction has timed out, and then
reports neither the topic nor the record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

ABSENT_SECONDS: Final = 5.0
"""Seconds for which a topic may be unknown: a new topic takes a moment to reach all brokers."""
_ASK_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.1
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})


class OutputTopics:
    """The number of partitions of each topic that was looked for."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._partitions: dict[str, int] = {}
        self._absent: set[str] = set()

    def forget(self) -> None:
        """Look for each topic again: something was aborted."""
        self._partitions.clear()

    def check(self, client: Producer, topic: str, partition: int = -1) -> None:
        """Return if the topic has this partition, or if no broker says that it has not. Raises ValueError."""
        known = self._partitions.get(topic)
        if known is not None and partition < known:
            return
        found = self._ask(client, topic)
        if found is None:
            return  # the transaction finds out
        if not found:
            self._absent.add(topic)
            raise ValueError(f"the topic {topic!r} does not exist: create it, or correct the name")
        self._absent.discard(topic)
        self._partitions[topic] = found
        if partition >= found:
            raise ValueError(f"the topic {topic!r} has no partition {partition}, but {found} from 0 on")

    def _ask(self, client: Producer, topic: str) -> int | None:
        """Return the number of partitions, 0 if there is no such topic, None if no broker says so."""
        until = self._clock() + (0.0 if topic in self._absent else ABSENT_SECONDS)
        while True:
            try:
                found = client.list_topics(topic, _ASK_SECONDS).topics.get(topic)
            except KafkaException:
                return None
            if found is not None and found.error is None:
                return len(found.partitions)
            if found is not None and found.error.code() not in _ABSENT:
                return None  # such as a missing right, of which the transaction tells
            if self._clock() >= until:
                return 0 if found is None or found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
            self._pause(_PAUSE_SECONDS)
