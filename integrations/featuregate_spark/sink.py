"""The exactly-once Kafka sink: the plan that leads each row of a micro-batch to its slot, and the slots' tasks.

It writes what Spark's own Kafka sink writes, and promises more: each row of the stream is there once for readers of
committed data, whatever happens to tasks, executors, the driver and brokers.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from featuregate.errors import ConfigError
from featuregate_spark.errors import NotReplayable, WriteFailed, WrongColumns
from featuregate_spark.events import BatchWritten
from featuregate_spark.failures import cause_of
from featuregate_spark.kinds import is_classic
from featuregate_spark.memories import partitions_of
from featuregate_spark.settling import settled_memories
from featuregate_spark.slots import LONGEST_TEXT, Batch, Layout, NotWhole, layout_of_batch, text_of
from featuregate_spark.writer import WRITTEN, SlotTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from featuregate_spark.events import SparkEvent
    from featuregate_spark.watch import Watch

__all__ = ["KafkaSink"]

PATIENCE: Final = 15.0
"""Seconds for which the end of the batch before may still become visible: brokers finish a transaction after they
have answered that it is committed."""
_PAUSE: Final = 0.2
SLOTS_UNTOLD: Final = 8
"""On Spark Connect, which does not tell how many cores there are."""

_TYPES: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns of Spark's Kafka sink, and the types that each may have; the last one is what it is written as."""

_OURS: Final = ("transactional.id", "enable.idempotence", "acks", "request.required.acks")
"""Properties that the sink sets itself."""

_CONNECTION: Final = (
    "bootstrap.",
    "broker.",
    "client.",
    "enable.ssl.",
    "metadata.",
    "oauth",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
)
"""How the properties begin that say where the cluster is, and who we are."""


class KafkaSink:
    """What ``writeStream.foreachBatch`` is given, or an app's own function calls: ``sink(df, batch_id)``.

    Make one with :meth:`featuregate_spark.FeatureSession.kafka_sink`.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        query_name: str,
        topic: str | None,
        memory_topic: str | None,
        producer: Mapping[str, Any],
        slots: int | None,
        by: Sequence[str],
        first_batch: int,
        timeout: float,
        watch: Watch,
        stable_gate: str,
        zstd_gate: str,
        tell: Callable[[SparkEvent], None],
    ) -> None:
        if not query_name:
            raise ConfigError("query_name", "must not be empty: it names the transactional ids and the slots' memories")
        noted_in = memory_topic or topic
        if noted_in is None:
            raise ConfigError("memory_topic", "must be given where no topic is: slots note there what they have done")
        if slots is not None and slots < 1:
            raise ConfigError("slots", f"must be 1 or more, not {slots!r}")
        if isinstance(by, str):
            raise ConfigError("by", f"must be a list of columns: by=[{by!r}]")
        if not all(by) or len(text_of(Layout(1, tuple(by)))) > LONGEST_TEXT:
            raise ConfigError("by", f"must name columns, by {LONGEST_TEXT:,} characters at most: slots note them")
        if not timeout > 0:
            raise ConfigError("timeout", f"must be a number of seconds above 0, not {timeout!r}")
        for name in _OURS:
            if name in producer:
                raise ConfigError(name, "is set by the sink itself: remove it")
        self._spark: SparkSession | None = spark
        self._query = query_name
        self._topic = topic
        self._memory_topic = noted_in
        self._producer = dict(producer)
        self._wanted = slots
        self._by = tuple(by)
        self._first_batch = first_batch
        self._timeout = timeout
        self._watch = watch
        self._stable_gate = stable_gate
        self._zstd_gate = zstd_gate
        self._tell = tell
        self._partitions: int | None = None
        self._complete: int | None = None

    def __repr__(self) -> str:
        return f"<KafkaSink {self._query!r} to {self._topic or 'the topic of each row'}>"

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what only this process knows."""
        return {**self.__dict__, "_spark": None, "_partitions": None, "_complete": None}

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write a batch, or what of it was not written before.

        Raises
        ------
        WrongColumns, NotReplayable, MemoryLost
            The batch cannot be written as it is; nothing of it was.
        WriteFailed
            Kafka did not take a part of it. A replay writes what is missing.
        WrongPython
            The Python of Spark's workers cannot run the sink.
        """
        began = time.monotonic()
        rows = _columns(df, self._topic, self._by)
        if not self._by and self._spark is not None:
            _require_replayable(self._spark)
        batch = self._batch(df.sparkSession, batch_id)
        told = _run(rows, batch, self._by)
        self._complete = batch_id
        self._tell(
            BatchWritten(
                query=self._query,
                batch_id=batch_id,
                rows=sum(row["rows"] for row in told),
                bytes=sum(row["bytes"] for row in told),
                slots=batch.layout.slots,
                skipped=sum(row["skipped"] for row in told),
                seconds=time.monotonic() - began,
            )
        )

    # ------------------------------------------------------------------ how a batch is written

    def _batch(self, spark: SparkSession, batch_id: int) -> Batch:
        """Say how a batch is written: by the gates of now, and by as many slots as it had before."""
        gates = {gate.name: gate.open for gate in self._watch.look().gates}
        producer = {
            **({"compression.type": "zstd"} if gates.get(self._zstd_gate) else {}),
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": 65_536,  # a task that outruns Kafka waits, and does not hoard
            "queue.buffering.max.messages": 1_000_000,  # bytes are the bound
            **self._producer,
        }
        draft = Batch(
            query=self._query,
            batch_id=batch_id,
            layout=Layout(self._slots_wanted(spark), self._by),
            memory_topic=self._memory_topic,
            topic=self._topic,
            producer=producer,
            connection=_connection(producer),
            stable=gates.get(self._stable_gate, False),
            timeout=self._timeout,
        )
        return self._settled(draft)

    def _settled(self, batch: Batch) -> Batch:
        """Take the layout that the batch had when it first ran, if it did (P8), after looking at all memories (P9)."""
        complete, self._complete = self._complete, None
        if complete == batch.batch_id - 1:
            return batch  # this very process has seen the batch before end, and begins this one for the first time
        deadline = time.monotonic() + PATIENCE
        while True:
            memories = settled_memories(batch, range(self._places()))
            try:
                layout = layout_of_batch(memories, batch.batch_id, batch.layout, self._first_batch)
            except NotWhole:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
            else:
                return replace(batch, layout=layout)

    def _slots_wanted(self, spark: SparkSession) -> int:
        places = self._places()
        if self._wanted is None:
            return min(places, _parallelism(spark))
        if self._wanted > places:
            raise ConfigError(
                "slots",
                f"must not be more than the {places} partitions of {self._memory_topic!r}, on which slots note what "
                f"they have done, but is {self._wanted}",
            )
        return self._wanted

    def _places(self) -> int:
        """Say how many slots there can be at most."""
        if self._partitions is None:
            self._partitions = partitions_of(_connection(self._producer), self._memory_topic, self._timeout)
        return self._partitions


def _connection(producer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what any other client needs to reach the same brokers as the same user."""
    return {name: value for name, value in producer.items() if name.startswith(_CONNECTION)}


def _parallelism(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism if is_classic(spark) else SLOTS_UNTOLD


# ---------------------------------------------------------------------- the plan


def _columns(df: DataFrame, topic: str | None, by: Sequence[str]) -> DataFrame:
    """Take the columns of Spark's Kafka sink that are there, each of one type, whatever the app's was.

    Raises
    ------
    WrongColumns
        One is missing, or of another type.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in df.schema.fields}
    if "value" not in types:
        raise WrongColumns(f"there is no column 'value'; there are: {', '.join(df.columns) or 'none'}")
    if topic is None and "topic" not in types:
        raise WrongColumns("there is no column 'topic', and the sink was given no topic")
    for name in by:
        if name.lower() not in types:
            raise WrongColumns(f"there is no column {name!r}, which by= names; there are: {', '.join(df.columns)}")
    for name, kind in types.items():
        if name in _TYPES and kind not in _TYPES[name]:
            raise WrongColumns(f"column {name!r} is {kind}, and must be {' or '.join(_TYPES[name])}")
    # What no row has is not led through the shuffle: nulls cost as much as what they stand for. The option topic wins
    # over the column, as in Spark's own sink.
    there = [name for name in _TYPES if name in types and not (name == "topic" and topic is not None)]
    return df.select(*by, *[f.col(name).cast(_TYPES[name][-1]).alias(f"__{name}") for name in there])


def _require_replayable(spark: SparkSession) -> None:
    """Refuse a query whose rows a replay would make anew, as far as Spark tells.

    Raises
    ------
    NotReplayable
        The query's plan has an expression that gives another value each time.
    """
    plan = _plan_of_this_query(spark)
    if plan is not None and not plan.deterministic():
        raise NotReplayable(
            "the query has an expression that gives another value each time, such as uuid() or rand(): a replay would "
            "lead its rows to other slots. Compute it in the batch's function from what does not change, or name the "
            "columns that do not change: kafka_sink(..., by=[...])"
        )


def _plan_of_this_query(spark: SparkSession) -> Any:
    """Give the analysed plan of the micro-batch that runs; None where Spark does not show it, as on Spark Connect.

    The session is the one that began the query: that of the batch's DataFrame is a copy, and knows no queries.
    """
    if not is_classic(spark):
        return None
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    query = spark.streams.get(query_id) if query_id else None
    if query is None:
        return None
    execution: Any = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001 - PySpark shows plans as text only
    return None if execution is None else execution.analyzed()


def _run(rows: DataFrame, batch: Batch, by: Sequence[str]) -> list[Row]:
    """Lead each row to its slot, and let one task write each slot."""
    keys, slots = list(by) or ["__slot_key"], batch.layout.slots
    names = [name for name in _TYPES if f"__{name}" in rows.columns]
    writing = (
        _slotted(rows, by, names)
        .repartition(slots, *keys)
        .withColumn("slot", f.pmod(f.hash(*keys), f.lit(slots)).cast("int"))
        .select("slot", *[f.col(f"__{name}").alias(name) for name in (*names, "here")])
        .mapInArrow(SlotTask(batch), WRITTEN)
    )
    try:
        told = writing.collect()
    except Exception as error:
        cause = cause_of(error, rows.sparkSession)
        if cause is None:
            raise
        raise cause from error
    if sorted(row["slot"] for row in told) != list(range(slots)):
        raise WriteFailed(
            f"batch {batch.batch_id}: {len(told)} tasks have told of {slots} slots; a replay writes what is missing"
        )
    return told


def _slotted(rows: DataFrame, by: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Add what a row's slot is found by, and a row that is none: an empty plan would run no task at all (P9).

    Rows of one key share a slot, so that their order is what it was in the partition that they come from.
    """
    slot_key = f.coalesce(*[f.col(f"__{name}") for name in ("key", "value") if name in names]).alias("__slot_key")
    found = rows.select(*by, *[f"__{name}" for name in names], slot_key, f.lit(True).alias("__here"))  # noqa: FBT003
    spark = rows.sparkSession
    nobody = [f.lit(None).cast(field.dataType).alias(field.name) for field in found.schema.fields[:-1]]
    return found.union(spark.range(1).select(*nobody, f.lit(False).alias("__here")))  # noqa: FBT003
