"""Reads the records of coordinators into the evidence that checks take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import RecordUse
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_ALIKE: Final = (
    "topic", "record_type", "kind", "version", "reason", "group", "protocol", "transactional_id", "state",
    "tagged_fields", "model", "current",
)  # fmt: skip


def record_uses(table: EvidenceTable) -> tuple[RecordUse, ...]:
    """Count the keys of each group and transactional id; a record is current if it is the last one of its key."""
    newest = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    records = table.rows("record").withColumn("current", f.col("offset") == newest)
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
