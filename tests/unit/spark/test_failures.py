"""The error that ended a job, found in Spark's text."""

from __future__ import annotations

import platform
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from featuregate.errors import ConfigError
from featuregate.version import how_to_install
from featuregate_spark import (
    FeatureSparkError,
    ProgressLost,
    SparkFailed,
    TransactionTimedOut,
    WriteFailed,
    WrongPython,
    cause_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="/usr/bin/python3")))

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "pyspark.zip/pyspark/serializers.py", line 473, in loads
    return cloudpickle.loads(obj, encoding=encoding)
{line}

JVM stacktrace:
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
"""
QUERY = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] \
An error occurred in the user provided function in foreach batch sink. Reason: An exception was raised by the Python \
Proxy. Return Message: Traceback (most recent call last):
  File "writer.py", line 61, in write_shard
featuregate_spark.errors.WriteFailed: of the worker

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
{line}

\tat py4j.Protocol.getReturnValue(Protocol.java:476) SQLSTATE: 39000
"""


@pytest.mark.parametrize("text", [WORKER, QUERY], ids=["of_a_task", "of_a_query"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("errors.WriteFailed", WriteFailed),
        ("errors.TransactionTimedOut", TransactionTimedOut),
        ("memories.ProgressUnavailable", WriteFailed),
        ("shards.PreviousBatchIncomplete", ProgressLost),
        ("errors.OfANewerRelease", FeatureSparkError),
    ],
)
def test_an_error_of_ours_is_found_in_a_java_trace(text: str, name: str, kind: type[FeatureSparkError]) -> None:
    """The cause has its class; of several errors in the trace, the last one counts."""
    line = f"featuregate_spark.{name}: shard 3 of 4 of query 'copies', batch 7: no answer"
    found = cause_of(RuntimeError(text.format(line=line)), SPARK)
    assert type(found) is kind
    assert str(found) == "shard 3 of 4 of query 'copies', batch 7: no answer"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ModuleNotFoundError: No module named 'featuregate_spark'", "has no module 'featuregate_spark'"),
        ("ModuleNotFoundError: No module named 'confluent_kafka'", "has no module 'confluent_kafka'"),
        ("PySparkImportError: [X] PyArrow >= 11.0.0 must be installed; it was not found", "has no pyarrow that is new"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
            f"is Python 3.9, while this driver is Python {platform.python_version()}",
        ),
    ],
)
def test_a_python_that_cannot_run_featuregate_is_named_in_one_line(line: str, said: str) -> None:
    """The error names PYSPARK_PYTHON and the value that it needs."""
    found = cause_of(RuntimeError(WORKER.format(line=line)), SPARK)
    assert isinstance(found, WrongPython)
    words = str(found)
    assert "\n" not in words
    assert f"Spark's workers run '/usr/bin/python3' (PYSPARK_PYTHON), which {said}" in words
    assert sys.executable in words
    assert words.endswith(f"or install the extra there: {how_to_install('spark')}")


def test_the_fault_that_ends_a_query_after_a_replay_is_named() -> None:
    """Spark 4.1 asks for the metrics of a source that has none yet; the batch is complete."""
    text = (
        '[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Cannot invoke "scala.collection.'
        'IterableOps.map(scala.Function1)" because the return value of "scala.Option.get()" is null SQLSTATE: XXKST'
    )
    found = cause_of(RuntimeError(text), cast("SparkSession", SimpleNamespace(version="4.1.1")))
    assert isinstance(found, SparkFailed)
    assert "Spark 4.1.1 ended the query" in str(found)
    assert "start the query again" in str(found)


@pytest.mark.parametrize("text", ["", "No module named 'pandas'", WORKER.format(line="ValueError: x")])
def test_any_other_error_has_no_cause_of_ours(text: str) -> None:
    """An app's own error has no such cause, nor has a module that the driver lacks."""
    assert cause_of(ValueError(text), SPARK) is None


def test_an_error_of_ours_is_its_own_cause() -> None:
    """An error that was raised on the driver needs no search in a trace."""
    error = ConfigError("shards", "must be 1 or more")
    assert cause_of(error, SPARK) is error
