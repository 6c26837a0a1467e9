"""The task of one shard: it writes the shard's rows of one batch in one transaction. It runs on an executor.

The order of its steps makes the sink exactly-once. A task first fences the previous producer of the shard, which
aborts the transaction that an older attempt left open. It then reads the shard's progress, which nothing else can
change any more (P7). It commits the new progress in the transaction of the rows.
"""

from __future__ import annotations

import logging
import time
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from featuregate_spark.errors import NotReplayable, TransactionTimedOut, WriteFailed
from featuregate_spark.sink.kept_clients import KeptClients
from featuregate_spark.sink.progress import is_committed, is_committed_with
from featuregate_spark.sink.progress_reader import POLL_SECONDS, QUICK_READ_SECONDS
from featuregate_spark.sink.reused_worker import drop_importers_outside, freeze_once
from featuregate_spark.sink.shard_producer import ProducerFenced
from featuregate_spark.sink.shards import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from featuregate_spark.sink.progress_reader import ProgressReader
    from featuregate_spark.sink.shard_producer import ShardProducer
    from featuregate_spark.sink.shards import Batch

__all__ = ["RESULT_SCHEMA", "Committed", "EmptyShardTask", "ShardTask", "write_shard"]

_log = logging.getLogger("featuregate.spark.sink")

RESULT_SCHEMA: Final = StructType(
    [
        StructField("shard", IntegerType()),
        StructField("rows", LongType()),
        StructField("bytes", LongType()),
        StructField("skipped", BooleanType()),
    ]
)
"""The schema of a task's result, which is one row. The JVM would parse it as text, for each batch again."""


_KEPT: Final = KeptClients()
"""The clients of this worker."""


class Committed(NamedTuple):
    """The outcome of a task: the shard has committed the batch."""

    rows: int = 0
    """Rows that this task has written."""
    bytes: int = 0
    """The size of their keys and values."""
    skipped: bool = True
    """Whether another attempt has committed the shard, so that this task wrote nothing."""


class ShardTask:
    """The function that ``mapInArrow`` runs in each task of a batch. Picklable."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shard of this task; yield one row of :data:`RESULT_SCHEMA`."""
        drop_importers_outside(Path(pyspark.SparkFiles.getRootDirectory()))
        task = pyspark.TaskContext.get()
        assert task is not None
        number = task.partitionId()
        done = write_shard(Shard(self.batch, number), iter(rows), _KEPT)
        freeze_once()
        yield pa.RecordBatch.from_pydict(
            {
                "shard": pa.array([number], pa.int32()),
                "rows": pa.array([done.rows], pa.int64()),
                "bytes": pa.array([done.bytes], pa.int64()),
                "skipped": pa.array([done.skipped]),
            }
        )


class EmptyShardTask(ShardTask):
    """The function for a batch without rows: the rows that lead Spark to run it are not written."""

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's signature
        """Commit the shard of this task; yield one row of :data:`RESULT_SCHEMA`."""
        return super().__call__(())


def write_shard(shard: Shard, rows: Iterator[pa.RecordBatch], kept: KeptClients) -> Committed:
    """Write the rows of a shard, unless another attempt has committed them.

    Raises
    ------
    WriteFailed
        Kafka did not take the rows, or did not say whether it committed them; the next attempt finds out.
    TransactionTimedOut
        The transaction was open for longer than ``transaction.timeout.ms``, and no other attempt has committed.
    ProgressLost
        The shard has committed a later batch.
    NotReplayable
        The rows are those of another shard.
    """
    try:
        outcome = _attempt(shard, rows, kept)
        return outcome if isinstance(outcome, Committed) else _committed_by_other_attempt(shard, kept, outcome)
    except BaseException:
        kept.close(shard.batch.query)  # clients that have failed may go on failing
        raise


def _committed_by_other_attempt(
    shard: Shard, kept: KeptClients, failure: ProducerFenced | TransactionTimedOut
) -> Committed:
    """Return if the attempt that fenced this one commits; raise if it does not, or if there is none."""
    reader = kept.reader(shard.batch)
    if isinstance(failure, ProducerFenced):
        _await_commit_of_other_attempt(shard, reader, failure)
    elif not _is_committed_now(shard, reader):
        raise failure
    return Committed()


def _attempt(
    shard: Shard, rows: Iterator[pa.RecordBatch], kept: KeptClients
) -> Committed | ProducerFenced | TransactionTimedOut:
    """Write the shard in a transaction, and return its outcome; raise where the task must fail."""
    first = next(rows, None)  # before the transaction begins: Spark may take a while to produce it
    reader = kept.reader(shard.batch)
    try:
        producer = _continue(shard, reader, kept) or _start(shard, reader, kept)
        if producer is None:
            return Committed()
        done = _write(shard, producer, first, rows)
    except (ProducerFenced, TransactionTimedOut) as fenced:
        return fenced
    kept.keep_producer(shard, producer)
    if shard.batch.stable_offsets:
        # Brokers finish a transaction after they have answered the commit, and reject an InitProducerId before
        # that: the client of a task in another worker would retry half a second later.
        reader.read([shard.number], shard.batch.timeout)
    return done


def _continue(shard: Shard, reader: ProgressReader, kept: KeptClients) -> ShardProducer | None:
    """Begin the transaction of the producer that this worker has kept; return None where that is not possible.

    The transaction takes the progress first. So a producer that another attempt has fenced is known before it has sent
    any row, and a new producer can send all of them.
    """
    producer = kept.take_producer(shard)
    if producer is not None:
        try:
            _begin(producer, reader)
        except (WriteFailed, ProducerFenced) as failed:
            _log.info("%s; a new producer writes it", failed)
            producer.close()
            return None
    return producer


def _start(shard: Shard, reader: ProgressReader, kept: KeptClients) -> ShardProducer | None:
    """Begin the transaction of a new producer; return None where another attempt has committed the shard."""
    producer = kept.new_producer(shard)
    try:
        producer.fence_previous()
        progress = reader.read_fenced([shard.number])[shard.number]
        if is_committed_with(progress, shard.batch.batch_id, shard.batch.sharding):
            producer.close()
            return None
        _begin(producer, reader)
    except BaseException:
        producer.close()
        raise
    return producer


def _begin(producer: ShardProducer, reader: ProgressReader) -> None:
    producer.begin()
    producer.commit_progress(reader.group)


def _write(
    shard: Shard, producer: ShardProducer, first: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> Committed:
    """Send the rows and commit; after an error abort, and close the producer."""
    try:
        count, size = _send(shard, producer, first, rows)
        producer.commit()
    except BaseException as error:
        cause = producer.abort(error)
        producer.close()
        if cause is error:
            raise
        raise cause from error
    return Committed(count, size, skipped=False)


def _send(
    shard: Shard, producer: ShardProducer, first: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> tuple[int, int]:
    """Send all rows; return how many, and the size of their keys and values."""
    count = size = 0
    while first is not None:
        _require_own(shard, first)
        count += first.num_rows
        size += sum(_bytes(first.column(name)) for name in ("key", "value") if name in first.schema.names)
        topics = (topic or shard.batch.topic for topic in _values(first, "topic"))
        fields = [_values(first, name) for name in ("value", "key", "partition", "headers")]
        producer.send(islice(zip(topics, *fields, strict=False), first.num_rows))
        producer.poll()
        first = next(rows, None)
    return count, size


def _values(rows: pa.RecordBatch, name: str) -> Iterable[Any]:
    """Return the values of a column; endless nulls where there is no such column."""
    return rows.column(name).to_pylist() if name in rows.schema.names else repeat(None)


def _bytes(column: Any) -> int:
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _require_own(shard: Shard, rows: pa.RecordBatch) -> None:
    """Refuse rows of another shard: a replay would not find them here (P8)."""
    others = [number for number in pc.unique(rows.column("shard")).to_pylist() if number != shard.number]
    if others:
        raise NotReplayable(
            f"{shard} was given rows of shard {others[0]}: Spark has merged partitions that the sink keeps apart. Does "
            "this Spark have an optimizer rule of your own?"
        )


def _await_commit_of_other_attempt(shard: Shard, reader: ProgressReader, fenced: ProducerFenced) -> None:
    """Wait for the attempt that fenced this one: if this one failed, Spark would start a third, which fences that."""
    deadline = time.monotonic() + shard.batch.timeout
    while not _is_committed_now(shard, reader):
        if time.monotonic() > deadline:
            raise WriteFailed(
                f"{fenced}, and the other attempt has not committed within {shard.batch.timeout:g} s"
            ) from fenced
        time.sleep(POLL_SECONDS)


def _is_committed_now(shard: Shard, reader: ProgressReader) -> bool:
    """Return whether the shard has committed the batch; False where the progress cannot be read now."""
    try:
        return is_committed(reader.read([shard.number], QUICK_READ_SECONDS)[shard.number], shard.batch.batch_id)
    except WriteFailed as unread:
        _log.info("%s", unread)  # an open transaction holds the progress, or the coordinator moves
        return False
