"""The pipeline as ``spark-submit`` runs it, on a master with an executor that is a process of its own."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
from killed_runs import reads_lines
from waiting import BOUND, eventually

from featuregate.jars.spark import delta_lake, spark_connector

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
CLUSTER = "local-cluster[1,1,1024]"
"""A master, and one worker with one core and 1,024 MB, which starts an executor."""


class Submitted(NamedTuple):
    """A command of `spark-submit` with the pipeline, and its environment."""

    command: list[str]
    environment: dict[str, str]


def submit(folder: Path, *arguments: str, master: str = CLUSTER) -> Submitted:
    home = folder / "spark"  # below which a worker keeps the files of its executors
    home.mkdir(exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if not (home / part.name).is_symlink():
            (home / part.name).symlink_to(part)
    jars = [*delta_lake(pyspark.__version__).glob("*.jar"), *spark_connector(pyspark.__version__).glob("*.jar")]
    told = ["--master", master, "--jars", ",".join(map(str, jars)), "--conf", "spark.ui.enabled=false"]
    told += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    given = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(folder),
    }
    script = ROOT / "examples" / "spark_job" / "fleet.py"
    place = ["--tables", str(folder / "tables"), "--cluster", "c"]
    return Submitted([str(home / "bin" / "spark-submit"), *told, str(script), *arguments, *place], os.environ | given)


def submitted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    to_run = submit(folder, *arguments)
    return subprocess.run(
        to_run.command, env=to_run.environment, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


def test_executors_of_a_cluster_read_the_logs(broker_log: Path, tmp_path: Path) -> None:
    """On the master of the command; a wrong option has its own exit code there, too."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    shutil.copy(broker_log, tmp_path / "logs" / "1" / "server.log")
    run = submitted(tmp_path, "run", "--once", "--logs", str(tmp_path / "logs"))
    assert run.returncode == 0, run.stderr
    assert f"c: {len(broker_log.read_text().splitlines())} lines read: " in run.stdout
    executors = list((tmp_path / "spark" / "work").glob("app-*/0/stderr"))
    assert executors, "no executor was a process of its own"
    wrong = submitted(tmp_path, "run", "--once", "--logs", str(tmp_path / "no logs"))
    assert (wrong.returncode, "there is no such folder" in wrong.stdout) == (64, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("to_all", [True, False], ids=["all", "jvm"])
@pytest.mark.parametrize("once", [True, False], ids=["once", "goes on"])
def test_a_signal_to_the_jvm_is_one_to_the_driver(
    broker_log: Path, tmp_path: Path, number: signal.Signals, *, to_all: bool, once: bool
) -> None:
    """The JVM is what a supervisor sees, and a terminal sends Ctrl-C to both. Neither stops Spark below the driver."""
    log = tmp_path / "logs" / "1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(broker_log.read_text() * (12_000 if once else 1))
    how = ["--once"] if once else ["--interval", "3600"]
    to_run = submit(tmp_path, "run", *how, "--logs", str(tmp_path / "logs"), master="local[1]")
    said = tmp_path / "said"
    with (
        said.open("w") as output,
        subprocess.Popen(
            to_run.command, env=to_run.environment, cwd=tmp_path, stdout=output, stderr=output, start_new_session=True
        ) as jvm,
    ):
        try:
            commits = tmp_path / "tables" / "c" / "_delta_log"
            begun = partial(reads_lines, jvm.pid) if once else lambda: any(commits.glob("*.json"))
            eventually(begun, "a batch has begun, or is written", BOUND)
            (os.killpg if to_all else os.kill)(jvm.pid, number)
            jvm.wait(BOUND)
        finally:
            jvm.kill()
    text = said.read_text()
    assert jvm.returncode == (128 + number if once else 0), text
    assert "this is a bug" not in text
    assert "Traceback" not in text
