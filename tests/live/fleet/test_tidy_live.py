"""What tidying removes from a real table, what stays, and what a run that goes on meanwhile notices of it."""

import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleet_lines import document, line_of
from pyspark.sql import SparkSession

from featuregate_fleet.evidence.paths import LineCounts
from featuregate_fleet.runs.ingestion import Ingested, Ingestion, Inputs
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.tidying import FilesThere, Wanted, contents, has_read_any, plan, tidy

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

TOMORROW = datetime.now(UTC) + timedelta(days=1)
"""Before it, all rows are old that this test has written."""


@pytest.fixture
def spark(jvm: None) -> SparkSession:
    with local_session() as session:
        return session


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "logs" / "1").mkdir(parents=True)
    return tmp_path


def ingest(spark: SparkSession, place: Path) -> Ingested:
    said: list[str] = []
    return Ingestion(spark, table_in(spark, place), Inputs(cluster="c", logs=place / "logs"), said.append).read(None)


def table_in(spark: SparkSession, place: Path) -> EvidenceTable:
    return EvidenceTable(spark, place / "tables", "c")


def write(place: Path, name: str, lines: list[str], mode: str = "w") -> None:
    with (place / "logs" / "1" / name).open(mode) as log:
        log.write("".join(f"{line}\n" for line in lines))


def requests(client: str, count: int, at: str = "2026-11-22 21:08", **changed: Any) -> list[str]:
    return [line_of(document(clientId=client, **changed), f"[{at}:{each:02},000] DEBUG") for each in range(count)]


def rows(table: EvidenceTable, kind: str) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in table.rows(kind).collect()), key=str)


def parquet(place: Path) -> set[str]:
    return {path.name for path in (place / "tables" / "c").rglob("*.parquet") if "_delta_log" not in path.parts}


def of_table(table: EvidenceTable) -> set[str]:
    return {file.rpartition("/")[2] for file in table.files()}


def test_old_rows_go_and_how_far_files_are_read_stays(spark: SparkSession, place: Path) -> None:
    """What was shown goes, the totals stay, nothing is read twice, and no file keeps what is gone."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    write(place, "a.log", [*requests("old", 20), "garbage"])
    ingest(spark, place)
    for _ in range(3):
        write(place, "a.log", requests("new", 5, now), "a")
        before = ingest(spark, place)
    table, wanted = table_in(spark, place), Wanted(before=datetime.now(UTC) - timedelta(days=1))
    shown = plan(table, wanted)
    assert shown.deleted == {"usage": 1, "hour": 1}
    assert [row["number"] for row in numbered(table)] == [4]
    assert tidy(table, wanted).deleted == shown.deleted
    assert {row["client_id"] for row in rows(table, "usage")} == {"new"}
    assert parquet(place) == of_table(table)

    done = tidy(table, Wanted(before=TOMORROW))
    assert done.deleted["source"] == 3
    assert contents(table)[1] == {"source": 1, "run": 1}, "the newest run, and one row of the source"
    write(place, "a.log", requests("new", 4, now), "a")
    found = ingest(spark, place)
    assert (found.read, found.totals) == (
        4,
        LineCounts(*(old + new for old, new in zip(before.totals, (4, 4, 0), strict=True))),
    )
    assert done.files_after is not None
    assert done.files_after <= len({*contents(table)[1]})
    assert parquet(place) == of_table(table)


def numbered(table: EvidenceTable) -> list[Any]:
    return table.rows("source").groupBy("source").count().withColumnRenamed("count", "number").collect()


def test_files_that_are_gone_leave_the_table_with_their_counts_kept(spark: SparkSession, place: Path) -> None:
    """One row has the counts of all of them. What is still there, also under another name, is not read again."""
    for name, count in (("gone.log", 20), ("there.log", 21), ("renamed.log", 22)):
        write(place, name, requests(name, count))
    totals = ingest(spark, place).totals
    logs = place / "logs" / "1"
    (logs / "gone.log").unlink()
    (logs / "renamed.log").rename(logs / "other.log")
    assert ingest(spark, place).totals == totals
    table = table_in(spark, place)
    there = FilesThere(
        (place / "logs").as_uri(), frozenset((logs / name).as_uri() for name in ("there.log", "other.log"))
    )
    assert has_read_any(table, there)
    other = there._replace(uris=frozenset({(logs / "never").as_uri()}))
    assert not has_read_any(table, other), "of a file system that is not mounted, all files would be gone"
    tidy(table, Wanted(before=TOMORROW, there=FilesThere((place / "elsewhere").as_uri(), frozenset())))
    assert {row["path"] for row in rows(table, "source")} == {
        f"1/{name}.log" for name in ("gone", "there", "renamed", "other")
    }
    for _ in range(2):
        tidy(table, Wanted(before=TOMORROW, there=there))
        assert {row["path"]: row["read"] for row in rows(table, "source")} == {
            "": 42, "1/there.log": 21, "1/other.log": 0,
        }  # fmt: skip
    write(place, "there.log", requests("late", 3), "a")
    found = ingest(spark, place)
    assert (found.read, found.totals.read) == (3, 66)


def test_a_file_that_failed_is_still_known_as_failed(spark: SparkSession, place: Path) -> None:
    """The rest of it is missing evidence, whatever was read of it in the same batch."""
    (place / "logs" / "1" / "a.log.gz").write_bytes(b"\x1f\x8b broken")
    ingest(spark, place)
    table = table_in(spark, place)
    before = rows(table, "source")
    tidy(table, Wanted(before=TOMORROW))
    after = rows(table, "source")
    assert [row["reason"] for row in after] == ["unreadable"]
    assert after == before


BILL, BILLING = "User:bill", "User:billing"


def lines_of(principal: str, host: str) -> list[str]:
    """Return what a broker from 3.9 on logs of a principal whose request is refused: its name stands in other lines."""
    connection = f"127.0.0.1:9092-{host}:50000-0-1"
    asked = document(principal=principal, connection=connection, requestApiKey=18, requestApiKeyName="API_VERSIONS",
                     requestApiVersion=3, clientId=f"of-{principal}")  # fmt: skip
    used = document(principal=principal, connection=connection, clientId=f"of-{principal}")
    at = "[2026-11-22 21:08:40,000]"
    return [
        line_of(asked),
        line_of(used),
        f"{at} ERROR Closing socket for {connection} because of error (kafka.network.Processor)",
        (
            "org.apache.kafka.common.errors.InvalidRequestException: Received request api key METADATA with version 99 "
            "which is not enabled"
        ),
        f"{at} INFO Principal = {principal} is Denied (kafka.authorizer.logger)",
    ]


def test_one_principal_loses_its_names_and_another_one_that_begins_alike_keeps_them(
    spark: SparkSession, place: Path
) -> None:
    """With the address of its refused requests; neither the table nor the log of Delta Lake has a name any more."""
    write(place, "a.log", [*lines_of(BILL, "10.0.0.7"), *lines_of(BILLING, "10.0.0.8")])
    ingest(spark, place)
    table, wanted = table_in(spark, place), Wanted(principal=BILL)
    before = rows(table, "usage")
    refused = [row for row in before if row["outcome"] == "refused"]
    assert {row["connection"].split("-")[1] for row in refused} == {"10.0.0.7:50000", "10.0.0.8:50000"}
    shown = plan(table, wanted)
    assert shown.nameless == {"usage": 3, "quarantine": 1}
    assert tidy(table, wanted).nameless == shown.nameless
    left = [row for kind in ("usage", "quarantine") for row in rows(table, kind)]
    assert not any(re.search(r"User:bill\b", str(row)) or "10.0.0.7" in str(row) for row in left)
    others = [row for row in before if row["principal"] == BILLING or "10.0.0.8" in str(row)]
    assert len(others) == 3
    assert all(row in left for row in others)
    assert sum(row["count"] for row in rows(table, "usage")) == sum(row["count"] for row in before)
    assert plan(table, wanted).nameless == {}
    assert parquet(place) == of_table(table)
    told = b"".join(path.read_bytes() for path in (place / "tables").rglob("_delta_log/*.*"))
    assert b"MERGE" in told
    assert b"10.0.0.7" not in told
    assert not re.search(rb"User:bill\b", told)


def test_runs_and_tidyings_at_the_same_time_lose_and_double_nothing(spark: SparkSession, place: Path) -> None:
    """Each change is made on what there is when it is committed: totals stay, and each request is counted once."""
    write(place, "0.log", requests("c", 10))
    ingest(spark, place)
    failed: list[BaseException] = []

    def caught(work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise it to
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    far_past = datetime(2000, 1, 1, tzinfo=UTC)
    usage_stays = Wanted(before=far_past, principal="User:nobody")
    for turn in range(1, 4):
        write(place, f"{turn}.log", requests(f"c-{turn}", 10))
        both = [
            caught(lambda: ingest(spark, place)),
            caught(lambda: tidy(table_in(spark, place), usage_stays)),
            caught(lambda: tidy(table_in(spark, place), Wanted(principal="User:audit"))),
        ]
        for thread in both:
            thread.join()
    assert failed == []
    table = table_in(spark, place)
    assert ingest(spark, place).totals == LineCounts(40, 40, 0)
    assert sum(row["count"] for row in rows(table, "usage")) == 40
    threads = [caught(lambda: tidy(table_in(spark, place), Wanted(before=TOMORROW))) for _ in range(2)]
    for thread in threads:
        thread.join()
    assert failed == []
    assert ingest(spark, place).totals == LineCounts(40, 40, 0)
