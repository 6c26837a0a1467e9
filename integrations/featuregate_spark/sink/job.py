"""The Spark job that writes a batch: a shuffle leads each row to its shard, and one task writes each shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from featuregate_spark.errors import NotReplayable, WriteFailed, WrongColumns
from featuregate_spark.failures import cause_of
from featuregate_spark.session_kind import is_classic
from featuregate_spark.sink.shard_task import RESULT_SCHEMA, ShardTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from featuregate_spark.sink.shards import Batch

__all__ = ["columns_to_write", "require_replayable", "write_batch"]

_TYPES: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns of Spark's Kafka sink and the types that each may have; each is written as the last one."""


def columns_to_write(df: DataFrame, topic: str | None, shard_by: Sequence[str]) -> DataFrame:
    """Select the columns of Spark's Kafka sink that are present, and cast each to one type.

    Raises
    ------
    WrongColumns
        A column is missing, or has another type.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in df.schema.fields}
    if "value" not in types:
        raise WrongColumns(f"there is no column 'value'; there are: {', '.join(df.columns) or 'none'}")
    if topic is None and "topic" not in types:
        raise WrongColumns("there is no column 'topic', and the sink was given no topic")
    for name in shard_by:
        if name.lower() not in types:
            raise WrongColumns(f"there is no column {name!r}, named by shard_by; there are: {', '.join(df.columns)}")
    for name, kind in types.items():
        if name in _TYPES and kind not in _TYPES[name]:
            raise WrongColumns(f"column {name!r} is {kind}, and must be {' or '.join(_TYPES[name])}")
    # The shuffle carries no missing columns: nulls cost as much as values. The option topic wins over the column, as
    # in Spark's own sink.
    present = [name for name in _TYPES if name in types and not (name == "topic" and topic is not None)]
    return df.select(*shard_by, *[f.col(name).cast(_TYPES[name][-1]).alias(f"__{name}") for name in present])


def require_replayable(spark: SparkSession) -> None:
    """Refuse a query whose replay would give other rows, as far as Spark shows that.

    Raises
    ------
    NotReplayable
        The query's plan has an expression that gives another value each time.
    """
    plan = _plan_of_current_query(spark)
    if plan is not None and not plan.deterministic():
        raise NotReplayable(
            "the query has an expression that gives another value each time, such as uuid() or rand(): a replay would "
            "lead its rows to other shards. Compute it in the batch's function from values that do not change, or name "
            "the columns that do not change: kafka_sink(..., shard_by=[...])"
        )


def _plan_of_current_query(spark: SparkSession) -> Any:
    """Return the analysed plan of the micro-batch that runs; None where Spark does not show it, as on Spark Connect.

    `spark` is the session that started the query: the session of the batch's DataFrame is a copy without queries.
    """
    if not is_classic(spark):
        return None
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    query = spark.streams.get(query_id) if query_id else None
    if query is None:
        return None
    execution: Any = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001 - PySpark shows plans as text only
    return None if execution is None else execution.analyzed()


def write_batch(rows: DataFrame, batch: Batch) -> list[Row]:
    """Write the rows of :func:`columns_to_write`; return the result of each shard's task.

    Raises
    ------
    FeatureSparkError
        A task has raised it.
    WriteFailed
        Not every shard has a result.
    """
    keys, shards = list(batch.sharding.shard_by) or ["__shard_key"], batch.sharding.shards
    names = [name for name in _TYPES if f"__{name}" in rows.columns]
    writing = (
        _with_shard_key(rows, batch.sharding.shard_by, names)
        .repartition(shards, *keys)
        .withColumn("shard", f.pmod(f.hash(*keys), f.lit(shards)).cast("int"))
        .select("shard", *[f.col(f"__{name}").alias(name) for name in (*names, "here")])
        .mapInArrow(ShardTask(batch), RESULT_SCHEMA)
    )
    try:
        results = writing.collect()
    except Exception as error:
        cause = cause_of(error, rows.sparkSession)
        if cause is None:
            raise
        raise cause from error
    if sorted(result["shard"] for result in results) != list(range(shards)):
        raise WriteFailed(
            f"batch {batch.batch_id}: there are {len(results)} results of {shards} shards; a replay writes the rest"
        )
    return results


def _with_shard_key(rows: DataFrame, shard_by: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Add the column that chooses a row's shard, and one placeholder row: an empty plan would run no task (P9).

    Rows of one key share a shard, so that their order stays that of the partition that they come from.
    """
    shard_key = f.coalesce(*[f.col(f"__{name}") for name in ("key", "value") if name in names]).alias("__shard_key")
    found = rows.select(*shard_by, *[f"__{name}" for name in names], shard_key, f.lit(True).alias("__here"))  # noqa: FBT003
    nulls = [f.lit(None).cast(field.dataType).alias(field.name) for field in found.schema.fields[:-1]]
    placeholder = rows.sparkSession.range(1).select(*nulls, f.lit(False).alias("__here"))  # noqa: FBT003
    return found.union(placeholder)
