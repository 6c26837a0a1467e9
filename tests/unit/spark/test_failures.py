"""The error that ended a job, found in Spark's text, and what a Spark runs with."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from featuregate.errors import ConfigError
from featuregate.version import how_to_install
from featuregate_spark import FeatureSession, SparkEnvironment, WrongConnector, cause_of
from featuregate_spark.environment import connector_of, environment_of
from featuregate_spark.failures import connector_advice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = "file:/home/me/.ivy2/jars/org.apache.spark_"
SPARK = cast(
    "SparkSession", SimpleNamespace(version="4.0.1", sparkContext=SimpleNamespace(pythonExec="/usr/bin/python3"))
)

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
OURS = ("errors.WriteFailed", "errors.TransactionTimedOut", "memories.ProgressUnavailable")
OURS += ("shards.PreviousBatchIncomplete", "errors.OfANewerRelease")
PYTHONS = (
    "ModuleNotFoundError: No module named 'featuregate_spark'",
    "ModuleNotFoundError: No module named 'confluent_kafka'",
    "PySparkImportError: [X] PyArrow >= 11.0.0 must be installed; it was not found",
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
)
TEXTS = (
    *(
        text.format(line=f"featuregate_spark.{name}: shard 3 of 4: no answer")
        for text in (WORKER, QUERY)
        for name in OURS
    ),
    *(WORKER.format(line=line) for line in PYTHONS),
    # Spark 4.1 asks for the metrics of a source that has none yet; the batch is complete
    (
        '[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Cannot invoke "scala.collection.'
        'IterableOps.map(scala.Function1)" because the return value of "scala.Option.get()" is null SQLSTATE: XXKST'
    ),
    "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure the provider name is correct",
    "Failed to find data source: kafka. Please deploy the application as per the deployment section",
    "java.lang.NoClassDefFoundError: org/apache/spark/A\n\tat org.apache.spark.sql.kafka010.KafkaSource.x(K)",
    "java.lang.ClassNotFoundException: org.apache.spark.sql.kafka010.KafkaSourceProvider",
    # an app's own error, a module that the driver lacks, and a class that the app lacks
    "",
    "No module named 'pandas'",
    WORKER.format(line="ValueError: x"),
    "java.lang.ClassNotFoundException: com.example.Own\n\tat a.b.C(x)",
)


def spark(jar: str | None, version: str = "4.0.1") -> Any:
    """Return a stand-in for a classic session whose Kafka connector was loaded from ``jar``."""
    source = None if jar is None else SimpleNamespace(getLocation=lambda: jar)
    domain = SimpleNamespace(getCodeSource=lambda: source)
    loaded = SimpleNamespace(getProtectionDomain=lambda: domain)
    thread = SimpleNamespace(getContextClassLoader=lambda: None)
    lang = SimpleNamespace(
        Thread=SimpleNamespace(currentThread=lambda: thread), Class=SimpleNamespace(forName=lambda *_: loaded)
    )
    return SimpleNamespace(
        version=version,
        sparkContext=SimpleNamespace(_jsc=object(), pythonExec="python3"),
        _jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)),
    )


def environment(**changed: str | None) -> SparkEnvironment:
    fields = {"spark": "4.0.1", "connector": "4.0.1", "pandas": "2.3.3", "python": "python3", "workers": None}
    return SparkEnvironment(**(fields | changed))


ENVIRONMENTS: tuple[dict[str, str | None], ...] = (
    {},
    {"connector": None},  # not every job needs one
    {"connector": "present"},
    {"spark": "4.2.0", "connector": "4.2.0", "pandas": "3.1.1"},
    {"connector": "3.5.1"},
    {"pandas": None},
    {"pandas": "3.0.1"},
    {"pandas": "3.0.1", "spark": "3.5.9", "connector": "3.5.9"},
    {"pandas": "3.0.1", "spark": "4.1.2", "connector": "4.1.2"},
    {"workers": "lacks pyarrow: set PYSPARK_PYTHON"},
)


def test_all_causes_and_problems_are_as_kept() -> None:
    """Each in one line that says what to do; of several errors in a trace, the last one counts."""
    told = []
    for text in TEXTS:
        found = cause_of(RuntimeError(text), SPARK)
        line = next((each for each in text.splitlines() if "serr" in each or ": " in each), text)
        told.append(f"{line[:100]}\n  {type(found).__name__}: {found}")
    for connector, version in ((None, "3.5.9"), (None, "5.0.0"), (None, "4.3.0"), ("4.2.0", "4.3.0")):
        told.append(connector_advice(version, connector))
    for changed in ENVIRONMENTS:
        made = environment(**changed)
        told.append(
            "\n  ".join([f"{changed}", *str(made).splitlines(), *(f"problem: {each}" for each in made.problems)])
        )
    here = {sys.executable: "DRIVER", platform.python_version(): "HERE", how_to_install("spark"): "INSTALL"}
    said = "\n".join(told)
    for word, instead in here.items():
        said = said.replace(word, instead)
    told = [said]
    kept = Path(__file__).parent / "failures.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


def test_an_error_of_ours_is_its_own_cause() -> None:
    """An error that was raised on the driver needs no search in a trace."""
    error = ConfigError("shards", "must be 1 or more")
    assert cause_of(error, SPARK) is error


def test_the_jar_names_the_version_of_the_connector() -> None:
    """A platform that ships the connector under another name has one, of a version that is unknown."""
    assert connector_of(spark(f"{JARS}spark-sql-kafka-0-10_2.13-4.0.0.jar")) == "4.0.0"
    assert connector_of(spark("file:/databricks/jars/kafka.jar")) == "present"
    assert connector_of(spark(None)) == "present"


def test_a_session_refuses_the_connector_of_another_spark() -> None:
    """Before a query ends with ClassNotFoundException; the error names the one that fits."""
    with pytest.raises(WrongConnector) as raised:
        FeatureSession(spark(f"{JARS}spark-sql-kafka-0-10_2.13-4.0.0.jar", version="4.1.2"), "localhost:1")
    assert "connector of Spark 4.0.0" in str(raised.value)
    assert "spark-sql-kafka-0-10_2.13:4.1.1" in str(raised.value)


def test_packages_that_workers_do_not_have_are_named_with_their_python() -> None:
    """The error of a task that needs them gives the same advice."""
    session = spark(None)
    answers = SimpleNamespace(collect=lambda: [["pyarrow", "pandas"]])
    session.sparkContext.parallelize = lambda *_: SimpleNamespace(map=lambda _: answers)
    (problem,) = environment_of(session).problems
    assert "run 'python3' (PYSPARK_PYTHON), which has no pyarrow and no pandas: set PYSPARK_PYTHON" in problem
