"""The session of the fleet pipeline, in a program that has one already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.delta import DeltaTables

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("jvm")
def test_a_session_that_runs_already_goes_on_as_it_was(tmp_path):
    """As in a notebook: its settings, its cached tables and its streams are the user's."""
    running = SparkSession.builder.getOrCreate()
    running.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = dict(running.conf.getAll)

    def use() -> object:
        with local_session() as spark:
            assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
            spark.range(3).write.format("delta").save(str(tmp_path / "numbers"))
            DeltaTables(spark, tmp_path, "c").vacuum("numbers")
            return spark.sparkContext

    try:
        with ThreadPoolExecutor(1) as another_thread:
            assert another_thread.submit(use).result() is running.sparkContext
        assert dict(running.conf.getAll) == before
        assert running.range(3).count() == 3
    finally:
        running.conf.unset("spark.sql.session.timeZone")
