"""Writes a report into the table of reports, so that people see how the answers to a question change."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import READINESS
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_fleet.tables.folder import BatchId, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_fleet.readiness.report import Report


def keep_report(spark: SparkSession, report: Report, tables: Tables) -> None:
    """Append the findings of a report, all at once.

    Raises
    ------
    TablesBroken
        The table cannot be written.
    """
    batch = BatchId(f"readiness {report.move.KIND} {report.move.target} {report.now.isoformat()}", 0)
    with one_line_failures("the report cannot be kept"):
        tables.append("readiness", spark.createDataFrame(report_rows(report), from_arrow_schema(READINESS)), batch)


def report_rows(report: Report) -> list[tuple[Any, ...]]:
    """Return the findings of a report as rows of the table ``readiness``."""
    asked = {
        "taken_at": report.now,
        "move": report.move.KIND,
        "target": report.move.target,
        "since": report.evidence.since,
        "evidence": json.dumps(dict(report.evidence.versions)),
        "report": str(report.verdict),
    }
    found = [{**asdict(row), **asked, "verdict": str(row.verdict)} for row in report.rows]
    return [tuple(row[name] for name in READINESS.names) for row in found]
