"""``kafka_features`` on Spark Connect, where the server plans, and so asks the brokers."""

from __future__ import annotations

from collections.abc import Iterator
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
