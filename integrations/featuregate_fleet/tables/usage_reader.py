"""Reads the usage reports of apps into the evidence that checks take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import AppUsage, GateUse
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from featuregate_fleet.evidence.line_counts import LineCounts
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_SILENT: Final = "interval 10 minutes"
"""A report does not count any more when others of its app were read this much later."""


def read_app_usage(table: EvidenceTable, records: LineCounts, unread: int) -> AppUsage:
    """Return what the apps said last of each gate, with the counts of all records, and of those that were not read.

    Which reports count depends on when they were read, and not on their records' times: these are by default those of
    the clocks of apps, and a clock that is ahead would hide the reports of others. All reports of that time count
    together, because two discoverers of one process may have the same names.
    """
    of_app, of_gate = Window.partitionBy("app"), Window.partitionBy("app", "instance", "gate")
    timed = table.rows("app").withColumn("newest", f.max("written_at").over(of_app))
    current = timed.where(f.col("written_at") >= f.col("newest") - f.expr(_SILENT))
    ended = f.max_by("closing", "last_seen").over(of_gate)  # by the clock of one instance
    last_waits = f.max_by("waits", "last_seen").over(of_gate)
    is_held = f.col("last_waits") == "hold"
    found = (
        current.withColumn("ended", ended)
        .withColumn("last_waits", last_waits)
        .groupBy("app", "gate", "requirement", "policy")
        .agg(
            f.sort_array(f.collect_set(f.concat_ws(" ", "software_name", "software_version"))).alias("software"),
            f.sort_array(f.collect_set("state")).alias("states"),
            f.max("latched").alias("latched"),
            f.max_by("levels", "epoch").alias("levels"),
            f.countDistinct("instance").alias("instances"),
            f.countDistinct(f.when(is_held, f.col("instance"))).alias("held"),
            f.max("open_after").alias("open_after"),
            f.min("ended").alias("closed"),
            f.sum("count").alias("count"),
            f.unix_micros(f.min(f.least("first_seen", "written_at"))).alias("first_seen"),
            f.unix_micros(f.max(f.least("last_seen", "written_at"))).alias("last_seen"),
        )
    )
    return AppUsage(
        gates=tuple(_gate(row) for row in found.collect()),
        **records._asdict(),
        unread=unread,
    )


def _gate(row: Any) -> GateUse:
    return GateUse(
        app=row["app"],
        software=", ".join(row["software"]),
        gate=row["gate"],
        requirement=row["requirement"],
        policy=row["policy"],
        states=tuple(row["states"]),
        latched=bool(row["latched"]),
        levels=json.loads(row["levels"]) if row["levels"] else {},
        instances=row["instances"],
        closed=row["closed"],
        count=row["count"],
        first_seen=from_micros(row["first_seen"]),
        last_seen=from_micros(row["last_seen"]),
        held=row["held"],
        open_after=row["open_after"] or 0.0,
    )
