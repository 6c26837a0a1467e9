"""The Kafka sink on Spark Connect: its function runs in a process of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from eos.pipes import Pipe
from micro_batches import process
from pyspark.sql import functions as f
from streams.connect import connect_spark
from topics import committed_values

from featuregate_spark import FeatureSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from featuregate.testing import LocalKafka

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 3


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with connect_spark("local[2]") as session:
        yield session


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
        """Write what is new."""
        lines = self._spark.readStream.text(str(self.inputs)).select(f.col("value").alias("key"), "value")
        sink = self._features.kafka_sink("connected", self._topic, shards=PARTITIONS)
        process(lines.writeStream, sink, self.checkpoint)


def test_a_batch_that_is_replayed_is_written_once(spark: SparkSession, kafka: LocalKafka, tmp_path: Path) -> None:
    """The driver died between the sink's commit and Spark's own, and the replay runs in another process."""
    with FeatureSession(spark, kafka.bootstrap) as features:
        topic = Pipe.on(kafka, "connected", partitions=PARTITIONS).sink
        copying = Copying(spark, tmp_path, features, topic)
        for batch_id, lines in enumerate(["a\nb\nc\n", "d\ne\n"]):
            (copying.inputs / f"{batch_id}.txt").write_text(lines)
            copying.run()
            (copying.checkpoint / "commits" / str(batch_id)).unlink()
            (copying.checkpoint / "commits" / f".{batch_id}.crc").unlink()
            copying.run()
        assert committed_values(kafka.client_config(), topic, partitions=PARTITIONS) == [b"a", b"b", b"c", b"d", b"e"]
