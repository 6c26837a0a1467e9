"""Reads the records of coordinators, and what brokers answered, into the evidence that checks take."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.evidence import RecordUse
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables

_ALIKE: Final = (
    "topic", "record_type", "kind", "version", "reason", "group", "protocol", "transactional_id", "state",
    "tagged_fields", "model", "current",
)  # fmt: skip


def last_view(tables: Tables) -> View | None:
    """Return what the brokers answered when they were asked last."""
    if tables.version("cluster_views") is None:
        return None
    rows = tables.read("cluster_views").orderBy(f.desc("taken_at")).select("view").head(1)
    return View.from_json(rows[0]["view"]) if rows else None


def records_read(tables: Tables) -> datetime | None:
    """Return when the records of coordinators were read last."""
    if tables.version("coordinator_topics") is None:
        return None
    last = tables.read("coordinator_topics").agg(f.unix_micros(f.max("taken_at")).alias("last")).collect()[0]["last"]
    return None if last is None else from_micros(last)


def record_uses(tables: Tables) -> tuple[RecordUse, ...]:
    """Count the keys of each group and transactional id; a record is current if it is the last one of its key."""
    if tables.version("coordinator_records") is None:
        return ()
    newest = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    records = tables.read("coordinator_records").withColumn("current", f.col("offset") == newest)
    counted = records.groupBy(*_ALIKE).agg(
        f.countDistinct("partition", "key").alias("count"),
        f.unix_micros(f.min("at")).alias("first_seen"),
        f.array_distinct(f.flatten(f.collect_list("members.client_id"))).alias("client_ids"),
    )
    return tuple(_use(row) for row in counted.collect())


def _use(row: Any) -> RecordUse:
    return RecordUse(
        **{name: row[name] for name in _ALIKE if name != "tagged_fields"},
        tagged_fields=tuple(row["tagged_fields"] or ()),
        client_ids=tuple(sorted(filter(None, row["client_ids"]))),
        count=row["count"],
        first_seen=from_micros(row["first_seen"]),
    )
