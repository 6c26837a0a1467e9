"""Write the class archive of Spark (CDS, JEP 350), with which its JVM needs half of the processor time to start.

.. code-block:: console

    $ PYTHONPATH=tests python -m streams.class_archive .venv/spark.jsa

Java takes an archive only for the same class path, so that all sessions of the tests have the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from featuregate.testing import LocalKafka
from featuregate_fleet.runs.session import SETTINGS
from streams.sessions import local_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_class_archive(archive: Path, jvm_options: str) -> None:
    """Run what tests run, and let the JVM write its classes when it ends."""
    part = archive.with_name(f".{archive.name}.{os.getpid()}").absolute()
    writing = f"-XX:ArchiveClassesAtExit={part} -Xlog:cds=off -Xlog:cds+dynamic=off"
    os.environ["SPARK_SUBMIT_OPTS"] = f"{jvm_options} {writing}"
    try:
        with LocalKafka("4.2.0") as kafka, local_spark(**SETTINGS) as spark, TemporaryDirectory() as folder:
            _use_most_classes(spark, kafka.bootstrap, folder)
        part.rename(archive)  # a JVM does not survive half an archive
    finally:
        part.unlink(missing_ok=True)


def _use_most_classes(spark: SparkSession, bootstrap: str, folder: str) -> None:
    """Write a topic, and stream it through Python into a table of Delta Lake."""
    kafka = {"kafka.bootstrap.servers": bootstrap}
    numbers = spark.range(100).selectExpr("CAST(id AS STRING) AS value", "id % 3 AS remainder")
    numbers.select("value").write.format("kafka").options(**kafka, topic="classes").save()

    def append(batch: DataFrame, _: int) -> None:
        counted = batch.mapInArrow(lambda each: each, batch.schema).groupBy("partition").count()
        counted.write.format("delta").mode("append").save(f"{folder}/table")

    records = spark.readStream.format("kafka").options(**kafka, subscribe="classes", startingOffsets="earliest").load()
    stream = records.select("partition", "value").writeStream.foreachBatch(append).trigger(availableNow=True)
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").start()
    query.awaitTermination()
    assert spark.read.format("delta").load(f"{folder}/table").agg({"count": "sum"}).collect()[0][0] == numbers.count()


if __name__ == "__main__":
    write_class_archive(Path(sys.argv[1]), os.environ.get("SPARK_SUBMIT_OPTS", ""))
