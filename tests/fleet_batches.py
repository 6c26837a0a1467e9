"""Batches of a test: what one part has is committed, as a run commits what all of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from featuregate_fleet.evidence.columns import rows_from
from featuregate_fleet.runs.last_run import LastRun
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_fleet.runs.parts import Part
    from featuregate_fleet.tables.evidence_table import EvidenceTable


def batches(table: EvidenceTable) -> int:
    """Return how many batches a table has: the number of the next one."""
    return LastRun.of(table).batch + 1


def commit(spark: SparkSession, table: EvidenceTable, part: Part) -> None:
    """Append what a part has as the next batch."""
    driver = [rows_from("run", [dict(part.run)]), rows_from("source", [dict(row) for row in part.sources])]
    rows = from_arrow(spark, pa.Table.from_batches(driver))
    table.append(rows if part.rows is None else part.rows.unionByName(rows), batches(table))
    part.check()
