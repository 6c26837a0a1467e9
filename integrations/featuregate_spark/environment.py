"""What a Spark runs with: its Kafka connector, pandas, and the Python of its workers; and that this is its driver."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from featuregate.version import how_to_install
from featuregate_spark.errors import WrongConnector, WrongSession
from featuregate_spark.failures import cause_of, connector_advice, workers_advice
from featuregate_spark.session_kind import is_classic, python_of_workers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_JAR: Final = re.compile(r"spark-sql-kafka-0-10_[\d.]+-(\d+\.\d+\.\d+)[^/]*\.jar$")
_OF_PANDAS_2: Final = ("3.5.", "4.0.", "4.1.")
"""How the releases of Spark begin that are written for pandas 2. No extra can ask for it on their behalf."""
_NEEDED: Final = ("featuregate", "pyarrow", "pandas")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEnvironment:
    """The versions that a Spark runs with. ``str()`` gives a line for each field."""

    spark: str
    """The version of Spark."""
    connector: str | None
    """The version of the Kafka connector; ``present`` if the name of its jar has none; None without a connector."""
    pandas: str | None
    """The version of the driver's pandas; None without pandas."""
    python: str
    """The interpreter of the workers, with the variable that sets it."""
    workers: str | None
    """Why the workers cannot run featuregate, in one line; None if they can."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What has to be mended, a line each. A connector is needed only by queries that read or write Kafka."""
        found = []
        if self.connector is not None and not _fits(self.connector, self.spark):
            found.append(connector_advice(self.spark, self.connector))
        if self.pandas is None:
            found.append(f"The driver has no pandas: {how_to_install('spark')}")
        elif self.spark.startswith(_OF_PANDAS_2) and not self.pandas.startswith("2."):
            problem = f"Spark {self.spark} is written for pandas 2, and the driver has pandas {self.pandas}"
            found.append(f"{problem}: pip install 'pandas<3'")
        return (*found, *([self.workers] if self.workers is not None else []))

    def __str__(self) -> str:
        return (
            f"Spark           {self.spark}\n"
            f"Kafka connector {self.connector or f'none: {connector_advice(self.spark, None)}'}\n"
            f"pandas          {self.pandas or 'none'}\n"
            f"PYSPARK_PYTHON  {self.python}\n"
            f"workers         {self.workers or 'import featuregate, pyarrow and pandas'}"
        )


def environment_of(spark: SparkSession) -> SparkEnvironment:
    """Collect what a Spark runs with. Runs one job of one task, in which a worker imports featuregate."""
    return SparkEnvironment(
        spark=spark.version,
        connector=connector_of(spark),
        pandas=_installed("pandas"),
        python=_python(spark),
        workers=_problem_of_workers(spark),
    )


def connector_of(spark: SparkSession) -> str | None:
    """Return the version of the Kafka connector; None where there is none, and on Spark Connect, which hides it."""
    jvm = getattr(spark, "_jvm", None) if is_classic(spark) else None
    if jvm is None:
        return None
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - tasks load this package without Py4J

    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        source = jvm.java.lang.Class.forName(_PROVIDER, False, loader).getProtectionDomain().getCodeSource()  # noqa: FBT003 - Java has no keywords
    except Py4JJavaError:
        return None
    named = _JAR.search(str(source.getLocation())) if source is not None else None
    return named[1] if named else "present"


def require_driver() -> None:
    """Raise `WrongSession` in a task of an executor: only the driver asks brokers."""
    from pyspark import TaskContext  # noqa: PLC0415 - the pure rooms need no PySpark

    if TaskContext.get() is not None:
        raise WrongSession(
            "this is a task of an executor, and tasks that ask brokers by themselves disagree: make the FeatureSession "
            "on the driver, and let the function close over features.snapshot()"
        )


def require_fitting_connector(spark: SparkSession) -> None:
    """Refuse a Kafka connector of another Spark, before a query fails with ``ClassNotFoundException``.

    Raises WrongConnector (the connector was built for another minor release).
    """
    connector = connector_of(spark)
    if connector is not None and not _fits(connector, spark.version):
        raise WrongConnector(connector_advice(spark.version, connector))


def _fits(connector: str, spark: str) -> bool:
    return connector == "present" or connector.split(".")[:2] == spark.split(".")[:2]


def _python(spark: SparkSession) -> str:
    python = python_of_workers(spark) or "on the server"
    return f"{python} ({'set' if os.environ.get('PYSPARK_PYTHON') else 'not set, the default'})"


def _problem_of_workers(spark: SparkSession) -> str | None:
    """Import in a worker what tasks need, and return why that fails."""
    try:
        if is_classic(spark):
            (missing,) = spark.sparkContext.parallelize([_NEEDED], 1).map(_missing).collect()
        else:
            rows = spark.range(1).mapInArrow(_missing_in_arrow, "missing string").collect()
            missing = [name for name in rows[0].missing.split(",") if name]
    except Exception as error:  # noqa: BLE001 - Spark raises errors of many kinds, and each of them is the answer
        return str(cause_of(error, spark) or f"A task failed: {_first_line(error)}")
    if not missing:
        return None
    return workers_advice(spark, f"has no {' and no '.join(missing)}")


def _missing(names: Iterable[str]) -> list[str]:
    """Return the packages that this Python does not have. Runs in a worker, which imports this module."""
    return [name for name in names if name != "featuregate" and _installed(name) is None]


def _missing_in_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415 - in a worker

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"missing": [",".join(_missing(_NEEDED))]})


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or f"{type(error).__name__} on Python {platform.python_version()}").splitlines()[0]
