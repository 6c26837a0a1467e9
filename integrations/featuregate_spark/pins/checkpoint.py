"""Which files keep the pins of a checkpoint, for each kind of session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate_spark.session_kind import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_spark.pins.write_once import WriteOnceFiles


def open_files(spark: SparkSession, checkpoint: str) -> WriteOnceFiles:
    """Return the write-once files of a checkpoint, for the kind of this session."""
    if is_classic(spark):
        from featuregate_spark.pins.hadoop import HadoopFiles  # noqa: PLC0415 - it needs py4j

        return HadoopFiles(spark, checkpoint)
    from featuregate_spark.pins.dataframes import DataFrameFiles  # noqa: PLC0415 - only where there is no JVM

    return DataFrameFiles(spark, checkpoint)
