"""What ended a job, in one line: Spark buries it in a Java trace, with the worker's own traceback inside. Pure."""

from __future__ import annotations

import platform
import re
import sys
from typing import TYPE_CHECKING, Final

from featuregate.errors import FeatureGateError
from featuregate_spark import errors
from featuregate_spark.errors import FeatureSparkError, ProgressLost, WriteFailed, WrongPython
from featuregate_spark.session_kind import python_of_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["cause_of"]

_OURS: Final = re.compile(r"^featuregate(?:_\w+)?(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '(featuregate\w*|confluent_kafka|pyarrow|pandas)\b")
_TOO_OLD: Final = re.compile(r"\b(PyArrow|Pandas) >= \S+ must be installed", re.IGNORECASE)
_OTHER_VERSION: Final = re.compile(
    r"PYTHON_VERSION_MISMATCH\].*?different version: (\S+) than that in driver", re.DOTALL
)
_INNER: Final = {"PreviousBatchIncomplete": ProgressLost, "ProgressUnavailable": WriteFailed}
"""Errors that have no public name, and what they are."""


def cause_of(error: BaseException, spark: SparkSession) -> FeatureGateError | None:
    """Find what ended a job or a query in an error of Spark's, such as ``StreamingQueryException``.

    Parameters
    ----------
    error
        What an action or ``query.awaitTermination()`` raised.
    spark
        The driver's session.

    Returns
    -------
    The error that featuregate raised in a task or in ``foreachBatch``; ``WrongPython`` where the Python of Spark's
    workers cannot run featuregate; None where it is something else.
    """
    if isinstance(error, FeatureGateError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if found:
        name, words = found[-1]
        return _named(name)(words.strip())
    lacks = _lacks(text)
    return None if lacks is None else WrongPython(_advice(lacks, python_of_workers(spark)))


def _named(name: str) -> type[FeatureSparkError]:
    kind = _INNER.get(name) or (getattr(errors, name) if name in errors.__all__ else FeatureSparkError)
    assert issubclass(kind, FeatureSparkError)
    return kind


def _lacks(text: str) -> str | None:
    """Say what is wrong with the Python of the workers; None where nothing shows."""
    if missing := _MISSING.search(text):
        return f"has no module {missing[1]!r}"
    if old := _TOO_OLD.search(text):
        return f"has no {old[1].lower()} that is new enough"
    if other := _OTHER_VERSION.search(text):
        return f"is Python {other[1]}, and this driver is Python {platform.python_version()}"
    return None


def _advice(lacks: str, python: str | None) -> str:
    what = f"{python!r}" if python else "a Python of the server's"
    return (
        f"Spark's workers run {what} (PYSPARK_PYTHON), which {lacks}: set PYSPARK_PYTHON to a Python that has the same "
        f"version and packages on each node, as this driver's {sys.executable} has, or install featuregate[spark] there"
    )
