"""The pipeline as ``spark-submit`` runs it, on a master with an executor that is a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from featuregate.jars.spark import delta_lake, spark_connector

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
CLUSTER = "local-cluster[1,1,1024]"
"""A master, and one worker with one core and 1,024 MB, which starts an executor."""


def submitted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an action of the pipeline to its end."""
    home = folder / "spark"  # below which a worker keeps the files of its executors
    home.mkdir(exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if not (home / part.name).is_symlink():
            (home / part.name).symlink_to(part)
    jars = [*delta_lake(pyspark.__version__).glob("*.jar"), *spark_connector(pyspark.__version__).glob("*.jar")]
    told = ["--master", CLUSTER, "--jars", ",".join(map(str, jars)), "--conf", "spark.ui.enabled=false"]
    told += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    given = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(folder),
    }
    script = ROOT / "examples" / "spark_job" / "fleet.py"
    place = ["--tables", str(folder / "tables"), "--cluster", "c"]
    return subprocess.run(
        [str(home / "bin" / "spark-submit"), *told, str(script), *arguments, *place],
        env=os.environ | given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_executors_of_a_cluster_read_the_logs(broker_log: Path, tmp_path: Path) -> None:
    """On the master of the command; a wrong option has its own exit code there, too."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    shutil.copy(broker_log, tmp_path / "logs" / "1" / "server.log")
    run = submitted(tmp_path, "run", "--once", "--logs", str(tmp_path / "logs"))
    assert run.returncode == 0, run.stderr
    assert f'"read": {len(broker_log.read_text().splitlines())}, ' in run.stdout
    executors = list((tmp_path / "spark" / "work").glob("app-*/0/stderr"))
    assert executors, "no executor was a process of its own"
    wrong = submitted(tmp_path, "run", "--once", "--logs", str(tmp_path / "no logs"))
    assert (wrong.returncode, "there is no such folder" in wrong.stdout) == (64, True)
