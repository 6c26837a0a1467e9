"""What the Kafka sink refuses on Spark Connect. ``test_connect_live.py``, which has a JVM for it, replays a batch."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from eos.pipes import Pipe
from pyspark.sql import DataFrame, SparkSession
from streams.connect import connect_spark
from streams.connected_copying import PARTITIONS, Copying

from featuregate.testing import LocalKafka
from featuregate_spark import FeatureSession

pytestmark = [
    pytest.mark.proof("sink"),
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with connect_spark("local[2]") as session:
        yield session


@pytest.fixture
def copying(
    spark: SparkSession, kafka: LocalKafka, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Copying]:
    with FeatureSession(spark, kafka.bootstrap) as features:
        topic = Pipe.on(kafka, request.node.name[:40].strip("["), partitions=PARTITIONS).sink
        yield Copying(spark, tmp_path, features, topic)


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
