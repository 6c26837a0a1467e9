"""Logs that are rotated by numbers: each line is read once, whatever the name of its file."""

import gzip
from pathlib import Path

import pytest
from fleet_lines import document, line_of

from featuregate.cli import main
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

EVER = ("--stale-after", "1000000")
"""The lines have a date of their own."""

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), pytest.mark.proof("fleet")]


def lines(client: str, version: int, first: int, count: int) -> str:
    """Return requests of a client, each with its own time."""
    made = document(clientId=client, requestApiVersion=version)
    times = (f"[2026-11-22 21:{second // 60:02}:{second % 60:02},000] DEBUG" for second in range(first, first + count))
    return "".join(f"{line_of(made, time)}\n" for time in times)


@pytest.mark.usefixtures("jvm")
def test_a_rotation_by_numbers_reads_each_line_once(tmp_path: Path) -> None:
    """A file is renamed, another one gets its name, the live log grows and is renamed, and the oldest is compressed."""
    folder = tmp_path / "logs" / "1"
    folder.mkdir(parents=True)
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]

    def counts() -> dict[str, int]:
        assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]) == 0
        with local_session() as spark:
            rows = EvidenceTable(spark, tmp_path / "tables", "c").rows("usage").groupBy("client_id").sum("count")
            return {row[0]: row[1] for row in rows.collect()}

    (folder / "log.1").write_text(lines("a", 16, 0, 200))
    (folder / "log").write_text(lines("b", 16, 200, 100))
    assert counts() == {"a": 200, "b": 100}
    (folder / "log.1").rename(folder / "log.2")
    with (folder / "log").open("a") as live:
        live.write(lines("b", 16, 300, 50))
    (folder / "log").rename(folder / "log.1")
    (folder / "log").write_text(lines("old", 1, 350, 79))
    assert counts() == {"a": 200, "b": 150, "old": 79}
    (folder / "log.3.gz").write_bytes(gzip.compress((folder / "log.2").read_bytes()))
    (folder / "log.1").rename(folder / "log.2")
    (folder / "log").rename(folder / "log.1")
    assert counts() == {"a": 200, "b": 150, "old": 79}
    assert main(["fleet", "readiness", "--drop-api", "Fetch<4", *EVER, *place]) == 1


@pytest.mark.usefixtures("jvm")
def test_short_and_damaged_files_that_got_the_name_of_another_one_are_read(tmp_path: Path) -> None:
    """A request of an old client blocks, also in a file of one line; damage is unknown."""
    log = tmp_path / "logs" / "1" / "log.1"
    log.parent.mkdir(parents=True)
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    verdict = ["fleet", "readiness", "--drop-api", "Fetch<4", "--min-hours", "0", *EVER, *place]

    def run(code: int = 0) -> None:
        assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]) == code

    log.write_text(lines("a", 16, 0, 1))
    run()
    assert main(verdict) == 0
    log.write_bytes(gzip.compress(lines("b", 16, 1, 2).encode())[:-9])
    run(2)
    assert main(verdict) == 3
    log.write_text(lines("old", 1, 350, 1))
    run()
    assert main(verdict) == 1


@pytest.mark.usefixtures("jvm")
def test_runs_while_gzip_works_miss_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rotation at each full hour compresses the log that a run at each full hour reads."""
    folder = tmp_path / "logs" / "1"
    folder.mkdir(parents=True)
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]
    whole = lines("app", 16, 0, 1000).encode()
    packed = gzip.compress(whole)
    (folder / "log").write_bytes(whole)
    (folder / "log.gz").write_bytes(packed[: len(packed) // 2])
    for _ in range(2):
        assert main(run) == 0
    (folder / "log.gz").write_bytes(packed)
    (folder / "log").unlink()
    assert main(run) == 0
    assert capsys.readouterr().err == ""
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        (found,) = table.rows("usage").groupBy("client_id").sum("count").collect()
    assert tuple(found) == ("app", 1000)
