"""Whether a session is classic or Spark Connect, what its workers run, and whether it is stopped. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_classic(spark: SparkSession) -> bool:
    """Return whether this process has the JVM; on Spark Connect it has none."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: SparkSession) -> bool:
    """Return whether a session is stopped."""
    if is_classic(spark):
        return spark.sparkContext._jsc is None  # noqa: SLF001 - PySpark has no public name for it
    return bool(spark.is_stopped)  # type: ignore[attr-defined]  # a property of Spark Connect's session


def python_of_workers(spark: SparkSession) -> str | None:
    """Return the interpreter of Spark's workers (``PYSPARK_PYTHON``); None on Spark Connect, which does not show it."""
    return str(spark.sparkContext.pythonExec) if is_classic(spark) else None
