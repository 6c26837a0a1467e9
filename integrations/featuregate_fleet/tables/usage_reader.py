"""Reads the usage reports of apps into the evidence that checks take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate_fleet.evidence.reasons import OTHER_CLUSTER
from featuregate_fleet.readiness.evidence import AppUsage, GateUse
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables

__all__ = ["read_app_usage"]

_SILENT: Final = "interval 10 minutes"
"""An instance that has been silent for so long, while others of its app report, does not count any more."""


def read_app_usage(tables: Tables) -> AppUsage | None:
    """Return what the apps said last of each gate; None if no topic was ever read."""
    if tables.version("usage_topics") is None:
        return None
    sums = [f.sum(name).alias(name) for name in ("read", "rows", "quarantined")]
    counts = tables.read("usage_topics").agg(*sums).collect()[0]
    places = tables.read("usage_topics").select(f.concat_ws("/", "topic", "partition").alias("path")).distinct()
    lost = tables.read("quarantine").where(f.col("reason") != OTHER_CLUSTER).join(places, "path", "left_semi").count()
    usage = tables.read("feature_usage")
    newest = Window.partitionBy("app", "instance")
    newest_of_app = Window.partitionBy("app")
    last = usage.withColumn("newest", f.max("last_seen").over(newest)).where("last_seen = newest")
    current = last.withColumn("newest_of_app", f.max("last_seen").over(newest_of_app)).where(
        f.col("last_seen") >= f.col("newest_of_app") - f.expr(_SILENT)
    )
    found = current.groupBy("app", "gate", "requirement", "policy").agg(
        f.sort_array(f.collect_set(f.concat_ws(" ", "software_name", "software_version"))).alias("software"),
        f.sort_array(f.collect_set("state")).alias("states"),
        f.max("latched").alias("latched"),
        f.max_by("levels", "last_seen").alias("levels"),
        f.countDistinct("instance").alias("instances"),
        f.min("closing").alias("closed"),
        f.sum("count").alias("count"),
        f.unix_micros(f.min("first_seen")).alias("first_seen"),
        f.unix_micros(f.max("last_seen")).alias("last_seen"),
    )
    return AppUsage(
        gates=tuple(_gate(row) for row in found.collect()),
        read=counts["read"] or 0,
        rows=counts["rows"] or 0,
        quarantined=counts["quarantined"] or 0,
        unread=lost,
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
    )
