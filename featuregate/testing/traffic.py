"""Numbered inputs that are sent at a pace, and committed outputs that are read: for rehearsals and demos."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from featuregate.errors import BrokerError
from featuregate.logs import get_logger, silence

log = get_logger("featuregate.testing")
silence("featuregate.testing")  # brokers are rolled here, and librdkafka logs each lost connection
T = TypeVar("T")
_FLUSH_SECONDS: Final = 300.0  # as long as librdkafka keeps a message: a broker may restart slowly


class CommittedOutput(NamedTuple):
    """One committed output: when it became visible, and the key of its input."""

    at: float
    key: str


def duplicates(seen: Iterable[CommittedOutput]) -> list[CommittedOutput]:
    """Return the outputs whose input has an earlier output."""
    known: set[str] = set()
    again = []
    for output in seen:
        if output.key in known:
            again.append(output)
        known.add(output.key)
    return again


def wait_for(what: str, ask: Callable[[], T], seconds: float, *checks: Callable[[], object]) -> T:
    """Ask until the answer is true, and return it: the condition to go on. Calls may fail while brokers are rolled.

    Raises `TimeoutError`, which says what did not happen, or what a check raises, such as `Loop.check`.
    """
    until, last = time.monotonic() + seconds, ""
    while time.monotonic() < until:
        for check in checks:
            check()
        try:
            if answer := ask():
                return answer
        except (KafkaException, BrokerError) as failure:
            last = f" ({failure})"
        time.sleep(0.1)
    raise TimeoutError(f"within {seconds:.0f} s it did not happen that {what}{last}")


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
        except Exception as failure:  # noqa: BLE001 - any error has to stop what waits for the loop
            self._error = failure

    def check(self) -> None:
        """Raise the error that ended the loop, if there is one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread, and wait for it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()


class InputLoad:
    """Sends the same numbered inputs to several topics, a burst at a time.

    ``name`` makes the key of an input from its number, and ``value`` its value from its key.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        *,
        partitions: int,
        size: int,
        clock: Callable[[], float] = time.monotonic,
        name: Callable[[int], str] = str,
        value: Callable[[str], str] = str,
    ) -> None:
        self.sent: dict[str, float] = {}
        """When each key was acknowledged, by the clock."""
        self.topics, self.partitions = topics, partitions
        self._size, self._clock, self._name, self._value = size, clock, name, value
        self._producer = Producer({**config, "enable.idempotence": True, "linger.ms": 5, "logger": log})

    def send(self) -> None:
        """Send a burst, and wait until the brokers have acknowledged it."""
        first = len(self.sent)
        keys = {number: self._name(number) for number in range(first, first + self._size)}
        for topic in self.topics:
            for number, key in keys.items():
                where = number % self.partitions
                self._producer.produce(topic, self._value(key), key, partition=where, on_delivery=self.delivered)
        if self._producer.flush(_FLUSH_SECONDS):
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, "inputs were not delivered"))  # noqa: SLF001
        self.sent |= dict.fromkeys(keys.values(), self._clock())

    def close(self) -> None:
        """Give up what is not acknowledged yet, also while another thread sends."""
        self._producer.purge()

    def delivered(self, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002 - demos look at it
        """Take the report of one input."""
        if error is not None:
            raise KafkaException(error)


class OutputReader:
    """Reads the committed outputs of several topics. ``key_of`` finds the key of the input in an output."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        *,
        partitions: int,
        key_of: Callable[[Message], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seen: dict[str, list[CommittedOutput]] = {topic: [] for topic in topics}
        self._clock, self._key_of = clock, key_of
        self._consumer = committed_reader(config, topics, partitions)

    def read(self) -> None:
        """Take what has come."""
        for message in self._consumer.consume(500, timeout=0.2):
            if message.error() is None:
                self.seen[str(message.topic())].append(CommittedOutput(self._clock(), self._key_of(message)))

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def committed_reader(config: Mapping[str, Any], topics: Sequence[str], partitions: int) -> Consumer:
    """Return a consumer of committed records from the begin of topics on, which is a member of no group."""
    own = {"group.id": "reader", "isolation.level": "read_committed", "enable.auto.commit": False, "logger": log}
    consumer = Consumer({**config, **own, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for topic in topics for partition in range(partitions)])
    return consumer
