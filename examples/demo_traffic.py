"""The inputs that ``make demo`` sends, and the committed outputs that it reads."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from demo_tally import Seen

log = logging.getLogger("demo")


class Loop:
    """A thread that repeats one step until it is closed or the step fails; `check` then raises the error."""

    def __init__(self, step: Callable[[], None], *, every: float = 0.0) -> None:
        self._step, self._every = step, every
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every):
                self._step()
        except Exception as failure:  # noqa: BLE001 - any error has to stop the story
            self._error = failure

    def check(self) -> None:
        """Raise the error that ended the loop, if there is one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread, and wait for it."""
        self._stopping.set()
        self._thread.join()


class Load:
    """Sends the same numbered inputs to several topics, a burst at a time.

    Because of the bursts, an app is at work shortly after each one.
    """

    def __init__(
        self, bootstrap: str, topics: Sequence[str], *, partitions: int, size: int, clock: Callable[[], float]
    ) -> None:
        self.sent: dict[str, float] = {}
        """When each key was acknowledged, by the clock."""
        self.ends: dict[str, dict[int, int]] = {topic: dict.fromkeys(range(partitions), 0) for topic in topics}
        """Where each partition of each topic ends."""
        self.partitions, self._size, self._clock = partitions, size, clock
        self._burst = threading.Condition()
        self._bursts = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "logger": log}
        )

    def send(self) -> None:
        """Send a burst, and wait until the brokers have acknowledged it."""
        keys = [str(len(self.sent) + number) for number in range(self._size)]
        for topic in self.ends:
            for key in keys:
                partition = int(key) % self.partitions
                self._producer.produce(topic, key, key, partition=partition, on_delivery=self._delivered)
        if self._producer.flush(60.0):
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, "inputs were not delivered"))  # noqa: SLF001
        self.sent.update(dict.fromkeys(keys, self._clock()))
        with self._burst:
            self._bursts += 1
            self._burst.notify_all()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        self.ends[str(message.topic())][int(message.partition() or 0)] = int(message.offset() or 0) + 1

    def wait_for_burst(self, seconds: float) -> bool:
        """Wait until one more burst has been sent."""
        with self._burst:
            before = self._bursts
            return self._burst.wait_for(lambda: self._bursts > before, seconds)


class Reader:
    """Reads the committed outputs of several topics."""

    def __init__(self, bootstrap: str, topics: Sequence[str], *, partitions: int, clock: Callable[[], float]) -> None:
        self.seen: dict[str, list[Seen]] = {topic: [] for topic in topics}
        self._clock = clock
        self._consumer = _reader(bootstrap)
        self._consumer.assign(_all(topics, partitions))

    def read(self) -> None:
        """Take what has come."""
        for message in self._consumer.consume(500, timeout=0.2):
            if message.error() is None:
                self.seen[str(message.topic())].append(Seen(self._clock(), _key(message)))

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def agrees(self, topic: str, counts: Counter[str]) -> bool:
        """Return whether each input has as many outputs as the given counts say."""
        return Counter(output.key for output in tuple(self.seen[topic])) == counts


def count_outputs(bootstrap: str, topic: str, *, partitions: int, seconds: float) -> Counter[str]:
    """Read all committed outputs of a topic from the beginning, and count those of each input."""
    consumer = _reader(bootstrap)
    counts: Counter[str] = Counter()
    try:
        consumer.assign(_all([topic], partitions))
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


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "logger": log,
        }
    )


def _all(topics: Sequence[str], partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, 0) for topic in topics for partition in range(partitions)]


def _key(message: Message) -> str:
    return (message.key() or b"").decode()
