"""Each line of Spark in a virtual environment of its own: what works with it, and the table that says so."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from filelock import FileLock
from spark_lines.table import with_column

from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("spark"), pytest.mark.live, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
NO_JARS = "no connector and no Delta Lake are published yet"
OF_JARS = ("sink", "fleet_run", "fleet_readiness", "fleet_from_python", "fleet_two_runs", "fleet_tidy")
PYSPARKS = {
    "3.5.9": ("pandas<3", "spark,fleet,testing", {"kafka_features": "needs PySpark 4.0"}),
    "4.0.0": ("pandas<3", "spark,fleet,testing", {}),
    "4.1.4": ("pandas<3", "spark,fleet,testing", {}),
    "4.2.1": ("pandas>=3", "spark,fleet,testing", {}),
    "4.3.0": ("pandas>=3", "confluent,testing", dict.fromkeys(OF_JARS, NO_JARS)),
}
"""The newest release of each line, and the one that the other tests run: its pandas, its extras, and what it lacks."""


def installed(folder: Path, release: str, pandas: str, extras: str) -> Path:
    """Make a virtual environment in which PySpark is first, and the project comes second."""
    python = folder / "venv" / "bin" / "python"
    uv = [str(Path(sys.executable).with_name("uv")), "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder / "venv")], check=True)
    for packages in ([f"pyspark=={release}", pandas, "pyarrow"], ["--editable", f"{ROOT}[{extras}]"]):
        subprocess.run([*uv, "pip", "install", "--python", str(python), *packages], check=True)
    return python


def outcomes(python: Path, bootstrap: str, folder: Path) -> dict[str, str]:
    folder.mkdir()
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "integrations", ROOT / "tests")))
    # A class archive is that of another JVM's class path.
    options = " ".join(each for each in os.environ["SPARK_SUBMIT_OPTS"].split() if "Shared" not in each)
    script = ROOT / "tests" / "spark_lines" / "capabilities.py"
    run = subprocess.run(
        [str(python), str(script), bootstrap, str(folder)],
        env=os.environ | {"PYTHONPATH": paths, "SPARK_SUBMIT_OPTS": options},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("release", PYSPARKS)
def test_a_line_of_spark_can_do_what_the_page_says(
    release: str,
    kafka: LocalKafka,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """An installed PySpark stays; what a line lacks is said by name, and the rest works."""
    pandas, extras, lacks = PYSPARKS[release]
    python = installed(tmp_path, release, pandas, extras)
    there = subprocess.check_output([str(python), "-c", "import pyspark; print(pyspark.__version__)"], text=True)
    assert there.strip() == release
    found = outcomes(python, kafka.bootstrap, tmp_path / "run")
    failed = [f"{name}: {text}" for name, text in found.items() if text != "yes" and name not in lacks]
    assert not failed, "\n".join(failed)
    assert all(found[name] != "yes" for name in lacks), found
    if request.config.option.ledger is not None:
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        cells = {name.replace("_", " "): lacks.get(name, today) for name in found}
        with FileLock(tmp_path_factory.getbasetemp().parent / "compatibility.lock"):  # other processes write it, too
            PAGE.write_text(with_column(PAGE.read_text(), release, cells))
