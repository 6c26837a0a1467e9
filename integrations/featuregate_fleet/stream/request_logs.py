"""The stream from files of logs to tables: each file once, each micro-batch once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.batches import parse_batches
from featuregate_fleet.evidence.columns import KEYS, PARSED
from featuregate_fleet.tables.delta import BatchId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from featuregate_fleet.tables.delta import DeltaTables

    Parse = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

__all__ = ["drain", "grown_files"]

_FILES_IN_A_BATCH: Final = 64
_QUERY_ID: Final = "sql.streaming.queryId"


def drain(spark: SparkSession, logs: Path, tables: DeltaTables) -> None:
    """Read all files below ``logs`` that were not read before into the tables.

    A run that was killed is finished by the next one: Spark runs its last micro-batch again with the same files, and
    each table takes a micro-batch once.

    Raises
    ------
    TablesBroken
        The stream failed; the tables have whole micro-batches, and the next run continues.
    """
    root = logs.resolve()
    parse = partial(parse_batches, root=str(root))

    def write(batch: DataFrame, batch_id: int) -> None:
        query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id is not None, "Spark names the query of each micro-batch"
        _write(parse, _unread(batch, tables, query_id), tables, BatchId(query_id, batch_id))

    try:
        stream = _lines(spark, root).writeStream.foreachBatch(write).trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(tables.checkpoint("request_logs"))).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
    except PySparkException as error:
        raise TablesBroken(f"the stream over {logs} failed: {str(error).partition(chr(10))[0]}") from error


def grown_files(logs: Path, tables: DeltaTables) -> list[str]:
    """Return the files that are longer than they were when they were read. What was appended is not read."""
    read = tables.read("evidence_files").groupBy("path").agg(f.max("size").alias("size")).collect()
    return sorted(row.path for row in read if _size(logs / row.path) > row["size"])


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _lines(spark: SparkSession, root: Path) -> DataFrame:
    """Return a stream of `featuregate_fleet.evidence.batches.LINES`."""
    files = (
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", _FILES_IN_A_BATCH)
        # By default Spark skips a file that is a week older than the newest one it has seen, and says nothing.
        .option("maxFileAge", "36500d")
        .load(str(root))
    )
    return files.select(
        f.expr("make_valid_utf8(value)").alias("value"),
        f.col("_metadata.file_path").alias("path"),
        f.col("_metadata.file_block_start").alias("block"),
        f.col("_metadata.file_size").alias("size"),
    )


def _unread(batch: DataFrame, tables: DeltaTables, query_id: str) -> DataFrame:
    """Leave out files that another query has read: after a checkpoint was lost, Spark offers all files again.

    The rows of other queries do not change any more, so that a micro-batch that runs again leaves out the same files.
    """
    others = tables.read("evidence_files").where(f.col("query_id") != query_id)
    if others.isEmpty():
        return batch
    return batch.join(f.broadcast(others.select(f.col("uri").alias("path")).distinct()), "path", "left_anti")


def _write(parse: Parse, lines: DataFrame, tables: DeltaTables, batch: BatchId) -> None:
    parsed = lines.mapInArrow(parse, from_arrow_schema(PARSED)).persist()
    try:
        usage = parsed.where("api_usage is not null").select("api_usage.*")
        counted = usage.groupBy(*KEYS).agg(
            f.sum("count").alias("count"),
            f.min("first_seen").alias("first_seen"),
            f.max("last_seen").alias("last_seen"),
        )
        tables.append("api_usage", counted, batch)
        tables.append("quarantine", parsed.where("quarantine is not null").select("quarantine.*"), batch)
        files = parsed.where("evidence_files is not null").select("evidence_files.*")
        # Last, because it says that the file is done: see _unread.
        sums = [f.sum(name).alias(name) for name in ("read", "rows", "quarantined")]
        tables.append(
            "evidence_files", files.groupBy("path", "uri", "broker").agg(f.max("size").alias("size"), *sums), batch
        )
    finally:
        parsed.unpersist()
