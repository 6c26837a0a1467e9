"""What a task of the sink does: one slot of one batch, in one transaction. It runs on an executor.

The order is what makes it exactly-once. The id is taken first, which ends whatever an older attempt has open, and
stops it for good; the memory is read after that, when nobody else can change it any more (P7); and the memory of this
batch is committed in the transaction of its rows.
"""

from __future__ import annotations

import logging
import time
import warnings
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from featuregate_spark.errors import NotReplayable, WriteFailed
from featuregate_spark.slots import Memory, is_done, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Message

__all__ = ["WRITTEN", "Batch", "SlotTask", "partitions_of", "read_memories"]

_log = logging.getLogger("featuregate.spark.writer")

WRITTEN: Final = "slot int, rows long, bytes long, skipped boolean, seconds double"
"""The schema of what a task tells."""

_ROOM_SECONDS: Final = 0.01
_PAUSE: Final = 0.2
CLOSE_SECONDS: Final = 3.0
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_QUIET: Final = {"log_level": 3}
_ATTEMPT: Final = 5.0
_PASSING: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's own codes are public names that begin so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Errors that pass while the group moves to another coordinator, or a transaction ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a task has to know of its batch. Picklable."""

    query: str
    """The group of the slots' memories, and what their transactional ids begin with."""
    batch_id: int
    slots: int
    memory_topic: str
    """The topic on whose partitions the memories are noted: slot 3 on partition 3."""
    topic: str | None
    """Where rows go that name no topic."""
    producer: Mapping[str, Any] = field(repr=False)
    """librdkafka's properties, which may hold secrets."""
    connection: Mapping[str, Any] = field(repr=False)
    """Those of them by which a consumer reaches the same brokers."""
    stable: bool
    """Whether every broker is known to hold back offsets of transactions that have not ended (OffsetFetch 7)."""
    timeout: float
    """Seconds that a call may take."""


class Slot(NamedTuple):
    """One slot of a batch: who writes it."""

    batch: Batch
    number: int

    @property
    def transactional_id(self) -> str:
        """The same for each batch and each attempt (P6)."""
        return f"{self.batch.query}-{self.number}"

    def __str__(self) -> str:
        return f"slot {self.number} of {self.batch.slots} of query {self.batch.query!r}, batch {self.batch.batch_id}"


class _Replaced(Exception):
    """Another attempt has taken this slot's id."""


class SlotTask:
    """The function of the tasks of a batch: what ``mapInArrow`` is given. Picklable."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the slot of this task, unless it was written before; give one row that tells of it."""
        from pyspark import TaskContext  # noqa: PLC0415 - tests write slots without a Spark

        task = TaskContext.get()
        assert task is not None
        yield write_slot(Slot(self.batch, task.partitionId()), iter(rows))


def write_slot(slot: Slot, rows: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """Write a slot, unless it was written before; give one row that tells of it.

    Raises
    ------
    WriteFailed
        Kafka did not take the rows. Nothing of them counts, or all of it: the next attempt will find out.
    MemoryLost
        The slot has committed a later batch.
    """
    began = time.monotonic()
    consumer = Consumer(_reader(slot.batch, "read_committed"))
    try:
        rows_written, bytes_written, skipped = _write(slot, consumer, rows)
    except _Replaced as replaced:
        _stand_aside(slot, consumer, replaced)
        rows_written, bytes_written, skipped = 0, 0, True
    finally:
        consumer.close()
    told = [slot.number], [rows_written], [bytes_written], [skipped], [time.monotonic() - began]
    types = (pa.int32(), pa.int64(), pa.int64(), pa.bool_(), pa.float64())
    names = [part.split()[0] for part in WRITTEN.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(one, kind) for one, kind in zip(told, types, strict=True)], names)


def read_memories(batch: Batch, slots: Iterable[int], *, isolation: str) -> dict[int, Memory | None]:
    """Read what slots have committed; for a driver, which has no consumer of its own.

    Parameters
    ----------
    isolation
        ``read_committed`` waits for the transactions that hold an offset; ``read_uncommitted`` gives what was before.

    Raises
    ------
    WriteFailed
        It cannot be read: rights, or nobody answers.
    MemoryLost
        Something else has committed in this group.
    """
    consumer = Consumer(_reader(batch, isolation))
    try:
        return _memories(batch, slots, consumer)
    finally:
        consumer.close()


def partitions_of(connection: Mapping[str, Any], topic: str, timeout: float) -> int:
    """Return how many partitions a topic has. It is asked for as consumers ask, which creates none.

    Raises
    ------
    WriteFailed
        There is no such topic, or nobody answers.
    """
    client = Consumer({**_QUIET, **connection, "group.id": "featuregate", "logger": _log})
    try:
        found = client.list_topics(topic, timeout=timeout).topics[topic]
    except KafkaException as failure:
        raise WriteFailed(f"nobody says how many partitions topic {topic!r} has: {_words(failure)}") from failure
    finally:
        client.close()
    if found.error is not None or not found.partitions:
        raise WriteFailed(f"topic {topic!r} cannot be written: {found.error.str() if found.error else 'no partitions'}")
    return len(found.partitions)


def _memories(batch: Batch, slots: Iterable[int], consumer: Consumer) -> dict[int, Memory | None]:
    wanted = [TopicPartition(batch.memory_topic, slot) for slot in slots]
    found = _committed(batch, wanted, consumer)
    for each in found:
        if each.error is not None:
            raise WriteFailed(
                f"what query {batch.query!r} has committed for slot {each.partition} cannot be read: {each.error.str()}"
            )
    return {each.partition: Memory.read(each.offset, each.metadata) for each in found}


def _committed(batch: Batch, wanted: list[TopicPartition], consumer: Consumer) -> list[TopicPartition]:
    """Ask the group's coordinator, again while it moves, or while a transaction holds an offset."""
    deadline = time.monotonic() + batch.timeout
    while True:
        try:
            return consumer.committed(wanted, timeout=min(max(deadline - time.monotonic(), _PAUSE), _ATTEMPT))
        except KafkaException as failure:
            if failure.args[0].code() not in _PASSING or time.monotonic() > deadline:
                said = f"what query {batch.query!r} has committed cannot be read: {_words(failure)}"
                raise WriteFailed(said) from failure
            time.sleep(_PAUSE)


def _reader(batch: Batch, isolation: str) -> dict[str, Any]:
    """Configure a consumer that never joins: it asks for offsets, and lends its group's name to a transaction."""
    return {
        **_QUIET,
        **batch.connection,
        "group.id": batch.query,
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "retry.backoff.ms": 10,  # for an offset that a transaction holds for a few milliseconds
        "logger": _log,
    }


def _write(slot: Slot, consumer: Consumer, rows: Iterator[pa.RecordBatch]) -> tuple[int, int, bool]:
    batch, refused = slot.batch, Refused()
    ours = {
        "transactional.id": slot.transactional_id,
        "on_delivery": refused,
        "delivery.report.only.error": True,
        "logger": _log,
    }
    producer = Producer({**_QUIET, **batch.producer, **ours})
    try:
        _insist(slot, "its transactional id could not be taken", producer.init_transactions)
        if is_done(_own_memory(slot, consumer), batch.batch_id):
            return 0, 0, True
        first = next(rows, None)  # before the transaction begins: it may take Spark a while
        producer.begin_transaction()
        try:
            counted = _produce(slot, producer, first, rows)
            _remember(slot, producer, consumer)
            _insist(slot, "its transaction could not be committed", producer.commit_transaction)
        except BaseException as error:
            _abort(slot, producer, error)
            if refused.first is not None and isinstance(error, WriteFailed):
                raise WriteFailed(f"{error}; {refused.first}") from error
            raise
        if batch.stable:
            # Brokers finish a transaction after they have answered that it is committed, and send away whoever takes
            # the id before that: the client of the next batch would ask again half a second later.
            _own_memory(slot, consumer)
        return *counted, False
    finally:
        _close(slot, producer)


class Refused:
    """Hears of records that did not arrive, and keeps what was said of the first: the others follow from it."""

    def __init__(self) -> None:
        self.first: str | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take a delivery report."""
        if error is not None and self.first is None:
            where = f"topic {message.topic()!r}, partition {message.partition()}"
            self.first = f"the first that was refused was for {where}: {error.name()}: {error.str()}"


def _own_memory(slot: Slot, consumer: Consumer) -> Memory | None:
    """Read a slot's memory, once nobody else can change it.

    Brokers before 2.5 show an offset a moment after its transaction has ended, so that there it is read until two
    reads agree.
    """
    found = _memories(slot.batch, [slot.number], consumer)[slot.number]
    while not slot.batch.stable:
        time.sleep(_PAUSE)
        again = _memories(slot.batch, [slot.number], consumer)[slot.number]
        if again == found:
            break
        found = again
    return found


def _produce(
    slot: Slot, producer: Producer, first: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> tuple[int, int]:
    count = size = 0
    while first is not None:
        _check_slot(slot, first)
        columns = {name: first.column(name) for name in first.schema.names}
        values = columns["value"].to_pylist()
        count += sum(present := columns["here"].to_pylist())
        size += _bytes(columns["key"]) + _bytes(columns["value"])
        topics = columns["topic"].to_pylist()
        keys = columns["key"].to_pylist()
        partitions = columns["partition"].to_pylist()
        headers = columns["headers"].to_pylist()
        for here, topic, value, key, partition, header in zip(
            present, topics, values, keys, partitions, headers, strict=True
        ):
            if here:
                _send(slot, producer, topic or slot.batch.topic, value, key, partition, header)
        producer.poll(0)
        first = next(rows, None)
    return count, size


def _check_slot(slot: Slot, rows: pa.RecordBatch) -> None:
    """Refuse rows that belong to another slot: a replay would not find them here (P8)."""
    found = pc.unique(rows.column("slot")).to_pylist()
    strangers = [number for number in found if number != slot.number]
    if strangers:
        raise NotReplayable(
            f"{slot} was given rows of slot {strangers[0]}: Spark has put partitions together that the sink had "
            "told apart. Is an optimizer rule of your own at work?"
        )


def _bytes(column: Any) -> int:
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _send(
    slot: Slot,
    producer: Producer,
    topic: str | None,
    value: bytes | None,
    key: bytes | None,
    partition: int | None,
    headers: Sequence[Mapping[str, Any]] | None,
) -> None:
    if topic is None:
        raise WriteFailed(f"{slot}: a row has no topic, and the sink was given none")
    more: dict[str, Any] = {} if headers is None else {"headers": [(each["key"], each["value"]) for each in headers]}
    deadline: float | None = None
    while True:
        try:
            producer.produce(topic, value, key, -1 if partition is None else partition, **more)
        except BufferError:
            now = time.monotonic()
            deadline = deadline or now + slot.batch.timeout
            if now > deadline:
                raise WriteFailed(f"{slot}: no room in the producer's queue for {slot.batch.timeout:g} s") from None
            producer.poll(_ROOM_SECONDS)
        except KafkaException as failure:
            size = len(value or b"") + len(key or b"")
            _fail(slot, f"a record of {size:,} bytes for topic {topic!r} was not taken", failure)
        else:
            return


def _remember(slot: Slot, producer: Producer, consumer: Consumer) -> None:
    """Commit the slot's memory in the transaction of its rows."""
    batch = slot.batch
    place = TopicPartition(batch.memory_topic, slot.number, batch.batch_id + 1, text_of(batch.slots))
    group = consumer.consumer_group_metadata()

    def send(timeout: float) -> None:
        # The client may wait for a broker that is gone, whatever timeout it is given.
        _within(timeout + _ROOM_SECONDS, lambda: producer.send_offsets_to_transaction([place], group, timeout))

    _insist(slot, "its memory could not be committed", send)


def _insist(slot: Slot, what: str, call: Callable[[float], object]) -> None:
    """Call, again while that helps."""
    deadline = time.monotonic() + slot.batch.timeout
    while True:
        try:
            call(max(deadline - time.monotonic(), 0.1))
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                _fail(slot, what, failure)
        except TimeoutError:
            raise WriteFailed(f"{slot}: {what}: no answer within {slot.batch.timeout:g} s") from None
        else:
            return


def _fail(slot: Slot, what: str, failure: KafkaException) -> NoReturn:
    error: KafkaError = failure.args[0]
    if error.name() in _FENCED:
        raise _Replaced(f"{slot}: {what}: {_words(failure)}") from failure
    raise WriteFailed(f"{slot}: {what}: {_words(failure)}") from failure


def _abort(slot: Slot, producer: Producer, error: BaseException) -> None:
    """Abort, so that readers need not wait for the transaction to time out; who is fenced has nothing to abort."""
    if isinstance(error, _Replaced):
        return
    try:
        producer.abort_transaction(slot.batch.timeout)
    except KafkaException as failure:
        _log.warning("%s: the transaction was not aborted, and ends by its timeout: %s", slot, _words(failure))


def _close(slot: Slot, producer: Producer) -> None:
    def close() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that the transaction of a fenced one cannot be aborted
            producer.close()

    try:
        _within(CLOSE_SECONDS, close)
    except (KafkaException, TimeoutError) as error:  # it is gone, or left behind with its threads
        _log.info("%s: its producer was not closed: %r", slot, error)


def _stand_aside(slot: Slot, consumer: Consumer, replaced: _Replaced) -> None:
    """Wait for the attempt that took this one's id: if this one failed, Spark would begin another against it."""
    deadline = time.monotonic() + slot.batch.timeout
    while time.monotonic() < deadline:
        try:
            if is_done(_memories(slot.batch, [slot.number], consumer)[slot.number], slot.batch.batch_id):
                return
        except WriteFailed as unread:
            _log.info("%s", unread)  # its transaction is open, or a broker is on its way
        time.sleep(_PAUSE)
    raise WriteFailed(f"{replaced}, and the other attempt has not committed within {slot.batch.timeout:g} s")


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Make a call that may never come back; where it does not, it is left behind."""
    answers: SimpleQueue[BaseException | None] = SimpleQueue()

    def answer() -> None:
        try:
            call()
        except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
            answers.put(failure)
        else:
            answers.put(None)

    Thread(target=answer, name="featuregate-call", daemon=True).start()
    try:
        failure = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if failure is not None:
        raise failure


def _words(failure: KafkaException) -> str:
    error: KafkaError = failure.args[0]
    return f"{error.name()}: {error.str()}"
