"""With which settings Spark starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from featuregate.testing.local_kafka import jars
from featuregate_fleet.stream.session import settings

OF_THE_COMMAND = {"spark.master", "spark.app.name", "spark.driver.extraClassPath", "spark.executor.extraClassPath"}
"""What ``spark-submit`` says of a job."""


def test_a_submitted_job_keeps_what_its_command_says(monkeypatch: pytest.MonkeyPatch):
    """Its master, its jars, its addresses and its log; what the tables need is the same everywhere."""
    monkeypatch.setattr(jars, "delta_lake", lambda _: Path("delta"))
    monkeypatch.setattr(jars, "spark_connector", lambda _: Path("connector"))
    here, submitted = settings({}), settings({"PYSPARK_GATEWAY_PORT": "4711"})
    assert here["spark.master"] == "local[*]"
    assert here.keys() >= OF_THE_COMMAND
    assert submitted.items() < here.items()
    assert submitted.keys().isdisjoint(OF_THE_COMMAND | {"spark.driver.host", "spark.log.level", "spark.ui.enabled"})
    assert ("spark.driver.defaultJavaOptions" in here) == (sys.platform == "linux")
    assert "spark.driver.defaultJavaOptions" not in submitted
    assert "spark.driver.extraJavaOptions" not in here, "these are the user's own"
    assert submitted["spark.sql.session.timeZone"] == "UTC"
    assert submitted["spark.sql.extensions"] == here["spark.sql.extensions"]
