"""What a task of the sink does: one slot of one batch, in one transaction. It runs on an executor.

The order is what makes it exactly-once. The id is taken first, which ends whatever an older attempt has open, and
stops it for good; the memory is read after that, when nobody else can change it any more (P7); and the memory of this
batch is committed in the transaction of its rows.
"""

from __future__ import annotations

import logging
import time
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_spark.errors import NotReplayable, TransactionTimedOut, WriteFailed
from featuregate_spark.memories import LOOK_SECONDS, PAUSE, Memories
from featuregate_spark.producers import Replaced, SlotProducer
from featuregate_spark.slots import Slot, is_done, is_written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from featuregate_spark.slots import Batch

__all__ = ["WRITTEN", "SlotTask", "write_slot"]

_log = logging.getLogger("featuregate.spark.writer")

WRITTEN: Final = "slot int, rows long, bytes long, skipped boolean, seconds double"
"""The schema of what a task tells."""


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
    TransactionTimedOut
        The transaction was open for longer than ``transaction.timeout.ms``, and nobody else has written the slot.
    MemoryLost
        The slot has committed a later batch.
    """
    began = time.monotonic()
    with Memories(slot.batch) as memories:
        try:
            rows_written, bytes_written, skipped = _write(slot, memories, rows)
        except Replaced as replaced:
            _stand_aside(slot, memories, replaced)
            rows_written, bytes_written, skipped = 0, 0, True
        except TransactionTimedOut:
            if not _is_done_now(slot, memories):
                raise
            rows_written, bytes_written, skipped = 0, 0, True
    told = [slot.number], [rows_written], [bytes_written], [skipped], [time.monotonic() - began]
    types = (pa.int32(), pa.int64(), pa.int64(), pa.bool_(), pa.float64())
    names = [part.split()[0] for part in WRITTEN.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(one, kind) for one, kind in zip(told, types, strict=True)], names)


def _write(slot: Slot, memories: Memories, rows: Iterator[pa.RecordBatch]) -> tuple[int, int, bool]:
    batch = slot.batch
    with SlotProducer(slot) as producer:
        producer.take_id()
        if is_written(memories.read_ended([slot.number])[slot.number], batch.batch_id, batch.layout):
            return 0, 0, True
        first = next(rows, None)  # before the transaction begins: it may take Spark a while
        producer.begin()
        try:
            counted = _produce(slot, producer, first, rows)
            producer.remember(memories.group)
            producer.commit()
        except BaseException as error:  # noqa: BLE001 - abort() raises it
            producer.abort(error)
        if batch.stable:
            # Brokers finish a transaction after they have answered that it is committed, and send away whoever takes
            # the id before that: the client of the next batch would ask again half a second later.
            memories.read([slot.number], batch.timeout)
        return *counted, False


def _produce(
    slot: Slot, producer: SlotProducer, first: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> tuple[int, int]:
    count = size = 0
    while first is not None:
        _check_slot(slot, first)
        count += sum(present := first.column("here").to_pylist())
        size += sum(_bytes(first.column(name)) for name in ("key", "value") if name in first.schema.names)
        fields = [_values(first, name) for name in ("topic", "value", "key", "partition", "headers")]
        for here, topic, value, key, partition, header in zip(present, *fields, strict=False):
            if here:
                producer.send(topic or slot.batch.topic, value, key, partition, header)
        producer.hear()
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


def _stand_aside(slot: Slot, memories: Memories, replaced: Replaced) -> None:
    """Wait for the attempt that took this one's id: if this one failed, Spark would begin another against it."""
    deadline = time.monotonic() + slot.batch.timeout
    while time.monotonic() < deadline:
        if _is_done_now(slot, memories):
            return
        time.sleep(PAUSE)
    raise WriteFailed(f"{replaced}, and the other attempt has not committed within {slot.batch.timeout:g} s")


def _is_done_now(slot: Slot, memories: Memories) -> bool:
    """Say whether the slot has committed this batch; not where that cannot be read now."""
    try:
        return is_done(memories.read([slot.number], LOOK_SECONDS)[slot.number], slot.batch.batch_id)
    except WriteFailed as unread:
        _log.info("%s", unread)  # a transaction holds the memory, or a broker is on its way
        return False
