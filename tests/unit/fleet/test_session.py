"""The settings with which Spark starts."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from featuregate.jars.spark_lines import connector_names, delta_names
from featuregate_fleet.runs.session import settings

OF_THE_COMMAND = {"spark.master", "spark.app.name", "spark.driver.extraClassPath", "spark.executor.extraClassPath"}
"""What ``spark-submit`` says of a job."""


def test_a_submitted_job_keeps_what_its_command_says(tmp_path: Path):
    """Its master, its jars, its addresses and its log; what the tables need is the same everywhere."""
    for names in (*delta_names(pyspark.__version__), *connector_names(pyspark.__version__)):
        (tmp_path / f"{names[0]}0.jar").touch()
    here, submitted = settings({}, tmp_path), settings({"PYSPARK_GATEWAY_PORT": "4711"})
    assert here["spark.driver.extraClassPath"] == f"{tmp_path}/*"
    assert here["spark.master"] == "local[*]"
    assert here.keys() >= OF_THE_COMMAND
    assert submitted.items() < here.items()
    (tmp_path / "hadoop-aws-0.jar").touch()
    there = settings({"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "eu-west-1"}, tmp_path, s3=True)
    assert {name: there[name] for name in there.keys() - here.keys()} == {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert submitted.keys().isdisjoint(OF_THE_COMMAND | {"spark.driver.host", "spark.log.level", "spark.ui.enabled"})
    assert ("spark.driver.defaultJavaOptions" in here) == (sys.platform == "linux")
    assert "spark.driver.defaultJavaOptions" not in submitted
    assert "spark.driver.extraJavaOptions" not in here, "these are the user's own"
    assert submitted["spark.sql.session.timeZone"] == "UTC"
    assert submitted["spark.sql.extensions"] == here["spark.sql.extensions"]
