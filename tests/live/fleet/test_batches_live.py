"""The one commit of a batch: all of it or nothing, wherever a run ends, and whoever else commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.sql.pandas.types import from_arrow_schema
from waiting import eventually

from featuregate_fleet.errors import BatchTaken, TablesBroken
from featuregate_fleet.evidence.columns import ROWS, rows_from
from featuregate_fleet.evidence.lines.one_line import read_line
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.runs import ingestion as module
from featuregate_fleet.runs.ingestion import Ingestion, Inputs
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


class EndingTable(EvidenceTable):
    """A table whose process ends before its commit, or after it."""

    committed = False

    def append(self, rows: DataFrame, number: int) -> pa.Table:
        """Commit, where the process ends afterwards."""
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
        """Count."""
        OnceAskedTable.asked += 1
        return super().pinned()


def run(spark: SparkSession, table: EvidenceTable, logs: Path) -> Ingestion:
    """Read what is there."""
    found = Ingestion(spark, table, Inputs(cluster="c", logs=logs), lambda _: None)
    found.read(None)
    return found


def counts(table: EvidenceTable) -> tuple[int, int, tuple[int, int, int]]:
    """Return the requests, the lines in quarantine, and the counts of the files."""
    requests = sum(row["count"] for row in table.rows("usage").collect())
    files = table.rows("source").collect()
    read, rows, quarantined = (sum(file[name] for file in files) for name in ("read", "rows", "quarantined"))
    return requests, table.rows("quarantine").count(), (read, rows, quarantined)


@pytest.fixture
def requests(broker_log: Path) -> list[str]:
    """Return lines with requests of a real broker."""
    lines = broker_log.read_text().splitlines(keepends=True)
    return [line for line in lines if isinstance(read_line(line.rstrip("\n")), LoggedRequest)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where the log of a broker is."""
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
def test_a_log_at_trace_has_all_requests(tmp_path: Path, log: Path, requests: list[str]) -> None:
    """Old brokers with their logger at TRACE write the lines at that level."""
    at_debug = [line for line in requests if " DEBUG Completed" in line]
    log.write_text("".join(at_debug).replace(" DEBUG Completed", " TRACE Completed"))
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        run(spark, table, log.parents[1])
        evidence = read_evidence(table)
    assert evidence.brokers["1"].requests == sum(evidence.hourly["1"].values()) == len(at_debug)


def rows_of(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of a batch that has read one file."""
    source = {"source": path, "input": "logs", "path": path, "uri": f"file:///{path}"}
    return from_arrow(spark, pa.Table.from_batches([rows_from("source", [source]), rows_from("run", [{}])]))


def waiting_rows(spark: SparkSession, path: str, begun: Path, goes_on: Path) -> DataFrame:
    """Return such rows, of which the task waits for a file once it has begun."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time  # noqa: PLC0415 - in a worker

        begun.touch()
        while not goes_on.exists():
            time.sleep(0.05)
        yield from batches

    return rows_of(spark, path).coalesce(1).mapInArrow(wait, from_arrow_schema(ROWS))


@pytest.mark.usefixtures("jvm")
def test_of_two_that_commit_a_number_one_is_told_that_it_is_taken(tmp_path: Path) -> None:
    """By the exception of Delta Lake where the other one was at work, and where it leaves a batch out in silence."""
    begun, goes_on, raised = tmp_path / "begun", tmp_path / "goes_on", list[BaseException]()
    with local_session() as spark, ExitStack() as stack:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        table.append(rows_of(spark, "first"), 0)
        late = waiting_rows(spark, "late", begun, goes_on)

        def append() -> None:
            try:
                table.append(late, 1)
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                raised.append(error)

        thread: Thread = InheritableThread(target=append)
        stack.callback(thread.join, 240)
        stack.callback(goes_on.touch)
        thread.start()
        eventually(begun.exists, "the first writer has begun", 240)
        (row,) = table.append(rows_of(spark, "winner"), 1).to_pylist()
        assert row["path"] == "winner"
        goes_on.touch()
        thread.join(240)
        with pytest.raises(BatchTaken) as silent:
            table.append(rows_of(spark, "silent"), 1)
        assert [type(error) for error in raised] == [BatchTaken]
        assert raised[0].__cause__ is not None
        assert silent.value.__cause__ is None
        assert {row.path for row in table.rows("source").collect()} == {"first", "winner"}


class OvertakenTable(EvidenceTable):
    """A table to which another process commits before each of the first batches."""

    overtaken = 0

    def append(self, rows: DataFrame, number: int) -> pa.Table:
        """Let the other one be first."""
        OvertakenTable.overtaken += 1
        if OvertakenTable.overtaken <= 2:
            logs = self.logs / f"other-{number}"
            EvidenceTable(self._spark, self.place, "c").append(rows_of(self._spark, logs.name), number)
        return super().append(rows, number)

    logs: Any
    place: Any


@pytest.mark.usefixtures("jvm")
def test_a_run_whose_number_is_taken_reads_what_is_left(tmp_path: Path, log: Path, requests: list[str]) -> None:
    """It asks again what was read. One that is never first says so."""
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
