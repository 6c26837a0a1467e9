"""The session of the fleet pipeline, in a program that has one already."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from killed_runs import reads_lines
from pyspark.sql import SparkSession
from waiting import BOUND, eventually

from featuregate.cli import main
from featuregate_fleet.errors import WrongSpark
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables import evidence_table
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("jvm")
def test_a_session_that_runs_already_goes_on_as_it_was(tmp_path):
    """As in a notebook: its settings, its cached tables and its streams are the user's."""
    running = SparkSession.builder.getOrCreate()
    running.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = dict(running.conf.getAll)

    def use() -> object:
        with local_session() as spark:
            assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
            spark.range(3).write.format("delta").save(str(tmp_path / "c"))
            EvidenceTable(spark, tmp_path, "c").delete_files(())
            return spark.sparkContext

    try:
        with ThreadPoolExecutor(1) as another_thread:
            assert another_thread.submit(use).result() is running.sparkContext
        assert dict(running.conf.getAll) == before
        assert running.range(3).count() == 3
    finally:
        running.conf.unset("spark.sql.session.timeZone")


@pytest.mark.usefixtures("jvm")
def test_a_session_without_the_extension_of_delta_lake_is_refused(tmp_path, monkeypatch):
    """Before Spark fails with the name of a class."""
    monkeypatch.setattr(evidence_table, "EXTENSION", "io.example.Extension")
    with pytest.raises(WrongSpark, match=r"spark\.sql\.extensions does not name io\.example\.Extension"):
        EvidenceTable(SparkSession.builder.getOrCreate(), tmp_path, "c")


WITHOUT_JARS = """
import sys

from pyspark.sql import SparkSession

from featuregate.cli import main

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").getOrCreate()
run = ["fleet", "run", "--once", "--logs", sys.argv[1], "--cluster", "c", "--tables"]
print(main([*run, sys.argv[2]]))
spark.getOrCreate().stop()
"""


def test_a_program_whose_spark_has_no_jars_of_delta_lake_is_told_so(tmp_path):
    """Spark starts all the same."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    (tmp_path / "logs" / "1" / "server.log").write_text("no line of Kafka\n")
    folders = (str(tmp_path / name) for name in ("logs", "tables"))
    done = alone(WITHOUT_JARS, *folders, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    assert done.stdout.split()[-1:] == ["2"], done.stderr
    assert "started without Delta Lake, which keeps the tables: its jars are not there" in done.stderr
    assert "DefaultSource" not in done.stderr


ALONE = """
from featuregate_fleet.runs.session import local_session

with local_session(topics=False) as spark:
    print(spark.range(3).count())
with local_session(topics=False) as spark:
    print(spark.range(4).count())
"""


def alone(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_spark_starts_without_its_warnings():
    """The JVM and Hadoop print none, also when a process starts a second session in the same JVM."""
    done = alone(ALONE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n4\n", "")


def test_a_java_that_is_missing_is_one_line(tmp_path):
    """It has what the JVM's launcher says."""
    done = alone(ALONE, JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("featuregate_fleet.errors.WrongSpark: Spark does not start: ")
    assert f"{tmp_path}/bin/java: No such file or directory" in done.stderr.splitlines()[-1]


def is_running(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


STARTED = "tmp/featuregate-fleet-*/spark.log"
"""A file that is there while the JVM starts."""
COMMITTED = "tables/c/_delta_log/*0.json"


class Run:
    """A folder of logs, and the command that reads it, in a process group of its own, as a supervisor starts it."""

    def __init__(self, folder: Path, broker_log: Path, times: int = 1) -> None:
        self.folder = folder
        log = broker_log.read_text() * times
        self._lines = len(log.splitlines())
        (folder / "logs" / "1").mkdir(parents=True)
        (folder / "tmp").mkdir()
        (folder / "logs" / "1" / "log").write_text(log)
        self._options = ["--logs", str(folder / "logs"), "--tables", str(folder / "tables"), "--cluster", "c"]

    @contextmanager
    def start(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(
            [sys.executable, "-m", "featuregate", "fleet", "run", *options, *self._options],
            start_new_session=True,
            env=os.environ | {"TMPDIR": str(self.folder / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise

    def wait_until(self, begun: str) -> None:
        eventually(lambda: list(self.folder.glob(begun)), "it has begun", BOUND)

    def has_left_nothing(self, group: int) -> None:
        """Assert that a command left no process and no file, and that the next one reads all that there is, once."""
        eventually(lambda: not is_running(group), "its JVM and Python's workers have ended", BOUND)
        assert not list((self.folder / "tmp").glob("featuregate-fleet-*"))
        assert main(["fleet", "run", "--once", *self._options]) == 0
        with local_session() as spark:
            sources = EvidenceTable(spark, self.folder / "tables", "c").rows("source").collect()
            assert sum(row["read"] for row in sources) == self._lines


@pytest.mark.parametrize("amid", [False, True], ids=["its JVM starts", "its workers read"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_at_once_and_without_a_word(
    tmp_path: Path, broker_log: Path, number: signal.Signals, *, amid: bool
) -> None:
    """The JVM ends, too, and the next run reads all."""
    run = Run(tmp_path, broker_log, times=12_000 if amid else 1)
    with run.start("--once") as process:
        if amid:
            eventually(lambda: reads_lines(process.pid), "a worker reads lines", BOUND)
        else:
            run.wait_until(STARTED)
        os.killpg(process.pid, number)  # as a terminal or `timeout` does: the JVM gets it, too
        assert process.communicate() == (b"", b"")
        assert process.returncode == 128 + number
    run.has_left_nothing(process.pid)


@pytest.mark.parametrize("amid", [True, False], ids=["its workers read", "it waits"])
def test_sigterm_to_every_process_ends_a_run_that_goes_on(tmp_path: Path, broker_log: Path, *, amid: bool) -> None:
    """As systemd sends it, to Python's workers, too: the next run reads the batch that they end."""
    run = Run(tmp_path, broker_log, times=12_000 if amid else 1)
    with run.start("--interval", "3600") as started:
        process = psutil.Process(started.pid)
        if amid:
            eventually(lambda: reads_lines(process.pid), "a worker reads lines", BOUND)
        else:
            run.wait_until(COMMITTED)
        for each in [*reversed(process.children(recursive=True)), process]:
            with suppress(psutil.NoSuchProcess):
                each.terminate()
        said = b"featuregate: ended in the middle of a batch, which the next run reads\n" if amid else b""
        assert (started.communicate()[1], started.returncode) == (said, 0)
    run.has_left_nothing(started.pid)


def java_below(process: psutil.Process) -> psutil.Process:
    (java,) = (each for each in process.children(recursive=True) if each.name() == "java")
    return java


def test_a_run_whose_jvm_was_killed_ends(tmp_path: Path, broker_log: Path) -> None:
    """As by the kernel, for want of memory: a supervisor starts it again, and the next run reads what is left."""
    run = Run(tmp_path, broker_log)
    with run.start("--interval", "1") as started:
        run.wait_until(COMMITTED)
        java_below(psutil.Process(started.pid)).kill()
        said = started.communicate(timeout=BOUND)[1].decode()
    assert started.returncode == 2, said
    assert (  # above or below it, PySpark's server of accumulators says that its stream has ended
        "featuregate: the JVM of Spark was killed, by the kernel if this machine has no memory left; the table has "
        "whole batches, and the next run continues"
    ) in said.splitlines()
    assert "bug" not in said
    run.has_left_nothing(started.pid)


WITHOUT_MEMORY = """
from featuregate_fleet.runs.session import local_session

with local_session(topics=False) as spark:
    spark.range(1).selectExpr("size(array_repeat(id, 900000000))").collect()
"""


def test_a_heap_that_is_too_small_is_one_line_and_can_be_larger() -> None:
    """Spark ends its JVM where a task finds no memory."""
    done = alone(WITHOUT_MEMORY, SPARK_DRIVER_MEMORY="600m")
    last = done.stderr.splitlines()[-1]
    assert "Spark has no memory left: give it more than it has by SPARK_DRIVER_MEMORY=4g" in last, done.stderr


HEAP = """
from featuregate_fleet.runs.session import local_session

with local_session(topics=False) as spark:
    print(spark._jvm.java.lang.Runtime.getRuntime().maxMemory() // 2**20)
"""


def test_the_heap_is_that_of_the_environment() -> None:
    """As the line on a heap that is too small says."""
    assert int(alone(HEAP, SPARK_DRIVER_MEMORY="3g").stdout) > 2800
