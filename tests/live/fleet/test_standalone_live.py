"""The pipeline on a standalone cluster with two workers, of which one is killed, or the driver, or that come and go."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
import pytest
from fleet_lines import document, line_of
from pyspark.find_spark_home import _find_spark_home
from streams.hosts import Hosts
from waiting import eventually

from featuregate.jars.spark import delta_lake
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[3]
FILES, LINES = 600, 200
"""A batch of seconds."""
HOSTS = ("127.0.0.1", "127.0.0.2")
ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with Hosts(*HOSTS) as started:
        yield started


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for number in range(FILES):
        file = tmp_path / "logs" / str(1 + number % 2) / f"kafka-request.log.{number:04}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(line_of(document(correlationId=number * LINES + each)) + "\n" for each in range(LINES)))
    return tmp_path / "logs"


@contextmanager
def submitted(hosts: Hosts, logs: Path, more: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    places = f"{ROOT}:{ROOT / 'integrations'}"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": places,
        "spark.ui.enabled": "false",
        **(more or {}),
    }
    told = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    jars = ",".join(map(str, delta_lake(pyspark.__version__).glob("*.jar")))
    script = str(ROOT / "examples" / "spark_job" / "fleet.py")
    run = ["run", "--once", "--logs", str(logs), "--tables", str(logs.parent / "tables"), "--cluster", "c"]
    submit = [str(Path(_find_spark_home(), "bin", "spark-submit")), "--master", hosts.master, "--jars", jars]
    with (
        (logs.parent / "driver.log").open("a") as log,
        subprocess.Popen(
            [*submit, *told, script, *run],
            env=os.environ | {"PYTHONPATH": places, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=logs.parent,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        ) as driver,
    ):
        try:
            yield driver
        finally:
            driver.kill()


def reading(hosts: Hosts) -> psutil.Process | None:
    """Return a worker below which a Python process reads lines: the batch has begun, and is not committed.

    Which of the two it is, is Spark's choice: the first executor to register may be given all tasks of a short batch.
    """
    for worker in map(psutil.Process, hosts.pids):
        for each in worker.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                if "pyspark.daemon" in each.cmdline():
                    return worker
    return None


def check_all_is_there_once(logs: Path) -> None:
    with local_session() as spark:
        table = EvidenceTable(spark, logs.parent / "tables", "c")
        assert sum(row["rows"] for row in table.rows("source").select("rows").collect()) == FILES * LINES
        assert sum(row["count"] for row in table.rows("usage").select("count").collect()) == FILES * LINES


@pytest.mark.usefixtures("jvm")
def test_a_run_goes_on_without_a_worker_that_is_killed(hosts: Hosts, logs: Path) -> None:
    """With its executor. The tasks of that one run again on the other worker."""
    with submitted(hosts, logs) as driver:
        worker = eventually(lambda: reading(hosts), "a worker reads lines")
        assert worker is not None
        for process in (worker, *worker.children(recursive=True)):
            process.kill()
        assert driver.wait(600) == 0, (logs.parent / "driver.log").read_text()[-2000:]
    check_all_is_there_once(logs)


@pytest.mark.usefixtures("jvm")
def test_a_run_whose_driver_was_killed_is_finished_by_the_next_one(hosts: Hosts, logs: Path) -> None:
    """No line is read twice."""
    with submitted(hosts, logs) as driver:
        eventually(lambda: reading(hosts), "a worker reads lines")
        children = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        psutil.wait_procs(children, 60)
    with submitted(hosts, logs) as driver:
        assert driver.wait(600) == 0, (logs.parent / "driver.log").read_text()[-2000:]
    check_all_is_there_once(logs)


@pytest.mark.usefixtures("jvm")
def test_executors_may_come_and_go(hosts: Hosts, logs: Path) -> None:
    """With dynamic allocation: an executor that is idle for a second ends."""
    with submitted(hosts, logs, ALLOCATION) as driver:
        assert driver.wait(600) == 0, (logs.parent / "driver.log").read_text()[-2000:]
    check_all_is_there_once(logs)
