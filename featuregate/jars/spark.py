"""The jars that Spark needs for topics of Kafka and for tables of Delta Lake."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.errors import LocalKafkaError
from featuregate.jars.maven import Download, cache_folder, fetched

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTOR: Final = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""Prefixes of the artifacts of Spark's Kafka connector that Spark itself does not contain."""

DELTA: Final = ("delta-spark", "delta-storage")
"""Prefixes of the artifacts of Delta Lake that Spark itself does not contain."""

FOLDER: Final = "FEATUREGATE_JARS"
"""The environment variable that names a folder with these jars, for machines that cannot download."""


_OTHER_WAYS: Final = (
    f"name a folder with the jars (--jars, or {FOLDER} in the environment), set a mirror in jgo's configuration, or "
    "run the command with spark-submit --packages"
)


def class_path(delta: str, spark: str, folder: Path | None, environment: Mapping[str, str]) -> str:
    """Return the class path of a local Spark: the jars of a folder or of ``FEATUREGATE_JARS``, or else of the cache.

    Raises
    ------
    LocalKafkaError
        The folder lacks a jar, or the jars cannot be downloaded.
    """
    if folder is None and (named := environment.get(FOLDER)):
        folder = Path(named).expanduser()
    if folder is not None:
        _check(folder, delta, spark)
        return f"{folder}/*"
    try:
        return f"{delta_lake(delta)}/*{os.pathsep}{spark_connector(spark)}/*"
    except (LocalKafkaError, ImportError) as error:
        raise LocalKafkaError(f"{error}; {_OTHER_WAYS}") from error


def _check(folder: Path, delta: str, spark: str) -> None:
    found = {path.name for path in folder.glob("*.jar")}
    versions = dict.fromkeys(DELTA, delta) | {CONNECTOR[0]: spark, CONNECTOR[1]: spark}
    for prefix in (*DELTA, *CONNECTOR):
        version = versions.get(prefix, "")
        ending = f"-{version}.jar" if version else ".jar"
        if not any(name.startswith(prefix) and name.endswith(ending) for name in found):
            raise LocalKafkaError(f"the folder of jars {folder} has no {prefix}*{ending}")


def spark_connector(version: str) -> Path:
    """Return the folder with the jars of Spark's Kafka connector that Spark itself does not contain.

    In local mode, pass it to ``spark.driver.extraClassPath`` as ``<folder>/*``. Raises as `maven.fetched`.
    """
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    wanted = Download(f"Spark's Kafka connector {version}", (connector,), lambda name: name.startswith(CONNECTOR))
    return fetched(wanted, cache_folder() / "spark-connector" / version)


def delta_lake(version: str) -> Path:
    """Return the folder with the jars of Delta Lake for Spark 4.0. Pass it as :func:`spark_connector`; raises alike."""
    coordinates = (f"io.delta:delta-spark_2.13:{version}",)
    wanted = Download(f"Delta Lake {version}", coordinates, lambda name: name.startswith(DELTA))
    return fetched(wanted, cache_folder() / "delta" / version)
