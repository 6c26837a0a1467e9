"""The one commit of a batch: all of it or nothing, wherever a run ends, and whoever else commits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from fleet_batches import rows_of, two_commit_a_number
from fleet_lines import read_line

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.runs import ingestion as module
from featuregate_fleet.runs.ingestion import Ingestion, Inputs
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


class EndingTable(EvidenceTable):
    """A table whose process ends before its commit, or after it."""

    committed = False

    def append(self, rows: DataFrame, number: int) -> pa.Table:
        if self.committed:
            super().append(rows, number)
        raise EOFError("the process ends")


class CommittedTable(EndingTable):
    """A table whose process ends after its commit."""

    committed = True


class OnceAskedTable(EvidenceTable):
    """A table that is asked once what was read."""

    asked = 0

    def pinned(self) -> OnceAskedTable:
        OnceAskedTable.asked += 1
        return super().pinned()


def run(spark: SparkSession, table: EvidenceTable, logs: Path) -> Ingestion:
    found = Ingestion(spark, table, Inputs(cluster="c", logs=logs), lambda _: None)
    found.read(None)
    return found


def counts(table: EvidenceTable) -> tuple[int, int, tuple[int, int, int]]:
    requests = sum(row["count"] for row in table.rows("usage").collect())
    files = table.rows("source").collect()
    read, rows, quarantined = (sum(file[name] for file in files) for name in ("read", "rows", "quarantined"))
    return requests, table.rows("quarantine").count(), (read, rows, quarantined)


@pytest.fixture
def requests(broker_log: Path) -> list[str]:
    lines = broker_log.read_text().splitlines(keepends=True)
    return [line for line in lines if isinstance(read_line(line.rstrip("\n")), LoggedRequest)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs" / "1").mkdir(parents=True)
    return tmp_path / "logs" / "1" / "kafka-request.log.1"


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("ending", [EndingTable, CommittedTable])
def test_a_run_that_ends_at_its_commit_is_finished_by_the_next_one(
    tmp_path: Path, log: Path, requests: list[str], ending: type[EndingTable]
) -> None:
    """Each line is there once: without the commit nothing is, and with it all is."""
    log.write_text("".join(["garbage\n", *requests, "garbage\n"]))
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        with pytest.raises(EOFError):
            run(spark, ending(spark, tmp_path / "tables", "c"), log.parents[1])
        assert (table.version() is not None) is ending.committed
        run(spark, table, log.parents[1])
        assert counts(table) == (len(requests), 2, (len(requests) + 2, len(requests), 2))
        assert table.rows("run").count() == 1


@pytest.mark.usefixtures("jvm")
def test_a_run_that_goes_on_asks_the_table_once_and_joins_its_files(
    tmp_path: Path, log: Path, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch costs what is new. Nothing new is no batch, and readers open few files."""
    monkeypatch.setattr(module, "_JOINED_EACH", 3)
    with local_session() as spark:
        table = OnceAskedTable(spark, tmp_path / "tables", "c")
        ingestion = Ingestion(spark, table, Inputs(cluster="c", logs=log.parents[1]), lambda _: None)
        for number in range(1, 4):
            log.with_suffix(f".{number}").write_text("".join([f"{number}\n", *requests]))
            read = ingestion.read(None)
            lines = len(requests) + 1
            assert (read.files, read.read, read.totals.read) == (1, lines, number * lines)
            assert ingestion.read(None).read == 0
        assert OnceAskedTable.asked == 1
        assert counts(table)[0] == 3 * len(requests)
        assert table.rows("run").count() == 3
        assert table.size()[0] == len({"usage", "hour", "quarantine", "source", "run"})


@pytest.mark.usefixtures("jvm")
def test_of_two_that_commit_a_number_one_is_told_that_it_is_taken(tmp_path: Path) -> None:
    """By the exception of Delta Lake where the other one was at work, and where it leaves a batch out in silence."""
    with local_session() as spark:
        two_commit_a_number(spark, tmp_path)


class OvertakenTable(EvidenceTable):
    """A table to which another process commits before each of the first batches."""

    overtaken = 0

    def append(self, rows: DataFrame, number: int) -> pa.Table:
        OvertakenTable.overtaken += 1
        if OvertakenTable.overtaken <= 2:
            logs = self.logs / f"other-{number}"
            EvidenceTable(self._spark, self.place, "c").append(rows_of(self._spark, logs.name), number)
        return super().append(rows, number)

    logs: Any
    place: Any


@pytest.mark.usefixtures("jvm")
def test_a_run_whose_number_is_taken_reads_what_is_left(
    tmp_path: Path, log: Path, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks again what was read. One that is never first says so."""
    monkeypatch.setattr(module, "_TRIES", 3)
    log.write_text("".join(requests))
    with local_session() as spark:
        table = OvertakenTable(spark, tmp_path / "tables", "c")
        table.logs, table.place = log.parents[1], tmp_path / "tables"
        run(spark, table, log.parents[1])
        assert sum(row["count"] for row in table.rows("usage").collect()) == len(requests)
        assert {row.batch for row in table.rows("run").collect()} == {0, 1, 2}
        OvertakenTable.overtaken = -100
        log.with_suffix(".2").write_text("".join(requests))
        with pytest.raises(TablesBroken, match="run one at a time"):
            run(spark, table, log.parents[1])
