"""From the log of a real broker to verdicts, by the command line and through Spark."""

import gzip
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fleet_lines import read_line

from featuregate.cli import main
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


class Fleet(NamedTuple):
    """A folder of logs, and one of tables."""

    logs: Path
    tables: Path

    def arguments(self, action: str, *more: str) -> list[str]:
        command = [action] if action == "readiness" else ["fleet", action]
        return [*command, "--tables", str(self.tables), "--cluster", "orders", *more]

    def run(self) -> int:
        return main(self.arguments("run", "--once", "--logs", str(self.logs)))

    def readiness(self, capsys: pytest.CaptureFixture[str], *move: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        page = self.tables.parent / "report.html"
        code = main(self.arguments("readiness", *move, "--output", "json", "--html", str(page)))
        report = json.loads(capsys.readouterr().out)
        assert f": {report['verdict']}</title>" in page.read_text(encoding="utf-8")
        return code, report


@pytest.fixture
def fleet(tmp_path: Path, broker_log: Path) -> Fleet:
    """Put the log of the broker where it belongs: a part of it as it is, the rest compressed, and some garbage."""
    folder = tmp_path / "all [logs]" / "1"
    folder.mkdir(parents=True)
    lines = broker_log.read_bytes().splitlines(keepends=True)
    (folder / "server.log.1").write_bytes(b"".join(lines[:20]))
    (folder / "server.log.2.gz").write_bytes(gzip.compress(b"".join(lines[20:]))[:-999])  # a transfer was cut
    (folder / "garbage.log").write_bytes(b"\xff\xfe garbage\n\n" + b"x" * 100_000)
    return Fleet(tmp_path / "all [logs]", tmp_path / "all tables")


def restore(fleet: Fleet, log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    (fleet.logs / "1" / "server.log.2.gz").write_bytes(gzip.compress(b"".join(lines[20:])))


def requests_of(log: Path) -> Counter[tuple[Any, ...]]:
    found = [read_line(line) for line in log.read_text().splitlines()]
    return Counter(
        (read.client_id, read.software_name, read.api_key, read.version)
        for read in found
        if isinstance(read, LoggedRequest)
    )


def usage_in(fleet: Fleet) -> Counter[tuple[Any, ...]]:
    interrupted = signal.getsignal(signal.SIGINT)
    with local_session() as spark:
        rows = EvidenceTable(spark, fleet.tables, "orders").rows("usage").where("outcome = 'completed'").collect()
    assert signal.getsignal(signal.SIGINT) is interrupted, "Ctrl-C would reach the handler of a stopped Spark"
    total: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        total[row.client_id, row.software_name, row.api_key, row.version] += row["count"]
    return total


def reach_verdicts(fleet: Fleet, broker_log: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run twice, the second time with what a transfer had cut, and return the report."""
    code, report = fleet.readiness(capsys, "--to", "4.2")
    assert (code, report["verdict"], report["lines"]["read"]) == (3, "unknown", 0)

    assert fleet.run() == 2
    assert "1/server.log.2.gz: only its first lines (" in capsys.readouterr().err
    _, report = fleet.readiness(capsys, "--to", "3.9")
    (missing,) = [row for row in report["rows"] if row["check"] == "quarantine"]
    assert (missing["verdict"], missing["subject"]) == ("unknown", "requests of broker 1")
    assert "unreadable 1" in missing["why"]
    restore(fleet, broker_log)
    assert fleet.run() == 0
    code, report = fleet.readiness(capsys, "--to", "4.2")
    assert (code, report["verdict"]) == (1, "block")
    blocking = [row for row in report["rows"] if row["verdict"] == "block"]
    assert [(row["client_id"], row["api"], row["versions"], row["count"]) for row in blocking] == [
        ("ancient", "ListOffsets", [0], 1)
    ]
    assert {("audit", "ok"), ('bill"ing', "ok")} <= {(row["client_id"], row["verdict"]) for row in report["rows"]}
    (refused,) = [row for row in report["rows"] if row["check"] == "refused-requests"]
    assert (refused["subject"], refused["api"], refused["versions"]) == ("a client at 127.0.0.1", "Metadata", [99])
    lines = report["lines"]
    assert lines["read"] == len(broker_log.read_text().splitlines()) + 2, "the last line of the garbage has no end yet"
    assert lines["read"] == lines["rows"] + lines["quarantined"]
    assert usage_in(fleet) == requests_of(broker_log)
    return report


@pytest.mark.usefixtures("jvm")
def test_evidence_of_a_real_broker_becomes_verdicts(
    fleet: Fleet, broker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without evidence and with a part of it the verdict is unknown; with all, it names who uses what goes away."""
    reach_verdicts(fleet, broker_log, capsys)


@pytest.mark.usefixtures("jvm")
@pytest.mark.proof("fleet")
def test_verdicts_say_what_is_new_and_what_is_missing(
    fleet: Fleet, broker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each exit code once; a run with nothing new changes nothing, and what is appended is read."""
    report = reach_verdicts(fleet, broker_log, capsys)
    assert fleet.run() == 0
    again = fleet.readiness(capsys, "--to", "4.2")[1]
    assert again["lines"] == report["lines"]
    assert again["coverage"]["table_version"] == report["coverage"]["table_version"]

    later = broker_log.read_text().partition("\n")[2]
    with (fleet.logs / "1" / "garbage.log").open("ab") as file:
        file.write(b"appended\n")
    (fleet.logs / "1" / "later.log").write_text(later)
    assert fleet.run() == 0
    assert usage_in(fleet) == requests_of(broker_log) + requests_of(fleet.logs / "1" / "later.log")

    code, report = fleet.readiness(capsys, "--to", "3.9")
    assert (code, report["verdict"]) == (3, "unknown")  # the run did not ask the cluster for its levels
    code, report = fleet.readiness(capsys, "--drop-api", "Fetch<4", "--min-hours", "0")
    assert (code, report["verdict"]) == (0, "ok")
    (fleet.logs / "2").mkdir()
    assert fleet.run() == 0
    code, report = fleet.readiness(capsys, "--to", "3.9")
    assert (code, report["coverage"]["without_evidence"]) == (3, ["2"])
    assert main(fleet.arguments("readiness", "--to", "9.9")) == 64
    capsys.readouterr()
    assert main(["fleet", "tables", "--tables", str(fleet.tables)]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["CLUSTER", "VERSION", "BATCHES", "ROWS", "NAME"]
    assert row.startswith("orders ")
    assert " usage, " in row
    assert main(fleet.arguments("tidy", "--yes")) == 0
    assert usage_in(fleet) == requests_of(broker_log) + requests_of(fleet.logs / "1" / "later.log")
