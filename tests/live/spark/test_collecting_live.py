"""What a driver whose results Spark limits collects of a batch that follows a small one."""

import logging
from collections.abc import Iterator

import pytest
from eos.pipes import Pipe
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams.sessions import local_spark

from featuregate.testing import LocalKafka
from featuregate_spark import FeatureSession
from featuregate_spark.events import BatchWritten

pytestmark = [pytest.mark.proof("sink"), pytest.mark.live, pytest.mark.slow]

ROWS = 10_010


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark(spark_driver_maxResultSize="10m") as session:
        yield session


@pytest.mark.parametrize(
    ("driver_rows", "warnings"),
    [
        pytest.param(1000, [], id="one row too many is all that it collects"),
        pytest.param(
            ROWS,
            ["batch 1: its rows are more than spark.driver.maxResultSize allows; tasks write the batch"],
            id="tasks write what Spark does not let it collect",
        ),
    ],
)
def test_a_driver_takes_no_more_of_a_large_batch_than_it_may(
    spark: SparkSession, kafka: LocalKafka, caplog: pytest.LogCaptureFixture, driver_rows: int, warnings: list[str]
) -> None:
    """Ten partitions have 4 MB each, which an idle stream finds behind a batch of one row."""
    told: list[object] = []
    pipe = Pipe.on(kafka, "collected")
    rows = spark.range(0, ROWS, numPartitions=10).select(f.repeat(f.lit("x"), 4096).alias("value"))
    with (
        caplog.at_level(logging.WARNING, "featuregate.spark.sink"),
        FeatureSession(spark, kafka.bootstrap, metrics=told.append) as features,
    ):
        sink = features.kafka_sink(pipe.group, pipe.sink, shards=1, driver_rows=driver_rows)
        sink(rows.limit(1), 0)
        sink(rows, 1)
    assert [each.rows for each in told if isinstance(each, BatchWritten)] == [1, ROWS]
    assert [record.getMessage() for record in caplog.records] == warnings
