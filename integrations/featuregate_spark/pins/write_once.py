"""Write-once files in a query's checkpoint: the first writer wins, and all others read what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from featuregate_spark.session_kind import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WriteOnceFiles(Protocol):
    """The files of a checkpoint folder. Names are relative to it: ``featuregate/pin-5``."""

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is no such file."""
        ...

    def write(self, name: str, text: str) -> str:
        """Write a file unless it exists; return the text that it has then."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of the files of a folder; none if there is no such folder."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        ...


def open_files(spark: SparkSession, checkpoint: str) -> WriteOnceFiles:
    """Return the write-once files of a checkpoint, for the kind of this session."""
    if is_classic(spark):
        from featuregate_spark.pins.hadoop import HadoopFiles  # noqa: PLC0415 - it needs py4j

        return HadoopFiles(spark, checkpoint)
    from featuregate_spark.pins.dataframes import DataFrameFiles  # noqa: PLC0415 - only where there is no JVM

    return DataFrameFiles(spark, checkpoint)
