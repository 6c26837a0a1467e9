"""A query on Spark Connect that copies lines by the Kafka sink: the sink runs in a process of the server."""

from collections.abc import Callable
from pathlib import Path

import pytest
from micro_batches import process
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from waiting import eventually

from featuregate_spark import FeatureSession
from featuregate_spark.sink.kafka_sink import KafkaSink

PARTITIONS = 3
OF_THE_SINK, NOT_BEGUN = "FOREACH_BATCH_USER_FUNCTION_ERROR", "Python worker failed to connect back"


class Copying:
    """A query that copies lines of files to a topic, in several runs."""

    def __init__(self, spark: SparkSession, folder: Path, features: FeatureSession, topic: str) -> None:
        self._spark = spark
        self._features = features
        self._topic = topic
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        self.checkpoint = folder / "checkpoint"

    def run(self) -> None:
        lines = self._spark.readStream.text(str(self.inputs)).select(f.col("value").alias("key"), "value")
        process(lines.writeStream, self.sink("connected"), self.checkpoint)

    def sink(self, name: str) -> KafkaSink:
        return self._features.kafka_sink(name, self._topic, shards=PARTITIONS)

    def refused(self, column: str, write: Callable[[DataFrame, int], object]) -> str:
        """Write a line with other columns by a query of its own, and return its error.

        Spark gives its Python process ten seconds to connect, which a busy machine may need for the imports: such a
        query has not begun, and is started again.
        """
        (self.inputs / "line").write_text("a\n")
        lines = self._spark.readStream.text(str(self.inputs)).selectExpr("value", column, "current_timestamp()")

        def error() -> str:
            with pytest.raises(Exception, match=f"{OF_THE_SINK}|{NOT_BEGUN}") as failed:
                process(lines.writeStream, write, self.checkpoint)
            return str(failed.value)

        return eventually(error, "a query that begins", met=lambda said: OF_THE_SINK in said)
