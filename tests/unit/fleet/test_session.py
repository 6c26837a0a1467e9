"""The settings with which Spark starts, and what is said where the JVM of a session ends before the work does."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyspark
from py4j.protocol import Py4JError, Py4JNetworkError

from featuregate.jars.spark_lines import connector_names, delta_names
from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.runs import session as sessions
from featuregate_fleet.runs.session import said_in_one_line, settings

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


class Ended:
    """A session whose JVM has ended, as PySpark shows it."""

    @property
    def version(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


class Running:
    """A session whose JVM answers."""

    version = "4.0.0"


def ended(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", f"import os, signal; {code}"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os._exit(52)", "Spark has no memory left: give it more than it has by SPARK_DRIVER_MEMORY=4g"),
        ("os._exit(134)", "the JVM of Spark has ended with 134"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the JVM of Spark was killed, by the kernel if"),
    ],
)
@pytest.mark.parametrize(
    "error", [Py4JError("o7"), Py4JNetworkError("empty"), ConnectionRefusedError(111, "refused")], ids=repr
)
def test_the_end_of_a_jvm_is_said_once(code: str, said: str, error: Exception):
    """By its exit code: Spark has codes of its own."""
    session: Any = Ended()
    with ended(code) as java, pytest.raises(TablesBroken, match=said) as found, said_in_one_line(session, java):
        raise error
    assert str(found.value).endswith("; the table has whole batches, and the next run continues")


def test_a_jvm_of_spark_submit_has_no_exit_code(monkeypatch: pytest.MonkeyPatch):
    """And one that answers no more, and has not ended, does not hold the command."""
    monkeypatch.setattr(sessions, "_SECONDS", 0.01)
    session: Any = Ended()
    stopped = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        os.kill(stopped.pid, signal.SIGSTOP)
        for java in (None, stopped):
            with pytest.raises(TablesBroken, match="answers no more"), said_in_one_line(session, java):
                raise ConnectionRefusedError
    finally:
        stopped.kill()
        stopped.wait()


def test_an_error_of_something_else_is_not_that_of_the_jvm():
    """Such as a disk that is full, or a broker that refuses a connection."""
    session: Any = Running()
    for error in (OSError(28, "no space"), ConnectionRefusedError(111, "by a broker")):
        with pytest.raises(OSError, match=r"no space|by a broker") as found, said_in_one_line(session, None):
            raise error
        assert found.value is error
