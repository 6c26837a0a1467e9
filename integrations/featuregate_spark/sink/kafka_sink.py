"""The exactly-once Kafka sink, on the driver.

It takes the columns of Spark's own Kafka sink. For readers of committed data each row of the stream is there once,
whatever happens to tasks, executors, the driver and brokers.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from featuregate.logs import get_logger
from featuregate_spark.errors import TransactionTimedOut, WriteFailed, WrittenBefore
from featuregate_spark.events import BatchWritten, SparkEvent
from featuregate_spark.session_kind import is_classic
from featuregate_spark.sink.job import Tasks, collect_small, columns_to_write, write_batch
from featuregate_spark.sink.plans import ReplayCheck, Run, RunningQuery, running_query
from featuregate_spark.sink.progress_reader import Topic, find_topic
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Batch, Shard
from featuregate_spark.sink.startup import WRITERS, QueryName, sharding_at_start

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from featuregate_spark.sink.options import SinkOptions
    from featuregate_spark.sink.shard_attempt import CommittedShard
    from featuregate_spark.watch import Watch


_log = get_logger("featuregate.spark.sink")

STABLE_OFFSETS_GATE: Final = "kafka-sink-kip447"
ZSTD_GATE: Final = "kafka-sink-zstd"
_TIMES_SLOWER: Final = 4
"""One task only if the last batch took less than a quarter of transaction.timeout.ms."""
_CORES_OF_ONE_TASK: Final = 2
"""Cores that the task of a JVM and its Python worker keep busy."""
_SHARDS_OF_ONE_TASK: Final = 8
"""Each has a producer, which buffers up to 64 MB where brokers are slow."""
_CHEAP_SECONDS: Final = 5e-6
"""Where a row takes less, with all that is done for it, most of that is writing it."""
_SHARDS_ON_CONNECT: Final = 8
"""The default on Spark Connect, which does not say how many cores there are."""


class KafkaSink:
    """Pass it to ``writeStream.foreachBatch``, or call it in a function of your own: ``sink(df, batch_id)``.

    Make one with :meth:`featuregate_spark.FeatureSession.kafka_sink`.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: SinkOptions,
        *,
        watch: Watch,
        emit: Callable[[SparkEvent], None],
    ) -> None:
        self._spark: SparkSession | None = spark
        self._options = options
        self._watch = watch
        self._emit = emit
        self._run = Run()
        self._topic: Topic | None = None
        self._last: BatchWritten | None = None
        self._small_batches = SmallBatchWriter()
        self._replay_check = ReplayCheck()
        self._query: RunningQuery | None = None

    def __repr__(self) -> str:
        return f"<KafkaSink {self._options.query_name!r} to {self._options.topic or 'the topic of each row'}>"

    def __getstate__(self) -> dict[str, Any]:
        """Drop the state that only this process has."""
        own = ("_spark", "_topic", "_last", "_query")
        return {**self.__dict__, **dict.fromkeys(own), "_run": Run()}

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the shards of a batch that are not committed yet. Call it once for each batch.

        Raises
        ------
        WrittenBefore
            The sink has written this batch in this run of the query.
        WrongColumns, NotReplayable, ProgressLost
            The batch cannot be written, or not completed; the message says why.
        WriteFailed
            Kafka did not take some rows. A replay writes what is missing.
        WrongPython
            The Python of Spark's workers cannot run the sink.
        """
        began = time.monotonic()
        options = self._options
        rows = columns_to_write(df, options.topic, options.shard_by)
        query = self._query_of(df)
        if not options.shard_by:
            self._replay_check.require_replayable(df, query)
        last = self._begin(batch_id, Run() if query is None else query.run)
        cores = _cores(df.sparkSession)
        with WRITERS.writing(self._name(), self, self._run_of_writer(), batch_id):
            batch = self.batch(batch_id, cores, last)
            outcomes = self._write_small(rows, batch, last) or self._write(rows, batch, last, cores)
        written = BatchWritten(
            query=batch.query,
            batch_id=batch_id,
            rows=sum(outcome.rows for outcome in outcomes),
            bytes=sum(outcome.bytes for outcome in outcomes),
            shards=batch.sharding.shards,
            skipped=sum(outcome.skipped for outcome in outcomes),
            seconds=time.monotonic() - began,
        )
        self._last = written
        self._emit(written)

    def _query_of(self, df: DataFrame) -> RunningQuery | None:
        """Return the query of a batch: a worker of Spark Connect serves one, and has to ask the server for it."""
        if self._spark is not None or self._query is None:
            self._query = running_query(df)
        return self._query

    def _begin(self, batch_id: int, run: Run) -> BatchWritten | None:
        """Return the last batch of this run of the query; None if there is none here, or if one has failed since."""
        if run != self._run:  # another process may have written batches between two runs
            self._run, self._last, self._topic = run, None, None
        last = self._last
        of_one_run = run.id is not None or self._spark is None  # a worker of Spark Connect serves one run
        if of_one_run and last is not None and last.batch_id == batch_id:
            raise WrittenBefore(
                f"the sink of query {self._options.query_name!r} has written batch {batch_id} already, and would take "
                "these rows for those. Give it the rows of a batch in one DataFrame (df.unionByName), or a second sink "
                "with another query_name"
            )
        self._last = None
        return last

    def check_topics(self) -> None:
        """Look for the topics that the sink was given, so that a query without them does not start.

        Raises WriteFailed (a topic does not exist, or no broker answers), ConfigError (more shards are wanted than the
        topic of the progress has partitions).
        """
        options = self._options
        options.shards_of(self._find_topic().partitions, cores=1)
        if options.topic not in {None, options.topic_of_progress}:
            find_topic(options.connection, options.topic, options.timeout)

    def close(self) -> None:
        """Close the Kafka clients of this process. They are made again when a batch needs them."""
        self._small_batches.close()
        WRITERS.forget(self)

    def _name(self) -> QueryName:
        cluster = self._find_topic().cluster_id
        return QueryName(self._options.query_name, cluster or str(self._options.connection.get("bootstrap.servers")))

    def _run_of_writer(self) -> Run:
        """Return the current run; a worker of Spark Connect serves one, which it may not know."""
        return Run(id="worker") if self._spark is None and self._run.id is None else self._run

    def _find_topic(self) -> Topic:
        if self._topic is None:
            options = self._options
            self._topic = find_topic(options.connection, options.topic_of_progress, options.timeout)
        return self._topic

    def _write(self, rows: DataFrame, batch: Batch, last: BatchWritten | None, cores: int) -> list[CommittedShard]:
        self._small_batches.close()  # the tasks fence their producers
        tasks = tasks_of(batch, cores, last, one_machine=_is_one_machine(rows.sparkSession))
        try:
            return write_batch(rows, batch, tasks)
        except TransactionTimedOut as late:
            each = Tasks(batch.sharding.shards)
            if tasks == each:
                raise
            _log.warning("%s; a task for each shard writes the batch", late)
            return write_batch(rows, batch, each)

    def _write_small(self, rows: DataFrame, batch: Batch, last: BatchWritten | None) -> list[CommittedShard] | None:
        """Write a batch here if the last one had few rows; None where tasks have to write it.

        To find out that a batch is large takes its plan a first time. So the last batch decides whether to try.
        """
        most = self._options.driver_rows
        if not most or last is None or last.rows > most or batch.sharding.shards > MOST_SHARDS:
            return None
        small = collect_small(rows, batch, most)
        if small is None:
            return None
        try:
            return self._small_batches.write(small, batch)
        except WriteFailed as failed:
            # Spark would try a task again, too. These are the same rows, also where Spark would compute others.
            _log.warning("%s; the driver tries again", failed)
            return self._small_batches.write(small, batch)

    def batch(self, batch_id: int, cores: int, last: BatchWritten | None = None) -> Batch:
        """Decide how a batch is written: by the current gates, and in the sharding of its first run.

        `last` is the last batch that this process has written, if no batch has failed since.
        """
        options = self._options
        partitions = self._find_topic().partitions
        _, watched = self._watch.observe()
        gates = {gate.name: gate.decision for gate in watched}
        batch = options.batch(
            batch_id,
            options.shards_of(partitions, cores),
            # A latch keeps the gate open while a broker is seen that shows offsets late.
            stable_offsets=STABLE_OFFSETS_GATE in gates and gates[STABLE_OFFSETS_GATE].verdict == "open",
            zstd=ZSTD_GATE in gates and gates[ZSTD_GATE].open,
            checkpoint=self._run.checkpoint,
        )
        if last is not None and last.batch_id == batch_id - 1:
            return batch  # this process has written the previous batch, and so begins this one for the first time
        return replace(batch, sharding=sharding_at_start(batch, partitions, options.first_batch))


def tasks_of(batch: Batch, cores: int, last: BatchWritten | None, *, one_machine: bool) -> Tasks:
    """Choose the tasks that write a batch: one for each shard, or one for all shards.

    One task suffices for one core, and for the two cores of one machine: the Python worker, the threads of its
    producers and the broker take the other one. It computes the rows as well where they are cheap, which saves the
    shuffle. A transaction must not time out because its rows are slow to compute, and the last batch shows how long
    they take. So the first batch, also the first one after a failure, is shuffled.
    """
    each = Tasks(batch.sharding.shards)
    if each.number > _SHARDS_OF_ONE_TASK:
        return each
    pair = cores == _CORES_OF_ONE_TASK and one_machine
    if last is None:
        return Tasks(1) if pair else each  # one task, so that Spark starts one worker, and it keeps all producers
    quick = last.seconds < batch.transaction_timeout / _TIMES_SLOWER
    if not quick or not (cores == 1 or pair):
        return each
    return Tasks(1, shuffled=pair and last.seconds > last.rows * _CHEAP_SECONDS)


def _cores(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism if is_classic(spark) else _SHARDS_ON_CONNECT


def _is_one_machine(spark: SparkSession) -> bool:
    """Return whether all tasks run in the driver's JVM, as with ``local[2]``."""
    return is_classic(spark) and re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master or "") is not None


MOST_SHARDS: Final = 16
"""The driver writes shards side by side, each with clients of its own. Executors share more of them."""


class SmallBatchWriter:
    """Writes all shards of a batch in this process. It keeps the clients of each shard until it is closed.

    Any thread may close it, which waits for the end of a batch.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, KeptClients] = {}

    def __reduce__(self) -> tuple[type[SmallBatchWriter], tuple[()]]:
        """Travel without the clients of this process."""
        return SmallBatchWriter, ()

    def write(self, rows: pa.Table, batch: Batch) -> list[CommittedShard]:
        """Write rows that have the columns of a shard task and ``shard``; return the outcome of each shard.

        Raises SinkError (see :func:`featuregate_spark.sink.shard_task.write_shards`. Other shards may have committed).
        """
        numbers = range(batch.sharding.shards)

        def write(number: int, kept: KeptClients) -> CommittedShard:
            own = rows.filter(pc.equal(rows.column("shard"), number))
            return write_shards([Shard(batch, number)], iter(own.to_batches()), kept)[0]

        with self._lock, ThreadPoolExecutor(len(numbers), "featuregate-sink") as pool:
            kept = [self._kept.setdefault(number, KeptClients()) for number in numbers]
            return list(pool.map(write, numbers, kept))

    def close(self) -> None:
        """Close all clients. They are made again when a batch needs them."""
        with self._lock:
            for kept in self._kept.values():
                kept.close()
            self._kept.clear()
