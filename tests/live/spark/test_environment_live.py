"""What a real Spark runs with, and workers whose Python has nothing."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from featuregate_spark.environment import environment_of

pytestmark = [pytest.mark.proof("spark"), pytest.mark.live]


def test_the_environment_of_a_spark_that_fits(spark: SparkSession) -> None:
    """The connector is that of the classpath, and a worker has imported featuregate."""
    found = environment_of(spark)
    assert found.spark == pyspark.__version__
    assert found.connector in {pyspark.__version__, None}
    assert found.problems == ()


def test_workers_without_featuregate_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """Their Python is new, and has no package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True, timeout=240)
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, str(tmp_path / "bare/bin/python")
    path = context.environment.pop("PYTHONPATH", None)
    try:
        (problem,) = environment_of(spark).problems
    finally:
        context.pythonExec = before
        if path is not None:
            context.environment["PYTHONPATH"] = path
    assert "PYSPARK_PYTHON" in problem
    assert "\n" not in problem
