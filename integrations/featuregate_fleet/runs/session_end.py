"""What is said where the JVM of a session ends before the work does: it has no memory left, or it was killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.tables.failures import MORE_MEMORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_MEMORY: Final = 52
"""What Spark exits with where a task found no memory (SparkExitCode.OOM)."""
_SECONDS: Final = 5.0
"""Seconds between the last answer of a JVM and its end."""
_NEXT: Final = "the table has whole batches, and the next run continues"


@contextmanager
def said_in_one_line(spark: SparkSession, java: Popen[bytes] | None) -> Iterator[None]:
    """Raise `TablesBroken` in place of the errors of whatever asks a JVM that has ended.

    ``java`` is its process, unless ``spark-submit`` has started it.
    """
    try:
        yield
    except (Py4JError, ConnectionRefusedError, ConnectionResetError) as error:
        code = _exit_code(java)
        if code is None and _answers(spark):
            raise
        raise TablesBroken(f"{_why(code)}; {_NEXT}") from error


def _exit_code(java: Popen[bytes] | None) -> int | None:
    """Return what the JVM has ended with, if it ends now: one without memory still says that its task has failed."""
    try:
        return java.wait(_SECONDS) if java else None
    except TimeoutExpired:
        return None


def _answers(spark: SparkSession) -> bool:
    try:
        _ = spark.version
    except (Py4JError, OSError):
        return False
    return True


def _why(code: int | None) -> str:
    if code is None:
        return "the JVM of Spark answers no more"
    if code == _NO_MEMORY:
        return f"Spark has no memory left: {MORE_MEMORY}"
    if code == -signal.SIGKILL:
        return "the JVM of Spark was killed, by the kernel if this machine has no memory left"
    return f"the JVM of Spark has ended with {code}"
