"""The Spark of this program must have been started with Delta Lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from featuregate_fleet.errors import WrongSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
"""What Spark must be started with, in ``spark.sql.extensions``."""


def require_delta_lake(spark: SparkSession) -> None:
    """Raise `WrongSpark` before Spark would, which names a class. Spark itself starts where an extension is missing."""
    if EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise WrongSpark(_missing(f"spark.sql.extensions does not name {EXTENSION}"))
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
    try:
        java.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(EXTENSION)
    except Py4JJavaError:
        raise WrongSpark(_missing("its jars are not there")) from None


def _missing(what: str) -> str:
    return (
        f"the Spark that runs here was started without Delta Lake, which keeps the tables: {what}. Start Spark with it"
    )
