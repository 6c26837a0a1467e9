"""Finds the error that ended a job, which Spark buries in a Java trace with the worker's traceback inside. Pure."""

from __future__ import annotations

import platform
import re
import sys
from typing import TYPE_CHECKING, Final

from featuregate.errors import FeatureGateError
from featuregate.jars.spark_lines import NEWEST_WITH_CONNECTOR, connector_package, line_name
from featuregate.version import how_to_install
from featuregate_spark import errors
from featuregate_spark.errors import (
    FeatureSparkError,
    ProgressLost,
    SparkFailed,
    WriteFailed,
    WrongConnector,
    WrongPython,
)
from featuregate_spark.session_kind import python_of_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS: Final = re.compile(r"^featuregate(?:_\w+)?(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '(featuregate\w*|confluent_kafka|pyarrow|pandas)\b")
_TOO_OLD: Final = re.compile(r"\b(PyArrow|Pandas) >= \S+ must be installed", re.IGNORECASE)
_OTHER_VERSION: Final = re.compile(
    r"PYTHON_VERSION_MISMATCH\].*?different version: (\S+) than that in driver", re.DOTALL
)
_NO_CONNECTOR: Final = re.compile(r"Failed to find (?:the )?data source: kafka\b")
_OTHER_CONNECTOR: Final = re.compile(
    r"java\.lang\.(?:ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|AbstractMethodError|"
    r"IncompatibleClassChangeError)[^\n]*(?:\n\s+at [^\n]*){0,8}?\bkafka010\b"
    r"|kafka010[^\n]*java\.lang\.(?:ClassNotFoundException|NoClassDefFoundError)"
)
_SPARKS_OWN: Final = re.compile(
    r'IterableOps\.map\([^)]*\)" because the return value of "scala\.Option\.get\(\)" is null'
)
"""SPARK-57438: Spark 4.1 has no latest offset in the first batch after a restart, and asks for its metrics."""
_INNER: Final = {"PreviousBatchIncomplete": ProgressLost, "ProgressUnavailable": WriteFailed}
"""Errors without a public name, and the public errors that they are."""


def cause_of(error: BaseException, spark: SparkSession) -> FeatureGateError | None:
    """Find the error that ended a job or a query within an error of Spark's, such as ``StreamingQueryException``.

    Parameters
    ----------
    error
        The error that an action or ``query.awaitTermination()`` raised.
    spark
        The driver's session.

    Returns
    -------
    The error that featuregate raised in a task or in ``foreachBatch``; ``WrongPython`` where the Python of Spark's
    workers cannot run featuregate; ``WrongConnector`` where Spark lacks its Kafka connector, or has that of another
    release; ``SparkFailed`` where Spark has ended a query by a known fault of its own; None for any other error.
    """
    if isinstance(error, FeatureGateError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if found:
        name, message = found[-1]
        return _error_class(name)(message.strip())
    if _SPARKS_OWN.search(text):
        return SparkFailed(
            f"Spark {spark.version} ended the query after a batch that it has run again, by a fault of its own "
            "(SPARK-57438). The batch is complete, and nothing is lost: start the query again"
        )
    if _NO_CONNECTOR.search(text):
        return WrongConnector(connector_advice(spark.version, None))
    if _OTHER_CONNECTOR.search(text):
        return WrongConnector(connector_advice(spark.version, "another"))
    lacks = _lacks(text)
    return None if lacks is None else WrongPython(workers_advice(spark, lacks))


def connector_advice(spark: str, connector: str | None) -> str:
    """Say which Kafka connector the jobs of this Spark need, where they have none or another one."""
    has = "no Kafka connector" if connector is None else f"the Kafka connector of {connector} Spark"
    if connector is not None and connector[0].isdecimal():
        has = f"the Kafka connector of Spark {connector}"
    package = connector_package(spark)
    if package is None:
        return (
            f"Spark {spark} runs with {has}, and none is published for Spark {line_name(spark)}: install an older one, "
            f"pip install 'pyspark=={NEWEST_WITH_CONNECTOR}.*'"
        )
    return f"Spark {spark} runs with {has}: start it with --packages {package}, or in a notebook spark.jars.packages"


def workers_advice(spark: SparkSession, lacks: str) -> str:
    """Say which Python the workers need in place of one that, for example, ``has no module 'pyarrow'``."""
    python = python_of_workers(spark)
    which = f"{python!r}" if python else "a Python on the server"
    return (
        f"Spark's workers run {which} (PYSPARK_PYTHON), which {lacks}: set PYSPARK_PYTHON to a Python with the "
        f"version and packages of this driver's {sys.executable} on each node, or install the extra "
        f"there: {how_to_install('spark')}"
    )


def _error_class(name: str) -> type[FeatureSparkError]:
    kind = _INNER.get(name) or getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, FeatureSparkError) else FeatureSparkError


def _lacks(text: str) -> str | None:
    """Return what the Python of the workers lacks; None if the text does not say."""
    if missing := _MISSING.search(text):
        return f"has no module {missing[1]!r}"
    if old := _TOO_OLD.search(text):
        return f"has no {old[1].lower()} that is new enough"
    if other := _OTHER_VERSION.search(text):
        return f"is Python {other[1]}, while this driver is Python {platform.python_version()}"
    return None
