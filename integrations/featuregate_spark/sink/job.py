"""The Spark jobs of a batch: one in which tasks write the shards, and one that brings a small batch to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from featuregate.logs import get_logger
from featuregate_spark.arrow_tables import to_arrow
from featuregate_spark.errors import WriteFailed, WrongColumns
from featuregate_spark.failures import cause_of
from featuregate_spark.reused_worker import ReusedWorkerTask
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shard_task import RESULT_SCHEMA, EmptyShardTask, ShardTask

if TYPE_CHECKING:
    import pyarrow as pa

    from featuregate_spark.sink.shards import Batch

_log = get_logger("featuregate.spark.sink")

_TYPES: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns of Spark's Kafka sink and the types that each may have; each is written as the last one."""


class Tasks(NamedTuple):
    """The tasks that write the shards of a batch, and how its rows get to them."""

    number: int
    """1, or one for each shard."""
    shuffled: bool = True
    """Whether a transaction begins when all of its rows are computed; else one task computes them meanwhile."""


_MOST_BYTES: Final = 4096
"""Bytes of a row of a batch that the driver collects."""
_RESULT_LIMIT: Final = "spark.driver.maxResultSize"
"""Spark's error of a job with a larger result names this setting, and has no class of its own."""


def columns_to_write(df: DataFrame, topic: str | None, shard_by: Sequence[str]) -> DataFrame:
    """Select the columns of Spark's Kafka sink that are present, and cast each to one type. Raises WrongColumns."""
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
    # Text, here and below: each function of pyspark is some calls of the JVM, and a small batch waits for all of them.
    return df.selectExpr(
        *map(_quoted, shard_by), *[f"cast({_quoted(name)} AS {_TYPES[name][-1]}) AS __{name}" for name in present]
    )


def write_batch(rows: DataFrame, batch: Batch, tasks: Tasks) -> list[CommittedShard]:
    """Write the rows of :func:`columns_to_write` in these tasks; return the outcome of each shard.

    Rows of one key share a shard, so that their order stays that of the partition that they come from. Raises
    FeatureSparkError (a task has raised it), WriteFailed (not every shard has a result).
    """
    with _raising_causes(rows.sparkSession):
        # Spark's optimizer removes the tasks of a batch without rows, and each shard commits each batch (P9).
        results = _written(rows, batch, tasks) or _written_without_rows(rows.sparkSession, batch, tasks)
    if sorted(result["shard"] for result in results) != list(range(batch.sharding.shards)):
        raise WriteFailed(
            f"batch {batch.batch_id}: there are {len(results)} results of {batch.sharding.shards} shards; a replay "
            "writes the rest"
        )
    return [CommittedShard(result["rows"], result["bytes"], result["skipped"]) for result in results]


def collect_small(rows: DataFrame, batch: Batch, most: int) -> pa.Table | None:
    """Bring the rows of :func:`columns_to_write` here, each with its shard.

    Returns None if there are more than `most`, if one has more than 4,096 bytes, or if they are more than
    ``spark.driver.maxResultSize``. Of any batch one row too many is all that comes here: each task stops there, and one
    more task cuts off what they have found together. Raises FeatureSparkError (a task has raised it).
    """
    names = _columns_of(rows)
    sizes = [f"coalesce(octet_length(__{name}), 0)" for name in names if name in {"key", "value"}]
    if "headers" in names:
        sizes.append("coalesce(aggregate(__headers, 0, (sum, each) -> sum + coalesce(octet_length(each.value), 0)), 0)")
    marked = rows.selectExpr(
        _shard_of(_keys(rows, batch), batch),
        f"{' + '.join(sizes)} > {_MOST_BYTES} AS __long",
        *(f"__{name}" for name in names),
    )
    wanted = marked.selectExpr("shard", "__long", *(f"if(__long, NULL, __{name}) AS {name}" for name in names))
    try:
        with _raising_causes(rows.sparkSession):
            found = to_arrow(wanted.limit(most + 1))
    except Exception as error:
        if _RESULT_LIMIT not in str(error):
            raise
        _log.warning("batch %d: its rows are more than %s allows; tasks write the batch", batch.batch_id, _RESULT_LIMIT)
        return None
    if found.num_rows > most or any(found.column("__long").to_pylist()):
        return None
    return found.drop_columns("__long")


@contextmanager
def _raising_causes(spark: SparkSession) -> Iterator[None]:
    """Raise the error of a task in place of the one that Spark makes of it."""
    try:
        yield
    except Exception as error:
        cause = cause_of(error, spark)
        if cause is None:
            raise
        raise cause from error


def _columns_of(rows: DataFrame) -> list[str]:
    return [name for name in _TYPES if f"__{name}" in rows.columns]


def _keys(rows: DataFrame, batch: Batch) -> list[str]:
    """Return the expressions whose values choose a row's shard."""
    if batch.sharding.shard_by:
        return list(map(_quoted, batch.sharding.shard_by))
    return [f"coalesce({', '.join(f'__{name}' for name in _columns_of(rows) if name in {'key', 'value'})})"]


def _shard_of(keys: Sequence[str], batch: Batch) -> str:
    """Return the expression of a row's shard: the partition to which a shuffle by these keys leads the row."""
    return f"cast(pmod(hash({', '.join(keys)}), {batch.sharding.shards}) AS int) AS shard"


def _written(rows: DataFrame, batch: Batch, tasks: Tasks) -> list[Row]:
    """Run the tasks on the rows of their shards."""
    keys = _keys(rows, batch)
    parted = rows.repartition(tasks.number, *map(f.expr, keys)) if tasks.shuffled else rows.coalesce(tasks.number)
    # Spark's writer of Arrow visits each column for each row, so a batch with one shard has no column for it.
    shard = [_shard_of(keys, batch)] if batch.sharding.shards > 1 else []
    named = parted.selectExpr(*shard, *(f"__{name} AS {name}" for name in _columns_of(rows)))
    return named.mapInArrow(ReusedWorkerTask(ShardTask(batch, tasks.number)), RESULT_SCHEMA).collect()


def _written_without_rows(spark: SparkSession, batch: Batch, tasks: Tasks) -> list[Row]:
    task = ReusedWorkerTask(EmptyShardTask(batch, tasks.number))
    return spark.range(0, tasks.number, 1, tasks.number).mapInArrow(task, RESULT_SCHEMA).collect()


def _quoted(name: str) -> str:
    """Return the name of a column as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"
