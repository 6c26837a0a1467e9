"""Which jars fit which line of Spark: the one table that the whole project asks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLine:
    """What belongs to the releases of Spark that share two numbers, such as 4.1."""

    scala: str
    """The version of Scala in the names of jars."""
    connector: tuple[str, str, str] | None = None
    """The releases of Spark's Kafka connector, of kafka-clients and of commons-pool2; None where there are none yet."""
    delta: tuple[str, str] | None = None
    """The artifact of Delta Lake, and its release; None where there is none yet."""
    s3: tuple[str, str] | None = None
    """The release of Hadoop in Spark, and that of the AWS SDK for it; None for a line that was not run on S3."""

    def connector_jars(self) -> tuple[str, ...]:
        """Return the Maven coordinates of what the connector needs in addition to Spark."""
        if self.connector is None:
            return ()
        release, clients, pool = self.connector
        return (
            f"org.apache.spark:spark-sql-kafka-0-10_{self.scala}:{release}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_{self.scala}:{release}",
            f"org.apache.kafka:kafka-clients:{clients}",
            f"org.apache.commons:commons-pool2:{pool}",
        )

    def s3_jars(self) -> tuple[str, ...]:
        """Return the Maven coordinates of what Hadoop needs for S3 in addition to Spark."""
        if self.s3 is None:
            return ()
        hadoop, sdk = self.s3
        return f"org.apache.hadoop:hadoop-aws:{hadoop}", f"software.amazon.awssdk:bundle:{sdk}"

    def delta_jars(self) -> tuple[str, ...]:
        """Return the Maven coordinates of what Delta Lake needs in addition to Spark."""
        if self.delta is None:
            return ()
        artifact, release = self.delta
        return f"io.delta:{artifact}:{release}", f"io.delta:delta-storage:{release}"


LINES: Final = {
    "3.5": SparkLine(scala="2.12", connector=("3.5.1", "3.4.1", "2.11.1"), delta=("delta-spark_2.12", "3.3.2")),
    "4.0": SparkLine(
        scala="2.13",
        connector=("4.0.0", "3.9.0", "2.12.0"),
        delta=("delta-spark_2.13", "4.0.0"),
        s3=("3.4.1", "2.29.52"),
    ),
    "4.1": SparkLine(scala="2.13", connector=("4.1.1", "3.9.1", "2.12.1"), delta=("delta-spark_4.1_2.13", "4.3.0")),
    "4.2": SparkLine(scala="2.13", connector=("4.2.0", "3.9.2", "2.13.1"), delta=("delta-spark_4.2_2.13", "4.4.0")),
    "4.3": SparkLine(scala="2.13"),
}
"""Each line with the jars that its proof run uses. Other releases of the same line work, too: under ``spark-submit``
and in a folder of jars the user chooses them."""

OLDEST: Final = (3, 5, 3)
"""The oldest release of Spark for tables of Delta Lake: Delta 3.3 needs a class that 3.5.3 has added."""


def release_numbers(spark: str) -> tuple[int, ...]:
    """Return the numbers of a release, to compare it with others."""
    return tuple(int(number) for number in spark.split(".")[:3] if number.isdecimal())


def line_name(spark: str) -> str:
    """Return the line of a release of Spark, such as 4.1 of 4.1.4."""
    return ".".join(spark.split(".")[:2])


def line_of(spark: str) -> SparkLine:
    """Return what belongs to a release of Spark: for a line that is newer than the table, the Scala of its last one."""
    return LINES.get(line_name(spark), SparkLine(scala=LINES["4.3"].scala))


NEWEST_WITH_CONNECTOR: Final = max((name for name, line in LINES.items() if line.connector), key=release_numbers)
"""The newest line of Spark that has a Kafka connector."""


def connector_package(spark: str) -> str | None:
    """Return a connector for a Spark as ``--packages`` takes it: that of the proof run for the same line.

    Not each repository has the connector of each release: 4.2.0 was there for Spark 4.2.1, and its own was not. None
    for a line of which no connector is published.
    """
    line = line_of(spark)
    if line.connector is None and line_name(spark) in LINES:
        return None
    release = line.connector[0] if line.connector else spark
    return f"org.apache.spark:spark-sql-kafka-0-10_{line.scala}:{release}"


def connector_names(spark: str) -> tuple[tuple[str, ...], ...]:
    """Return how the names of the connector's jars begin; each jar may have one of several names."""
    ending = f"kafka-0-10_{line_of(spark).scala}-{line_name(spark)}."
    return (f"spark-sql-{ending}",), (f"spark-token-provider-{ending}",), ("kafka-clients-",), ("commons-pool2-",)


def delta_names(spark: str) -> tuple[tuple[str, ...], ...]:
    """Return the same of Delta Lake, whose newer releases name the line of Spark that they are for."""
    line = line_of(spark)
    of_table = [f"{line.delta[0]}-{line_name(line.delta[1])}."] if line.delta else []
    return tuple(dict.fromkeys([f"delta-spark_{line_name(spark)}_{line.scala}-", *of_table])), ("delta-storage-",)
