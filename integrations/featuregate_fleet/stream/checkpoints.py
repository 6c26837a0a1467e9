"""Streams that continue at their checkpoint, and what follows where it was lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate_fleet.files.storage import is_local, spark_path
from featuregate_fleet.tables.folder import BatchId

_LOGS: Final = ("commits", "offsets", "sources/0")
_QUERY_ID: Final = "sql.streaming.queryId"


def topic_records(spark: SparkSession, java: Mapping[str, str], in_a_batch: int, **options: str) -> DataFrame:
    """Return a stream of records from the first ones on; ``options`` of Spark's source name the topics."""
    source = spark.readStream.format("kafka").options(
        **{f"kafka.{name}": text for name, text in java.items()}, **{"kafka.allow.auto.create.topics": "false"}
    )
    from_start = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", in_a_batch)
    return from_start.options(**options).load()


def write_batches(stream: DataFrame, checkpoint: Path, write: Callable[[DataFrame, BatchId], None]) -> None:
    """Write what is there now and was not written before, in micro-batches.

    A micro-batch whose commit was lost comes again, under the same id. Where the checkpoint was lost, the stream begins
    again, as another query.
    """

    def write_batch(batch: DataFrame, number: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id is not None, "Spark names the query of each micro-batch"
        write(batch, BatchId(query_id, number))

    writer = stream.writeStream.foreachBatch(write_batch).trigger(availableNow=True)
    query = writer.option("checkpointLocation", resumed(checkpoint)).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def unread(records: DataFrame, rows: DataFrame, end: Column, batch: BatchId) -> DataFrame:
    """Return the records of a batch that no other query has read, by its rows, with ``end`` behind the last offset.

    The rows of other queries do not change any more: a batch that comes again leaves out the same records.
    """
    others = rows.where(f.col("query_id") != batch.query_id)
    done = others.groupBy("topic", "partition").agg(f.max(end).alias("done"))
    return records.join(f.broadcast(done), ["topic", "partition"], "left").where("done is null or offset >= done")


def resumed(checkpoint: Path) -> str:
    """Return the folder of a checkpoint, without checksums of files that are gone.

    Hadoop keeps ``.7.crc`` next to ``7``. If the file of a micro-batch was deleted or lost, and its checksum was not,
    Spark cannot write that file again, and reports that another query uses the checkpoint.
    """
    for log in _LOGS if is_local(checkpoint) else ():  # a storage has none
        for checksum in (checkpoint / log).glob(".*.crc"):
            if not checksum.with_name(checksum.name[1 : -len(".crc")]).exists():
                checksum.unlink()
    return spark_path(checkpoint)
