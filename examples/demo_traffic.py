"""The inputs that ``make demo`` sends, and the committed outputs that it reads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message

from featuregate.testing.traffic import InputLoad, OutputReader, committed_reader


class Load(InputLoad):
    """Sends inputs, knows where they end, and lets others wait for a burst.

    Because of the bursts, an app is at work shortly after each one.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str], *, partitions: int, **options: Any) -> None:
        super().__init__({"bootstrap.servers": bootstrap}, topics, partitions=partitions, **options)
        self.ends: dict[str, dict[int, int]] = {topic: dict.fromkeys(range(partitions), 0) for topic in topics}
        """Where each partition of each topic ends."""
        self._burst = threading.Condition()
        self._bursts = 0

    def send(self) -> None:
        """Send a burst, and wait until the brokers have acknowledged it."""
        super().send()
        with self._burst:
            self._bursts += 1
            self._burst.notify_all()

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of one input."""
        super().delivered(error, message)
        self.ends[str(message.topic())][int(message.partition() or 0)] = int(message.offset() or 0) + 1

    def wait_for_burst(self, seconds: float) -> bool:
        """Wait until one more burst has been sent."""
        with self._burst:
            before = self._bursts
            return self._burst.wait_for(lambda: self._bursts > before, seconds)


class Reader(OutputReader):
    """Reads the committed outputs of several topics."""

    def __init__(self, bootstrap: str, topics: Sequence[str], *, partitions: int, clock: Callable[[], float]) -> None:
        super().__init__({"bootstrap.servers": bootstrap}, topics, partitions=partitions, clock=clock, key_of=_key)

    def agrees(self, topic: str, counts: Counter[str]) -> bool:
        """Return whether each input has as many outputs as the given counts say."""
        return Counter(output.key for output in tuple(self.seen[topic])) == counts


def count_outputs(bootstrap: str, topic: str, *, partitions: int, seconds: float) -> Counter[str]:
    """Read all committed outputs of a topic from the beginning, and count those of each input."""
    consumer = committed_reader({"bootstrap.servers": bootstrap}, [topic], partitions)
    counts: Counter[str] = Counter()
    try:
        open_ends = set(range(partitions))
        until = time.monotonic() + seconds
        while open_ends:
            if time.monotonic() > until:
                raise TimeoutError(f"no end of {topic} partitions {sorted(open_ends)} within {seconds:.0f} s")
            for message in consumer.consume(500, timeout=0.2):
                error = message.error()
                if error is None:
                    counts[_key(message)] += 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the name is all it has
                    open_ends.discard(int(message.partition() or 0))
    finally:
        consumer.close()
    return counts


def _key(message: Message) -> str:
    return (message.key() or b"").decode()
