"""A query that copies one topic into another, and records in headers where each record came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter

if TYPE_CHECKING:
    from eos.pipes import Pipe


def inputs(spark: SparkSession, pipe: Pipe, **options: Any) -> DataFrame:
    reading = spark.readStream.format("kafka").option("kafka.bootstrap.servers", pipe.bootstrap)
    reading = reading.option("subscribe", pipe.source).option("startingOffsets", "earliest")
    rows = reading.options(**options).load()
    place = {"fg.topic": f.col("topic"), "fg.partition": f.col("partition"), "fg.offset": f.col("offset")}
    headers = [
        f.struct(f.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))
        for name, column in place.items()
    ]
    return rows.select("key", "value", f.array(*headers).alias("headers"))


def copying(
    spark: SparkSession, pipe: Pipe, checkpoint: Path, write: Callable[[DataFrame, int], object], **options: Any
) -> DataStreamWriter:
    """Return the writer of a copying query, with its checkpoint but without a trigger."""
    rows = inputs(spark, pipe, **options)
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
