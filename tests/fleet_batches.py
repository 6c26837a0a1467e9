"""Batches of a test: what one part has is committed, as a run commits what all of them have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql.pandas.types import from_arrow_schema
from waiting import BOUND, eventually

from featuregate_fleet.errors import BatchTaken
from featuregate_fleet.evidence.columns import ROWS, rows_from
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.run_rows import runs_saw
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from featuregate_fleet.runs.known_sources import Part


def batches(table: EvidenceTable) -> int:
    return runs_saw(table).batch + 1


def commit(spark: SparkSession, table: EvidenceTable, part: Part) -> None:
    driver = [rows_from("run", [dict(part.run)]), rows_from("source", [dict(row) for row in part.sources])]
    rows = from_arrow(spark, pa.Table.from_batches(driver))
    table.append(rows if part.rows is None else part.rows.unionByName(rows), batches(table))


def rows_of(spark: SparkSession, path: str) -> DataFrame:
    source = {"source": path, "input": "logs", "path": path, "uri": f"file:///{path}"}
    return from_arrow(spark, pa.Table.from_batches([rows_from("source", [source]), rows_from("run", [{}])]))


def waiting_rows(spark: SparkSession, path: str, begun: Path, goes_on: Path) -> DataFrame:
    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        while not goes_on.exists():
            time.sleep(0.05)
        yield from batches

    return rows_of(spark, path).coalesce(1).mapInArrow(wait, from_arrow_schema(ROWS))


def refusal(table: EvidenceTable, rows: DataFrame, number: int) -> BatchTaken:
    try:
        table.append(rows, number)
    except BatchTaken as error:
        return error
    raise AssertionError("both have committed it")


def two_commit_a_number(spark: SparkSession, folder: Path) -> None:
    """Let two commit one batch: Delta Lake refuses the later one, or leaves it out without a word; both are told."""
    begun, goes_on, told = folder / "begun", folder / "goes_on", list[BatchTaken]()
    table = EvidenceTable(spark, folder / "taken", "c")
    table.append(rows_of(spark, "first"), 0)
    late = waiting_rows(spark, "late", begun, goes_on)
    thread: Thread = InheritableThread(target=lambda: told.append(refusal(table, late, 1)))
    thread.start()
    try:
        eventually(begun.exists, "the first writer has begun")
        (row,) = table.append(rows_of(spark, "winner"), 1).to_pylist()
        assert row["path"] == "winner"
    finally:
        goes_on.touch()
        thread.join(BOUND)
    told.append(refusal(table, rows_of(spark, "silent"), 1))
    assert [error.__cause__ is not None for error in told] == [True, False]
    assert {row.path for row in table.rows("source").collect()} == {"first", "winner"}
