"""One cluster is compacted, retained and forgotten while a run of another one writes the same tables."""

import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest
from fleet_lines import document, line_of

from featuregate.cli import main
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.stream.upkeep import compact
from featuregate_fleet.tables.folder import Tables
from featuregate_fleet.tables.line_counts import read_line_counts

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

ROUNDS = 4
RUN = "import sys; from featuregate.cli import main; sys.exit(main(sys.argv[1:]))"


def hand_in(logs: Path, name: str, lines: int) -> None:
    """Place a file of requests at once."""
    text = "".join(line_of(document(principal="User:bill", correlationId=each)) + "\n" for each in range(lines))
    (logs / "1").mkdir(parents=True, exist_ok=True)
    half = logs.parent / f"{name}.half"
    half.write_text(text)
    half.rename(logs / "1" / name)


def rows_of(progress: IO[str], rows: int) -> None:
    """Wait until a run has printed that it has so many rows; the timeout of the test bounds it."""
    for line in progress:
        if json.loads(line)["rows"] >= rows:
            return
    pytest.fail(f"the run ended before it had {rows} rows")


@pytest.mark.usefixtures("jvm")
def test_upkeep_goes_on_while_another_cluster_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither ends the other, no row is lost or doubled, and no file of the run is deleted before it is committed."""
    tables, other = ["--tables", str(tmp_path / "tables")], tmp_path / "other"
    hand_in(tmp_path / "mine", "0.log", 30)
    hand_in(other, "0.log", 10)
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "mine"), *tables, "--cluster", "mine"]) == 0
    run = ["fleet", "run", "--interval", "0.1", "--logs", str(other), *tables, "--cluster", "other"]
    forget = ["fleet", "forget", "--principal", "User:bill", *tables, "--cluster", "mine"]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *run, "--progress", "json"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        rows_of(process.stdout, 10)
        with local_session() as spark:
            mine = Tables(spark, tmp_path / "tables", "mine")
            for turn in range(1, ROUNDS + 1):
                hand_in(other, f"{turn}.log", 10)
                compact(mine, datetime.now(UTC))
            capsys.readouterr()
            assert main(forget) == 0
            (checksum,) = re.findall(r"--checksum (\w+)", capsys.readouterr().out)
            hand_in(other, f"{ROUNDS + 1}.log", 10)
            assert main([*forget, "--checksum", checksum]) == 0
            hand_in(other, f"{ROUNDS + 2}.log", 10)
            assert main(["fleet", "retain", "--days", "1", *tables, "--cluster", "mine"]) == 0
            (checksum,) = re.findall(r"--checksum (\w+)", capsys.readouterr().out)
            assert main(["fleet", "retain", "--days", "1", *tables, "--cluster", "mine", "--checksum", checksum]) == 0
            rows_of(process.stdout, 10 * (ROUNDS + 3))
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
            theirs = Tables(spark, tmp_path / "tables", "other")
            assert read_line_counts(theirs).rows == 10 * (ROUNDS + 3)
            used = theirs.read("api_usage").collect()
            assert sum(row["count"] for row in used) == 10 * (ROUNDS + 3)
            assert {row["principal"] for row in used} == {"User:bill"}
            assert mine.read("api_usage").count() == 0, "all of it is older than a day"
            assert len(list((tmp_path / "tables" / "api_usage" / "cluster=mine").glob("*.parquet"))) == 0


@pytest.mark.usefixtures("jvm")
def test_compact_prints_nothing(tmp_path: Path) -> None:
    """Delta Lake prints how many files it has deleted, to the output of the JVM."""
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "mine"]
    hand_in(tmp_path / "mine", "0.log", 3)
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "mine"), *place]) == 0
    compacting = [sys.executable, "-c", RUN, "fleet", "compact", *place]
    found = subprocess.run(compacting, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
