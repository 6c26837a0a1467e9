"""Reads what runs saw in addition to lines and records: brokers, unread files, and what the cluster answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate.view.cluster_view import View
from featuregate_fleet.evidence.unread import UnreadFile
from featuregate_fleet.readiness.evidence import LevelAt
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from datetime import datetime

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_NEWEST = ("folders", "listed", "unread", "view")


class SeenByRuns(NamedTuple):
    """The newest of each, as `featuregate_fleet.readiness.evidence.Evidence` has it."""

    expected: frozenset[str]
    unread_files: tuple[UnreadFile, ...]
    view: View | None
    records_read: datetime | None


def seen_by_runs(table: EvidenceTable) -> SeenByRuns:
    """Return what the newest run saw of each: a run without logs says nothing of folders, and so on."""
    newest = [f.max_by(name, f.when(f.col(name).isNotNull(), f.col("batch"))).alias(name) for name in _NEWEST]
    read = f.unix_micros(f.max("records_read")).alias("records_read")
    row = table.rows("run").agg(*newest, read).collect()[0]
    return SeenByRuns(
        frozenset([*(row["folders"] or ()), *(row["listed"] or ())]),
        tuple(UnreadFile(*each) for each in row["unread"] or ()),
        View.from_json(row["view"]) if row["view"] else None,
        None if row["records_read"] is None else from_micros(row["records_read"]),
    )


def levels_over_time(table: EvidenceTable) -> tuple[LevelAt, ...]:
    """Return the level of each feature when it was first seen, and whenever it had changed, the oldest first."""
    asked = table.rows("run").where("asked_at is not null")
    seen = asked.select(f.unix_micros("asked_at").alias("at"), f.explode("levels").alias("one"))
    levels = seen.groupBy("at", "one.feature").agg(f.max("one.level").alias("level"))
    before = Window.partitionBy("feature").orderBy("at")
    levels = levels.withColumn("place", f.row_number().over(before)).withColumn("last", f.lag("level").over(before))
    changed = levels.where("place = 1 or not level <=> last")
    rows = changed.orderBy("at", "feature").collect()
    return tuple(LevelAt(row["feature"], row["level"], from_micros(row["at"])) for row in rows)
