"""``kafka_features`` on Spark Connect, where the server plans, and so asks the brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from streams.connect import connect_spark

from featuregate.testing import FakeCluster
from featuregate_spark import KafkaFeatures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.proof("spark"), pytest.mark.live, pytest.mark.slow]

TV = "transaction.version"
LEVELS = f"scope = 'cluster' AND feature = '{TV}'"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with connect_spark() as session:
        session.dataSource.register(KafkaFeatures)
        yield session


def test_a_table_and_its_plan_are_as_without_connect(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the levels, and the plan has no secrets."""
    with FakeCluster(finalized={TV: 2}) as cluster:
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.sasl.password": "hush"}
        table = spark.read.format("kafka_features").options(**options).load()
        assert [(row.level, row.reported_level) for row in table.where(LEVELS).collect()] == [(2, 2)]
        table.explain(extended=True)
    shown = capsys.readouterr().out
    assert "kafka_features" in shown
    assert "hush" not in shown


def test_a_stream_stays_latched(spark: SparkSession, tmp_path: Path) -> None:
    """The latch is in Spark's offset log, and so holds over restarts."""
    with FakeCluster(finalized={TV: 2}) as cluster:
        for level in (2, 1, 1):
            cluster.finalize({TV: level})
            changes = spark.readStream.format("kafka_features").option("kafka.bootstrap.servers", cluster.bootstrap)
            writing = changes.load().where(LEVELS).select("level", "reported_level").writeStream.format("parquet")
            writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            query = writing.start(str(tmp_path / "table"))
            assert query.awaitTermination(120)
            assert query.exception() is None
    written = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted((row.level, row.reported_level) for row in written) == [(2, 1), (2, 2)]
