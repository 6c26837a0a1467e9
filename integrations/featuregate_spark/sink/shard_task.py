"""The task of some shards: it writes the rows of each shard of one batch in one transaction. It runs on an executor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from featuregate_spark.errors import NotReplayable
from featuregate_spark.sink.shard_attempt import CommittedShard, ShardAttempt
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shards import Batch, Shard

RESULT_SCHEMA: Final = StructType(
    [
        StructField("shard", IntegerType()),
        StructField("rows", LongType()),
        StructField("bytes", LongType()),
        StructField("skipped", BooleanType()),
    ]
)
"""The schema of a task's result, a row for each shard. The JVM would parse it as text, for each batch again."""


_KEPT: Final = KeptClients()
"""The clients of this worker."""


class ShardTask:
    """The function that ``mapInArrow`` runs in each task of a batch. Picklable.

    Of `tasks` tasks, task 1 writes the shards 1, 1 + `tasks`, and so on.
    """

    def __init__(self, batch: Batch, tasks: int) -> None:
        self.batch = batch
        self.tasks = tasks

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shards of this task; yield rows of :data:`RESULT_SCHEMA`."""
        task = pyspark.TaskContext.get()
        assert task is not None
        numbers = range(task.partitionId(), self.batch.sharding.shards, self.tasks)
        done = write_shards([Shard(self.batch, number) for number in numbers], iter(rows), _KEPT)
        yield pa.RecordBatch.from_pydict(
            {
                "shard": pa.array(numbers, pa.int32()),
                "rows": pa.array([each.rows for each in done], pa.int64()),
                "bytes": pa.array([each.bytes for each in done], pa.int64()),
                "skipped": pa.array([each.skipped for each in done]),
            }
        )


class EmptyShardTask(ShardTask):
    """The function for a batch without rows: the rows that lead Spark to run it are not written."""

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's signature
        """Commit the shards of this task; yield rows of :data:`RESULT_SCHEMA`."""
        return super().__call__(())


def write_shards(shards: Sequence[Shard], rows: Iterator[pa.RecordBatch], kept: KeptClients) -> list[CommittedShard]:
    """Write the rows of some shards of a batch, except shards that another attempt has committed.

    Each shard has a transaction of its own. After an error some may have committed; the next attempt skips these.
    Raises WriteFailed, TransactionTimedOut, ProgressLost, and NotReplayable for rows of another shard.
    """
    batch = shards[0].batch
    try:
        first = next(rows, None)  # before the transactions begin: Spark may take a while to produce it
        attempts = {shard.number: ShardAttempt(shard, kept) for shard in shards}
        try:
            _side_by_side(ShardAttempt.begin, attempts.values())
            _send(first, rows, attempts)
        except BaseException as error:
            _side_by_side(methodcaller("abort", error), attempts.values())
            raise
        _side_by_side(ShardAttempt.commit, attempts.values())
        written = [number for number, attempt in attempts.items() if attempt.written]
        if batch.stable_offsets and written:
            # Brokers finish a transaction after they have answered the commit, and reject an InitProducerId before
            # that: the client of a task in another worker would retry half a second later.
            kept.reader(batch).read(written, batch.timeout)
        return [attempt.outcome() for attempt in attempts.values()]
    except BaseException:
        kept.close(batch.query)  # clients that have failed may go on failing
        raise


def _send(first: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch], attempts: Mapping[int, ShardAttempt]) -> None:
    """Send all rows, each by the attempt at its shard."""
    while first is not None:
        numbers = _shards_in(first)
        for number in numbers:
            if number not in attempts:
                raise _not_replayable(number, attempts.values())
        for number in numbers:
            own = first if len(attempts) == 1 else first.filter(pc.equal(first.column("shard"), number))
            attempts[number].send(own)
        first = next(rows, None)


def _shards_in(rows: pa.RecordBatch) -> list[int]:
    """Return the numbers of the shards that have rows. Rows of a batch with one shard do not name it."""
    found: list[int] = pc.unique(rows.column("shard")).to_pylist() if "shard" in rows.schema.names else [0]
    return found


def _not_replayable(number: int, attempts: Iterable[ShardAttempt]) -> NotReplayable:
    """Return the error of rows of another shard: a replay would not find them here (P8)."""
    return NotReplayable(
        f"the task of {', '.join(str(attempt.shard) for attempt in attempts)} was given rows of shard {number}: Spark "
        "has merged partitions that the sink keeps apart. Does this Spark have an optimizer rule of your own?"
    )


def _side_by_side(call: Callable[[ShardAttempt], object], attempts: Collection[ShardAttempt]) -> None:
    """Call each attempt; wait for all calls, and then raise the first error."""
    if len(attempts) == 1:
        for attempt in attempts:
            call(attempt)
        return
    with ThreadPoolExecutor(len(attempts), "featuregate-sink") as pool:
        calls = [pool.submit(call, attempt) for attempt in attempts]  # map() cancels what has not begun at an error
    for made in calls:
        made.result()
