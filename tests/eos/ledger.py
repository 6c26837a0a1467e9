"""The ledger: what went into a pipe, what came out of it for readers of committed data, and whether that balances."""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from eos.pipes import BOUND, Input, Pipe, came_from

Place = tuple[int, int, int]
"""A partition, an offset, and the time of the record in milliseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The difference between what went in and what came out."""

    inputs: int
    outputs: int
    lost: tuple[Input, ...] = field(repr=False)
    duplicated: tuple[Input, ...] = field(repr=False)
    changed: tuple[Input, ...] = field(repr=False)

    @property
    def exactly_once(self) -> bool:
        """Whether each input came out once, as it went in, and nothing else did."""
        return self.outputs == self.inputs and not (self.lost or self.duplicated or self.changed)

    def assert_exactly_once(self) -> None:
        """Fail with the balance where an input did not come out once, as it went in."""
        assert self.exactly_once, self

    def __str__(self) -> str:
        worst = {"lost": self.lost, "duplicated": self.duplicated, "changed": self.changed}
        rows = [f"{len(inputs)} {what}, first {inputs[:5]}" for what, inputs in worst.items() if inputs]
        return "; ".join([f"{self.inputs} in, {self.outputs} out", *rows])


class Ledger:
    """Feeds a pipe in the background, and counts its committed outputs as they come."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self._fed = 0
        self._acknowledged: dict[bytes, Input] = {}
        """The place of each input, as its producer was told."""
        self._seen: defaultdict[Input, set[Place]] = defaultdict(set)
        """Where each input was seen: a reader that is set back sees an output again in the same place."""
        self._outputs = 0
        self._values: dict[Input, bytes] = {}
        self._ends: dict[int, int] = {}
        self._moved = threading.Condition()
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self._serial = 0
        self._loading = threading.Event()
        self._end_readers: dict[str, Consumer] = {}
        """By isolation level: they stay connected, because some conditions ask many times a second."""
        self._threads = [threading.Thread(target=self._guarded, args=(self._read,), name="ledger reader")]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._loading.clear()
        for thread in self._threads:
            thread.join(BOUND)
        for reader in self._end_readers.values():
            reader.close()

    # ------------------------------------------------------------ what goes in

    def feed(self, inputs: int, *, rate: float | None = None) -> threading.Thread:
        """Feed that many inputs in the background, ``rate`` of them in a second or as fast as they go."""
        first, self._serial = self._serial, self._serial + inputs
        return self._start_feeding(range(first, self._serial), rate)

    @contextmanager
    def load(self, rate: float) -> Iterator[None]:
        """Feed ``rate`` inputs a second for as long as the block runs, and deliver what was begun."""
        self._loading.set()
        thread = self._start_feeding(self._counting(), rate)
        try:
            yield
        finally:
            self._loading.clear()
            thread.join(2 * BOUND)
        self._check()
        assert not thread.is_alive(), "the last inputs were not delivered"

    def _counting(self) -> Iterator[int]:
        for number in count(self._serial):
            if not self._loading.is_set():
                return
            self._serial = number + 1
            yield number

    def _start_feeding(self, numbers: Iterable[int], rate: float | None) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(self._feed, numbers, rate), name="ledger feeder")
        self._threads.append(thread)
        thread.start()
        return thread

    def feed_now(self, inputs: int) -> None:
        thread = self.feed(inputs)
        thread.join(BOUND)
        self._check()
        assert not thread.is_alive(), f"{inputs} inputs were not delivered within {BOUND:.0f} s"

    def _feed(self, numbers: Iterable[int], rate: float | None) -> None:
        config = {"enable.idempotence": True, "linger.ms": 20, "delivery.timeout.ms": 300_000}
        producer = Producer({**self.pipe.client, **config})
        began = time.monotonic()
        for done, number in enumerate(numbers):
            if rate is not None and self._closing.wait(max(0.0, began + done / rate - time.monotonic())):
                return
            self._produce(producer, number)
            producer.poll(0)
        while producer.flush(0.2) and not self._closing.is_set():
            pass

    def _produce(self, producer: Producer, number: int) -> None:
        partition = number % self.pipe.partitions
        value = b"input %d" % number
        while not self._closing.is_set():
            try:
                producer.produce(
                    self.pipe.source, value, b"key %d" % partition, partition=partition, on_delivery=self._delivered
                )
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:  # which input was lost on the way in is no business of the app
            self._failure = self._failure or KafkaException(error)
            return
        with self._moved:
            self._fed += 1
            self._acknowledged[message.value()] = message.partition(), message.offset()
            self._moved.notify_all()

    # ------------------------------------------------------------ what comes out

    def _read(self) -> None:
        config = {
            "group.id": "ledger",  # never joined
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 200,
            # A broker that comes back may refuse an offset. By default the reader would go on at the end, and take for
            # lost what it has passed over.
            "auto.offset.reset": "earliest",
        }
        with Consumer({**self.pipe.client, **config}) as consumer:
            consumer.assign([TopicPartition(self.pipe.sink, each, 0) for each in range(self.pipe.partitions)])
            while not self._closing.is_set():
                messages = consumer.consume(1000, 0.2)
                with self._moved:
                    for message in messages:
                        self._count(message)
                    self._moved.notify_all()

    def _count(self, message: Message) -> None:
        if (error := message.error()) is None:
            source = came_from(message)
            place = _place_of(message)
            self._outputs += place not in self._seen[source]
            self._seen[source].add(place)
            self._values[source] = message.value()
            self._ends[message.partition()] = message.offset() + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._ends[message.partition()] = message.offset()
        elif error.fatal():
            raise KafkaException(error)

    # ------------------------------------------------------------ what it says

    @property
    def fed(self) -> int:
        """How many inputs were delivered to the input topic, as its brokers say."""
        return self._fed

    @property
    def outputs(self) -> int:
        return self._outputs

    @property
    def different(self) -> int:
        return len(self._seen)

    @property
    def planned(self) -> int:
        """How many inputs there will be when all feeding is done; no end of them under a load."""
        return sys.maxsize if self._loading.is_set() else self._serial

    def glance(self) -> str:
        return f"{self.fed} in, {self.outputs} out, {self.different} of them different"

    def wait_for(self, outputs: int, timeout: float = BOUND) -> None:
        with self._moved:
            reached = self._moved.wait_for(lambda: self._failure or len(self._seen) >= outputs, timeout)
        self._check()
        assert reached, f"no {outputs} inputs came out within {timeout:.0f} s: {self.glance()}"

    def transaction_is_open(self) -> bool:
        """Ask whether the output topic ends, for readers of committed data, before its end."""
        try:
            return self._ends_of("read_committed") != self._ends_of("read_uncommitted")
        except KafkaException:  # a broker is away, so that the end is unknown
            return False

    def balance(self, timeout: float = BOUND) -> Balance:
        """Wait until every input has come out and no transaction is open, or the time is up; then compare.

        Stop all writers before, or the end moves on.
        """
        reached = self._at_end(timeout, self._all_out)
        balance = self.compare()
        assert reached or not balance.exactly_once, f"the end of {self.pipe.sink} was not reached in {timeout:.0f} s"
        return balance

    def settled(self, timeout: float = BOUND) -> Balance:
        """Compare as soon as the reader is at the end of the outputs, though inputs may have been lost."""
        assert self._at_end(timeout), f"a transaction of {self.pipe.sink} stayed open for {timeout:.0f} s"
        return self.compare()

    def _at_end(self, timeout: float, and_also: Callable[[], bool] = lambda: True) -> bool:
        until = time.monotonic() + timeout
        reached = False
        while not reached and time.monotonic() < until:
            ends = self._end()
            with self._moved:
                reached = self._moved.wait_for(lambda ends=ends: self._ends == ends and and_also(), 0.5)
            self._check()
        return reached

    def _all_out(self) -> bool:
        return self.fed == self._serial and self.different >= self.fed

    def compare(self) -> Balance:
        inputs = self._inputs()
        with self._moved:
            return Balance(
                inputs=len(inputs),
                outputs=self.outputs,
                lost=tuple(sorted(inputs.keys() - self._seen.keys())),
                duplicated=tuple(sorted(source for source, places in self._seen.items() if len(places) > 1)),
                changed=tuple(sorted(source for source, value in self._values.items() if inputs.get(source) != value)),
            )

    def trace(self, sources: Iterable[Input]) -> str:
        """Say where the outputs of inputs were seen, and where they are for a reader that begins anew.

        A place is a partition, an offset and the time of the record.
        """
        told = []
        outputs = {isolation: self._places(isolation) for isolation in ("read_committed", "read_uncommitted")}
        for source in sources:
            committed, written = (found.get(source, []) for found in outputs.values())
            seen = sorted(self._seen.get(source, ()))
            told.append(f"{source}: seen at {seen}, committed at {committed}, written at {written}")
        return "\n".join(told)

    def vanished(self) -> dict[bytes, Input]:
        """Return the inputs that the input topic does not hold though it has acknowledged them, and where."""
        held = set(self._inputs().values())
        with self._moved:
            return {value: place for value, place in self._acknowledged.items() if value not in held}

    def _places(self, isolation: str) -> dict[Input, list[Place]]:
        found: dict[Input, list[Place]] = {}
        for message in self._all_of(self.pipe.sink, isolation):
            found.setdefault(came_from(message), []).append(_place_of(message))
        return found

    def _inputs(self) -> dict[Input, bytes]:
        """Read what the input topic holds: under faults, a producer may be told of one input twice, or of no place."""
        found = self._all_of(self.pipe.source, "read_uncommitted")
        return {(message.partition(), message.offset()): message.value() for message in found}

    def _all_of(self, topic: str, isolation: str) -> list[Message]:
        own = {"group.id": "ledger", "enable.partition.eof": True, "enable.auto.commit": False}
        found: list[Message] = []
        left = set(range(self.pipe.partitions))
        until = time.monotonic() + BOUND
        with Consumer({**self.pipe.client, **own, "isolation.level": isolation}) as consumer:
            consumer.assign([TopicPartition(topic, each, 0) for each in left])
            while left:
                assert time.monotonic() < until, f"{topic} could not be read within {BOUND:.0f} s"
                for message in consumer.consume(1000, 0.5):
                    if (error := message.error()) is None:
                        found.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
        return found

    def _end(self) -> dict[int, int] | None:
        try:
            return self._ends_of("read_uncommitted")
        except KafkaException:
            return None

    def _ends_of(self, isolation: str) -> dict[int, int]:
        if (reader := self._end_readers.get(isolation)) is None:
            reader = Consumer({**self.pipe.client, "group.id": "ledger", "isolation.level": isolation})
            self._end_readers[isolation] = reader
        partitions = [TopicPartition(self.pipe.sink, each) for each in range(self.pipe.partitions)]
        try:
            return {each.partition: reader.get_watermark_offsets(each, 10.0)[1] for each in partitions}
        except KafkaException:
            # It asks a broker that is the leader no more, until it refreshes its metadata after five minutes.
            del self._end_readers[isolation]
            reader.close()
            raise

    def _guarded(self, work: object, *arguments: object) -> None:
        try:
            work(*arguments)  # type: ignore[operator]
        except Exception as failure:  # noqa: BLE001 - raised again in the test's own thread
            with self._moved:
                self._failure = failure
                self._moved.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _place_of(message: Message) -> Place:
    return int(message.partition() or 0), int(message.offset() or 0), message.timestamp()[1]
