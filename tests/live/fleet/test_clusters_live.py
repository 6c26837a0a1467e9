"""Several clusters of one file, side by side in one Spark."""

import json
import shutil
from pathlib import Path

import pytest
from fleet_lines import document, line_of

from featuregate.cli import main
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import Tables
from featuregate_fleet.tables.line_counts import read_line_counts

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

FILE = """
tables = "tables"
[clusters.old]
logs = "old"
[clusters.new]
logs = "new"
[clusters.gone]
logs = "gone"
"""


def lines(version: int, count: int) -> str:
    """Return requests of one client."""
    return "".join(line_of(document(requestApiVersion=version, correlationId=each)) + "\n" for each in range(count))


@pytest.mark.usefixtures("jvm")
def test_a_cluster_that_fails_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines name it, the exit code is 2, and the rows of the others are as if they were read alone."""
    file = tmp_path / "fleet.toml"
    file.write_text(FILE)
    for name, version, count in (("old", 1, 30), ("new", 12, 70)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "a.log").write_text(lines(version, count))
    run = ["fleet", "run", "--once", "--config", str(file), "--progress", "json"]
    assert main(run) == 2
    said = capsys.readouterr()
    counts = {each["cluster"]: each["rows"] for each in map(json.loads, said.out.splitlines())}
    assert counts == {"old": 30, "new": 70}
    assert "gone: --logs" in said.err
    assert "1 of 3 clusters failed: gone" in said.err

    shutil.copytree(tmp_path / "old", tmp_path / "gone")
    assert main(run) == 0
    counts = {each["cluster"]: each["rows"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert counts == {"old": 30, "new": 70, "gone": 30}

    page = tmp_path / "clusters.html"
    ask = ["fleet", "readiness", "--config", str(file), "--to", "4.2", "--min-hours", "0"]
    assert main([*ask, "--html", str(page), "--stale-after", "10000000"]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows if row and row[0] in {"block", "unknown"}] == ["gone", "old", "new"]
    assert page.read_text().count('<li class="block">') == 2
    assert main([*ask, "--cluster", "new"]) == 3

    (tmp_path / "tables" / "api_usage" / "_delta_log" / "00000000000000000000.json").write_text("{")
    assert main(ask) == 2
    assert "3 clusters" in capsys.readouterr().out


@pytest.mark.usefixtures("jvm")
def test_clusters_write_the_same_tables_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No commit of one makes that of another one fail, also not the first ones, which make the tables."""
    names = [f"c{number}" for number in range(6)]
    for name in names:
        (tmp_path / name / "1").mkdir(parents=True)
    file = tmp_path / "fleet.toml"
    file.write_text('tables = "tables"\n' + "".join(f'[clusters.{name}]\nlogs = "{name}"\n' for name in names))
    for turn in range(2):
        for number, name in enumerate(names):
            (tmp_path / name / "1" / f"{turn}.log").write_text(lines(12, 10 + number))
        assert main(["fleet", "run", "--once", "--config", str(file), "--parallel", "6"]) == 0
    with local_session() as spark:
        for number, name in enumerate(names):
            assert read_line_counts(Tables(spark, tmp_path / "tables", name)).rows == 2 * (10 + number)
    capsys.readouterr()
    ask = ["fleet", "tables", "--tables", str(tmp_path / "tables"), "--output", "json"]
    for cluster, files in (([], 12), (["--cluster", "c1"], 2)):
        assert main([*ask, *cluster]) == 0
        listed = {each["table"]: each["rows"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
        assert listed["evidence_files"] == files
