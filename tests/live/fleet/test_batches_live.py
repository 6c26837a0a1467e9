"""The writes of one micro-batch: none that has nothing to say, and each once, wherever a run ends between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.lines.one_line import read_line
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.evidence.paths import log_file
from featuregate_fleet.files.pieces import Piece
from featuregate_fleet.stream.parsed import parse_files, write_parsed
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.stream.request_logs import drain
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.reader import read_evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


class EndsAt(NamedTuple):
    """Where a run ends."""

    table: str
    written: bool


class EndingTables(Tables):
    """Tables whose process ends before or after the write of one of them."""

    def __init__(self, spark: SparkSession, folder: Path, end: EndsAt) -> None:
        super().__init__(spark, folder, "c")
        self._end = end

    def append(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Write as ever, up to the end."""
        if table != self._end.table:
            super().append(table, rows, batch)
            return
        if self._end.written:
            super().append(table, rows, batch)
        raise EOFError(f"the run ends at {self._end}")


class UnaskedTables(Tables):
    """Tables that are not asked which files they have."""

    def read(self, table: str) -> DataFrame:
        """Read any other table."""
        assert table != "evidence_files"
        return super().read(table)


def counts(tables: Tables) -> tuple[int, int, tuple[int, int, int]]:
    """Return the requests, the lines in quarantine, and the counts of the files."""
    requests = sum(row["count"] for row in tables.read("api_usage").collect())
    files = tables.read("evidence_files").collect()
    read, rows, quarantined = (sum(file[name] for file in files) for name in ("read", "rows", "quarantined"))
    return requests, tables.read("quarantine").count(), (read, rows, quarantined)


def forget_commits(tables: Tables) -> None:
    """Lose what Spark knows of the micro-batches that it has finished."""
    for commit in (tables.checkpoint("request_logs") / "commits").iterdir():
        commit.unlink()


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
def test_a_quarantine_without_lines_takes_no_write(tmp_path: Path, log: Path, requests: list[str]) -> None:
    """Also not after a lost commit: the batch is in the tables."""
    log.write_text("".join(requests))
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        drain(spark, log.parents[1], tables)
        once = counts(tables)
        assert once == (len(requests), 0, (len(requests), len(requests), 0))
        assert tables.names() == ["api_usage", "evidence_files"]
        forget_commits(tables)
        drain(spark, log.parents[1], tables)
        assert counts(tables) == once
        assert tables.names() == ["api_usage", "evidence_files"]


PROOF = pytest.mark.proof("fleet")


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(EndsAt("api_usage", written=True), marks=PROOF),
        pytest.param(EndsAt("quarantine", written=False), marks=PROOF),
        EndsAt("quarantine", written=True),  # two tables have their rows already, and the third has none
        pytest.param(EndsAt("evidence_files", written=False), marks=PROOF),
        pytest.param(EndsAt("evidence_files", written=True), marks=PROOF),
    ],
    ids=str,
)
def test_a_run_that_ends_between_two_writes_is_finished_by_the_next_one(
    tmp_path: Path, log: Path, requests: list[str], end: EndsAt
) -> None:
    """Lines in quarantine are there once, too."""
    log.write_text("".join(["garbage\n", *requests, "garbage\n"]))
    with local_session() as spark:
        with pytest.raises(TablesBroken):
            drain(spark, log.parents[1], EndingTables(spark, tmp_path / "tables", end))
        tables = Tables(spark, tmp_path / "tables", "c")
        drain(spark, log.parents[1], tables)
        assert counts(tables) == (len(requests), 2, (len(requests) + 2, len(requests), 2))


@pytest.mark.usefixtures("jvm")
@pytest.mark.proof("fleet")
def test_a_run_that_goes_on_does_not_ask_again_which_files_were_read(
    tmp_path: Path, log: Path, requests: list[str]
) -> None:
    """A trigger costs what is new: files that come later are read, and those of before only once."""
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        files = ReadFiles.of(tables)
        for number in range(1, 4):
            log.with_suffix(f".{number}").write_text("".join(requests))
            drain(spark, log.parents[1], UnaskedTables(spark, tmp_path / "tables", "c"), files=files)
            lines = number * len(requests)
            assert counts(tables) == (lines, 0, (lines, lines, 0))
        with log.with_suffix(".1").open("a") as file:
            file.write("more")
        assert files.changed(log.parents[1]) == [f"1/{log.stem}.1"]


@pytest.mark.usefixtures("jvm")
def test_a_log_at_trace_has_all_requests(tmp_path: Path, log: Path, requests: list[str]) -> None:
    """Old brokers with their logger at TRACE write the lines at that level."""
    at_debug = [line for line in requests if " DEBUG Completed" in line]
    log.write_text("".join(at_debug).replace(" DEBUG Completed", " TRACE Completed"))
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        drain(spark, log.parents[1], tables)
        evidence = read_evidence(tables)
    assert evidence.brokers["1"].requests == sum(evidence.hourly["1"].values()) == len(at_debug)


@pytest.mark.proof("fleet")
@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("older", [False, True])
def test_a_micro_batch_now_and_then_joins_the_files_of_the_list(
    tmp_path: Path, log: Path, requests: list[str], *, older: bool
) -> None:
    """Each run reads the whole list. A table of a release that had no partitions takes the rows as ever."""
    log.write_text("".join(requests))
    place = str(tmp_path / "tables" / "evidence_files")
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        pieces = [Piece(log_file(str(log.parents[1]), log.as_uri(), log.stat().st_size))]
        files = []
        for number in range(60, 65):
            write_parsed(parse_files(spark, pieces), tables, BatchId("query", number))
            files.append(len(spark.read.format("delta").load(place).inputFiles()))
            if older and number == 60:
                whole = spark.read.format("delta").load(place).write.format("delta").mode("overwrite")
                whole.option("overwriteSchema", "true").partitionBy().save(place)
        assert files == ([1, 2, 3, 4, 5] if older else [1, 2, 3, 1, 2])
        assert counts(tables)[2] == (5 * len(requests), 5 * len(requests), 0)
