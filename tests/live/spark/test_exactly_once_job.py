"""The example of an exactly-once Spark job, driven from outside as an operator drives it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from streams.sessions import CONNECTOR

from featuregate.testing import LocalKafka
from featuregate.testing.jars import spark_connector
from featuregate.testing.processes import Family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.testing.processes import Child

pytestmark = [pytest.mark.live, pytest.mark.slow]

JOB = Path(__file__).parents[3] / "examples/spark_job/exactly_once.py"


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka("4.2.0") as cluster:
        yield cluster


def command(*arguments: str) -> list[str]:
    """Run the job with two cores, as ``spark-submit`` would."""
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": f"{spark_connector(CONNECTOR)}/*",
    }
    options = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
    }
    return ["env", *[f"{name}={value}" for name, value in environment.items()], sys.executable, str(JOB), *arguments]


def end_at_once(job: Child) -> None:
    """Kill the driver, its JVM and its workers in one moment."""
    everybody = psutil.Process(job.pid).children(recursive=True)
    for one in everybody:
        one.kill()
    job.kill()
    psutil.wait_procs(everybody, BOUND)


def test_the_job_goes_on_after_a_kill_and_ends_at_a_signal(kafka: LocalKafka, tmp_path: Path) -> None:
    """Killed in the middle of its work, started again, and stopped: each record is there once, the exit code is 0."""
    pipe = Pipe.on(kafka, "job", partitions=3)
    arguments = ["--bootstrap", pipe.bootstrap, "--input", pipe.source, "--output", pipe.sink, "--trigger-ms", "0"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--query", pipe.group, "--max-per-batch", "500"]
    family = Family("job")
    try:
        with Ledger(pipe) as ledger:
            ledger.feed_now(6000)
            first = family.start(command(*arguments), log=family.folder / "first.log")
            ledger.wait_for(1500, 2 * BOUND)
            end_at_once(first)
            second = family.start(command(*arguments), log=family.folder / "second.log")
            balance = ledger.balance(2 * BOUND)
            second.ask_to_end()
            assert second.wait(BOUND), second.last_lines(40)
            assert second.exit_code == 0, second.last_lines(40)
        assert balance.exactly_once, balance
    finally:
        family.close()


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path, kafka: LocalKafka) -> None:
    """A topic that is not there; the exit code is 1."""
    pipe = Pipe.on(kafka, "nowhere")
    family = Family("job")
    try:
        arguments = ["--bootstrap", pipe.bootstrap, "--input", pipe.source, "--output", "nowhere", "--query", "lost"]
        log = family.folder / "job.log"
        with Ledger(pipe) as ledger:
            ledger.feed_now(1)
            job = family.start(command(*arguments, "--checkpoint", str(tmp_path / "checkpoint")), log=log)
            until = time.monotonic() + 2 * BOUND
            while job.exit_code is None and time.monotonic() < until:
                job.wait(1)
        assert job.exit_code == 1, job.last_lines(40)
        assert "exactly_once: " in job.last_lines(40)
        assert "topic 'nowhere' cannot be written" in job.last_lines(40)
    finally:
        family.close()
