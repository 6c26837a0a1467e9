"""What a Spark runs with, and whether it fits, with a stand-in for the JVM."""

from types import SimpleNamespace
from typing import Any

import pytest

from featuregate_spark import FeatureSession, SparkEnvironment, WrongConnector, cause_of
from featuregate_spark.environment import connector_of, environment_of
from featuregate_spark.failures import connector_advice

JARS = "file:/home/me/.ivy2/jars/org.apache.spark_"


def spark(jar: str | None, version: str = "4.0.1") -> Any:
    """Return a stand-in for a classic session whose Kafka connector was loaded from ``jar``."""
    source = None if jar is None else SimpleNamespace(getLocation=lambda: jar)
    domain = SimpleNamespace(getCodeSource=lambda: source)
    loaded = SimpleNamespace(getProtectionDomain=lambda: domain)
    thread = SimpleNamespace(getContextClassLoader=lambda: None)
    lang = SimpleNamespace(
        Thread=SimpleNamespace(currentThread=lambda: thread),
        Class=SimpleNamespace(forName=lambda *_: loaded),
    )
    return SimpleNamespace(
        version=version,
        sparkContext=SimpleNamespace(_jsc=object(), pythonExec="python3"),
        _jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)),
    )


def environment(**changed: str | None) -> SparkEnvironment:
    fields = {"spark": "4.0.1", "connector": "4.0.1", "pandas": "2.3.3", "python": "python3", "workers": None}
    return SparkEnvironment(**(fields | changed))


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


@pytest.mark.parametrize(
    "text",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure the provider name is correct",
        "Failed to find data source: kafka. Please deploy the application as per the deployment section",
        "java.lang.NoClassDefFoundError: org/apache/spark/A\n\tat org.apache.spark.sql.kafka010.KafkaSource.x(K)",
        "java.lang.ClassNotFoundException: org.apache.spark.sql.kafka010.KafkaSourceProvider",
    ],
)
def test_a_missing_connector_is_named_in_one_line(text: str) -> None:
    """In place of a Java trace."""
    found = cause_of(RuntimeError(text), spark(None))
    assert isinstance(found, WrongConnector)
    assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0" in str(found)
    assert "\n" not in str(found)


def test_the_advice_names_the_scala_of_its_spark() -> None:
    """PySpark 3.5 is built with Scala 2.12, and a release that is newer than the table with that of the last one."""
    assert "kafka-0-10_2.12:3.5.1" in connector_advice("3.5.9", None)
    assert "kafka-0-10_2.13:5.0.0" in connector_advice("5.0.0", None)


@pytest.mark.parametrize("connector", [None, "4.2.0"])
def test_a_spark_without_a_published_connector_is_to_be_replaced(connector: str | None) -> None:
    """The coordinates of a connector that nobody has published are a dead end."""
    advice = connector_advice("4.3.0", connector)
    assert "none is published for Spark 4.3: install an older one, pip install 'pyspark==4.2.*'" in advice
    assert "--packages" not in advice


def test_another_missing_class_is_not_blamed_on_the_connector() -> None:
    """An app may lack classes of its own."""
    assert (
        cause_of(RuntimeError("java.lang.ClassNotFoundException: com.example.Own\n\tat a.b.C(x)"), spark(None)) is None
    )


def test_each_fact_is_one_line() -> None:
    """What fits has no problem; a connector that is missing is a fact, because not every job needs it."""
    assert [line.split()[0] for line in str(environment()).splitlines()] == [
        "Spark",
        "Kafka",
        "pandas",
        "PYSPARK_PYTHON",
        "workers",
    ]
    assert environment().problems == environment(connector=None).problems == environment(connector="present").problems
    assert environment().problems == environment(spark="4.2.0", connector="4.2.0", pandas="3.1.1").problems == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"connector": "3.5.1"}, "connector of Spark 3.5.1"),
        ({"pandas": None}, "no pandas"),
        ({"pandas": "3.0.1"}, "Spark 4.0.1 is written for pandas 2, and the driver has pandas 3.0.1"),
        ({"pandas": "3.0.1", "spark": "3.5.9", "connector": "3.5.9"}, "Spark 3.5.9 is written for pandas 2"),
        ({"pandas": "3.0.1", "spark": "4.1.2", "connector": "4.1.2"}, "pip install 'pandas<3'"),
        ({"workers": "lacks pyarrow: set PYSPARK_PYTHON"}, "pyarrow"),
    ],
)
def test_what_does_not_fit_is_a_problem(changed: dict[str, str | None], said: str) -> None:
    """Each in one line that says what to do."""
    (problem,) = environment(**changed).problems
    assert said in problem
    assert ": " in problem


def test_packages_that_workers_do_not_have_are_named_with_their_python() -> None:
    """The error of a task that needs them gives the same advice."""
    session = spark(None)
    answers = SimpleNamespace(collect=lambda: [["pyarrow", "pandas"]])
    session.sparkContext.parallelize = lambda *_: SimpleNamespace(map=lambda _: answers)
    (problem,) = environment_of(session).problems
    assert "run 'python3' (PYSPARK_PYTHON), which has no pyarrow and no pandas: set PYSPARK_PYTHON" in problem
