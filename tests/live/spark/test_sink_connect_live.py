"""The Kafka sink on Spark Connect: its function runs in a process of the server."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eos.pipes import Pipe
from micro_batches import process
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from streams.connect import connect_spark
from topics import committed_values

from featuregate.testing import LocalKafka
from featuregate_spark import FeatureSession
from featuregate_spark.sink.kafka_sink import KafkaSink

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
        process(lines.writeStream, self.sink("connected"), self.checkpoint)

    def sink(self, name: str) -> KafkaSink:
        return self._features.kafka_sink(name, self._topic, shards=PARTITIONS)

    def refused(self, column: str, write: Callable[[DataFrame, int], object]) -> str:
        """Write a line with other columns by a query of its own, and return its error."""
        (self.inputs / "line").write_text("a\n")
        lines = self._spark.readStream.text(str(self.inputs)).selectExpr("value", column, "current_timestamp()")
        with pytest.raises(Exception, match="FOREACH_BATCH_USER_FUNCTION_ERROR") as failed:
            process(lines.writeStream, write, self.checkpoint)
        return str(failed.value)


@pytest.fixture
def copying(
    spark: SparkSession, kafka: LocalKafka, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Copying]:
    with FeatureSession(spark, kafka.bootstrap) as features:
        topic = Pipe.on(kafka, request.node.name[:40].strip("["), partitions=PARTITIONS).sink
        yield Copying(spark, tmp_path, features, topic)


@pytest.mark.proof("sink")
@pytest.mark.parametrize(
    ("column", "added", "said"),
    [
        ("1 AS one", "cast(now() AS string) AS key", r"now\(\)"),
        ("1 AS one", "timestamp 'now' AS at", "in a literal"),
        ("1 AS one", "uuid() AS key", r"uuid\(\)"),
        ("now() AS at", "1 AS two", r"now\(\)"),
        ("uuid() AS at", "1 AS two", r"uuid\(\)"),
    ],
)
def test_rows_that_a_replay_would_not_give_again_are_refused(
    copying: Copying, column: str, added: str, said: str
) -> None:
    """The server shows the plans as text, with all columns."""
    sink = copying.sink("unstable")
    many = [f"concat(value, '{each}') AS c{each}" for each in range(30)]
    found = copying.refused(column, lambda df, batch_id: sink(df.selectExpr("value", *many, added), batch_id))
    assert re.search(rf"NotReplayable: the rows have .*{said}", found)


@pytest.mark.proof("sink")
def test_a_second_sink_and_a_new_checkpoint_are_refused(copying: Copying, tmp_path: Path) -> None:
    """The worker of a query has all its sinks, and finds the query by the columns of the batch."""
    one, two = copying.sink("twins"), copying.sink("twins")

    def write(df: DataFrame, batch_id: int) -> None:
        rows = df.selectExpr("cast(at AS string) AS key", "`current_timestamp()` AS other", "value")
        one(rows, batch_id)
        two(rows.selectExpr("upper(value) AS value"), batch_id)

    clock = "current_timestamp() AS at"
    assert "another sink of query 'twins'" in copying.refused(clock, write)
    copying.checkpoint = tmp_path / "new"
    found = copying.refused(clock, lambda df, batch_id: one(df.select("value"), batch_id))
    assert "has committed batch 0 with another checkpoint" in found


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
