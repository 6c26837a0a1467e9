"""The session of the fleet pipeline, in a program that has one already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from featuregate_fleet.stream.session import local_session

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("jvm")
def test_a_session_that_runs_already_is_used_and_goes_on():
    """As in a notebook: its cached tables and its streams are the user's."""
    running = SparkSession.getActiveSession()
    assert running is not None

    def use() -> object:
        with local_session() as spark:
            return spark.sparkContext

    assert use() is running.sparkContext
    with ThreadPoolExecutor(1) as another_thread:
        assert another_thread.submit(use).result() is running.sparkContext
    assert running.range(3).count() == 3
