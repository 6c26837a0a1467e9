"""The jars that a local Spark needs for topics of Kafka and for tables of Delta Lake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from featuregate.errors import LocalKafkaError
from featuregate.files import local_path
from featuregate.jars.maven import Download, cache_folder, fetched
from featuregate.jars.spark_lines import connector_names, delta_names, line_of

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = "FEATUREGATE_JARS"
"""The environment variable that names a folder with these jars, for machines that cannot download."""

_OF_S3: Final = (("hadoop-aws-",),)
"""As in `spark_lines.delta_names`. The AWS SDK is one jar or many."""

_OTHER_WAYS: Final = (
    f"name a folder with the jars (--jars, or {FOLDER} in the environment), set a mirror in jgo's configuration, or "
    "run the command with spark-submit --packages"
)


def class_path(
    spark: str, folder: Path | None, environment: Mapping[str, str], *, topics: bool, s3: bool = False
) -> str:
    """Return the class path of a local Spark: the jars of a folder or of ``FEATUREGATE_JARS``, or else of the cache.

    It has the jars of Delta Lake, those of Spark's Kafka connector only if ``topics`` are read, and those of Hadoop for
    S3 only if a path is on ``s3``. Raises `LocalKafkaError`: the folder lacks a jar, the jars cannot be downloaded, or
    nobody has published any for this Spark.
    """
    if folder is None and (named := environment.get(FOLDER, "")).strip():
        folder = local_path(FOLDER, named)
    if folder is not None:
        _check(folder, spark, topics=topics, s3=s3)
        return f"{folder}/*"
    try:
        folders = [delta_lake(spark)]
        folders += [spark_connector(spark)] if topics else []
        folders += [hadoop_aws(spark)] if s3 else []
    except (LocalKafkaError, ImportError) as error:
        raise LocalKafkaError(f"{error}; {_OTHER_WAYS}") from error
    return os.pathsep.join(f"{each}/*" for each in folders)


def spark_connector(spark: str) -> Path:
    """Return the folder with the jars of Spark's Kafka connector that Spark itself does not contain.

    In local mode, pass it to ``spark.driver.extraClassPath`` as ``<folder>/*``. Raises as `maven.fetched`.
    """
    return _fetched("Spark's Kafka connector", spark, line_of(spark).connector_jars(), "spark-connector")


def delta_lake(spark: str) -> Path:
    """Return the folder with the jars of Delta Lake for a Spark. Pass it as :func:`spark_connector`; raises alike."""
    return _fetched("Delta Lake", spark, line_of(spark).delta_jars(), "delta")


def hadoop_aws(spark: str) -> Path:
    """Return the folder with the jars of Hadoop for S3, likewise: 640 MB, most of them the AWS SDK."""
    return _fetched("Hadoop's S3A", spark, line_of(spark).s3_jars(), "hadoop-aws")


def _fetched(what: str, spark: str, coordinates: Sequence[str], kind: str) -> Path:
    if not coordinates:
        raise LocalKafkaError(f"there is no {what} for Spark {spark}, as far as this release of featuregate knows")
    _, name, version = coordinates[0].split(":")
    wanted = Download(f"{what} {version} for Spark {spark}", tuple(coordinates), None)
    return fetched(wanted, cache_folder() / kind / f"{name}-{version}")


def _check(folder: Path, spark: str, *, topics: bool, s3: bool) -> None:
    """Refuse a folder that lacks a jar. Any release of the right line will do: the user has chosen it."""
    found = [path.name for path in folder.glob("*.jar")]
    wanted = [*delta_names(spark), *(connector_names(spark) if topics else ()), *(_OF_S3 if s3 else ())]
    for names in wanted:
        if not any(jar.startswith(names) for jar in found):
            either = " or ".join(f"{name}*.jar" for name in names)
            raise LocalKafkaError(f"the folder of jars {folder} has no {either}, which Spark {spark} needs")
