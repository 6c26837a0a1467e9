"""Which kind of Spark a session is of, what its workers run, and whether it still runs: PySpark has no public words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_classic", "is_stopped", "python_of_workers"]


def is_classic(spark: SparkSession) -> bool:
    """Say whether the JVM is at hand; it is not on Spark Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: SparkSession) -> bool:
    """Say whether a session was stopped."""
    if is_classic(spark):
        return spark.sparkContext._jsc is None  # noqa: SLF001 - PySpark has no public word for it
    return bool(spark.is_stopped)  # type: ignore[attr-defined]  # of Spark Connect's session alone


def python_of_workers(spark: SparkSession) -> str | None:
    """Give the interpreter that Spark's workers run, which ``PYSPARK_PYTHON`` names; None on Spark Connect."""
    return str(spark.sparkContext.pythonExec) if is_classic(spark) else None
