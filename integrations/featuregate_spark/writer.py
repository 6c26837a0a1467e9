"""What a task of the sink does: one slot of one batch, in one transaction. It runs on an executor.

The order is what makes it exactly-once. The id is taken first, which ends whatever an older attempt has open, and
stops it for good; the memory is read after that, when nobody else can change it any more (P7); and the memory of this
batch is committed in the transaction of its rows.
"""

from __future__ import annotations

import logging
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from featuregate_spark.errors import NotReplayable, WriteFailed
from featuregate_spark.memories import PAUSE, QUIET, Memories, Unanswered, words_of
from featuregate_spark.slots import Slot, is_done, is_written, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Message

    from featuregate_spark.slots import Batch, Memory

__all__ = ["WRITTEN", "SlotTask", "settled_memories"]

_log = logging.getLogger("featuregate.spark.writer")

WRITTEN: Final = "slot int, rows long, bytes long, skipped boolean, seconds double"
"""The schema of what a task tells."""

_ROOM_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 2.0
"""For a look that a transaction may hold up, before something is done about it."""
_ENDING_AT_ONCE: Final = 8
CLOSE_SECONDS: Final = 3.0
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


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
    with Memories(slot.batch) as memories:
        try:
            rows_written, bytes_written, skipped = _write(slot, memories, rows)
        except _Replaced as replaced:
            _stand_aside(slot, memories, replaced)
            rows_written, bytes_written, skipped = 0, 0, True
    told = [slot.number], [rows_written], [bytes_written], [skipped], [time.monotonic() - began]
    types = (pa.int32(), pa.int64(), pa.int64(), pa.bool_(), pa.float64())
    names = [part.split()[0] for part in WRITTEN.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(one, kind) for one, kind in zip(told, types, strict=True)], names)


def settled_memories(batch: Batch, slots: Iterable[int]) -> dict[int, Memory | None]:
    """Read what slots have committed, for a driver that begins.

    Before rows are led to slots in another layout than the last one, or while a transaction holds a memory, whatever
    older attempts have open is ended, as the tasks would do it later: whether they had begun this batch, and in which
    layout, must be certain (P8).

    Raises
    ------
    WriteFailed
        It cannot be read: rights, or nobody answers.
    MemoryLost
        Something else has committed in this group.
    """
    wanted = list(slots)
    with Memories(batch) as memories:
        found = _at_rest(batch, wanted, memories)
        if found is None or any(_is_other_layout(memory, batch) for memory in found.values()):
            with ThreadPoolExecutor(_ENDING_AT_ONCE, "featuregate-ending") as pool:
                list(pool.map(partial(_end, batch), wanted))
            found = memories.read_ended(wanted)
        return found


def _is_other_layout(memory: Memory | None, batch: Batch) -> bool:
    return memory is not None and memory.after >= batch.batch_id and memory.layout != batch.layout


def _at_rest(batch: Batch, slots: Sequence[int], memories: Memories) -> dict[int, Memory | None] | None:
    """Read what slots have committed; None where a transaction holds some of it, or brokers do not tell of that."""
    if not batch.stable:
        return None
    try:
        return memories.read(slots, _LOOK_SECONDS)
    except Unanswered as held:
        _log.info("%s; what older attempts have left open is ended", held)
        return None


def _end(batch: Batch, number: int) -> None:
    """End what older attempts at a slot have open, and stop them for good."""
    slot = Slot(batch, number)
    producer = _producer(slot, Refused())
    try:
        _take_id(slot, producer)
    except _Replaced as replaced:
        raise WriteFailed(f"{replaced}: another driver runs this query") from replaced
    finally:
        _close(slot, producer)


def _producer(slot: Slot, refused: Refused) -> Producer:
    ours = {
        "transactional.id": slot.transactional_id,
        "on_delivery": refused,
        "delivery.report.only.error": True,
        "logger": _log,
    }
    return Producer({**QUIET, **slot.batch.producer, **ours})


def _take_id(slot: Slot, producer: Producer) -> None:
    _insist(slot, "its transactional id could not be taken", producer.init_transactions)


def _write(slot: Slot, memories: Memories, rows: Iterator[pa.RecordBatch]) -> tuple[int, int, bool]:
    batch, refused = slot.batch, Refused()
    producer = _producer(slot, refused)
    try:
        _take_id(slot, producer)
        if is_written(memories.read_ended([slot.number])[slot.number], batch.batch_id, batch.layout):
            return 0, 0, True
        first = next(rows, None)  # before the transaction begins: it may take Spark a while
        producer.begin_transaction()
        try:
            counted = _produce(slot, producer, first, rows)
            _remember(slot, producer, memories)
            _insist(slot, "its transaction could not be committed", producer.commit_transaction)
        except BaseException as error:
            _abort(slot, producer, error)
            if refused.first is not None and isinstance(error, WriteFailed):
                raise WriteFailed(f"{error}; {refused.first}") from error
            raise
        if batch.stable:
            # Brokers finish a transaction after they have answered that it is committed, and send away whoever takes
            # the id before that: the client of the next batch would ask again half a second later.
            memories.read([slot.number], batch.timeout)
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


def _produce(
    slot: Slot, producer: Producer, first: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> tuple[int, int]:
    count = size = 0
    while first is not None:
        _check_slot(slot, first)
        count += sum(present := first.column("here").to_pylist())
        size += sum(_bytes(first.column(name)) for name in ("key", "value") if name in first.schema.names)
        fields = [_values(first, name) for name in ("topic", "value", "key", "partition", "headers")]
        for here, topic, value, key, partition, header in zip(present, *fields, strict=False):
            if here:
                _send(slot, producer, topic or slot.batch.topic, value, key, partition, header)
        producer.poll(0)
        first = next(rows, None)
    return count, size


def _values(rows: pa.RecordBatch, name: str) -> Iterable[Any]:
    """Give the values of a column; no end of nulls where it is not there."""
    return rows.column(name).to_pylist() if name in rows.schema.names else repeat(None)


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


def _remember(slot: Slot, producer: Producer, memories: Memories) -> None:
    """Commit the slot's memory in the transaction of its rows."""
    batch = slot.batch
    place = TopicPartition(batch.memory_topic, slot.number, batch.batch_id + 1, text_of(batch.layout))
    group = memories.group

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
        raise _Replaced(f"{slot}: {what}: {words_of(failure)}") from failure
    raise WriteFailed(f"{slot}: {what}: {words_of(failure)}") from failure


def _abort(slot: Slot, producer: Producer, error: BaseException) -> None:
    """Abort, so that readers need not wait for the transaction to time out; who is fenced has nothing to abort.

    Raises
    ------
    _Replaced
        That is why the call failed which is undone here: the client calls it a fatal error, and says more only now.
    """
    if isinstance(error, _Replaced):
        return
    try:
        producer.abort_transaction(slot.batch.timeout)
    except KafkaException as failure:
        if failure.args[0].name() in _FENCED and isinstance(error, WriteFailed):
            raise _Replaced(f"{error}: {words_of(failure)}") from failure
        _log.warning("%s: the transaction was not aborted, and ends by its timeout: %s", slot, words_of(failure))


def _close(slot: Slot, producer: Producer) -> None:
    def close() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that the transaction of a fenced one cannot be aborted
            producer.close()

    try:
        _within(CLOSE_SECONDS, close)
    except (KafkaException, TimeoutError) as error:  # it is gone, or left behind with its threads
        _log.info("%s: its producer was not closed: %r", slot, error)


def _stand_aside(slot: Slot, memories: Memories, replaced: _Replaced) -> None:
    """Wait for the attempt that took this one's id: if this one failed, Spark would begin another against it."""
    deadline = time.monotonic() + slot.batch.timeout
    while time.monotonic() < deadline:
        try:
            if is_done(memories.read([slot.number], _LOOK_SECONDS)[slot.number], slot.batch.batch_id):
                return
        except WriteFailed as unread:
            _log.info("%s", unread)  # its transaction is open, or a broker is on its way
        time.sleep(PAUSE)
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
