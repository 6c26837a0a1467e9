"""Which tables there are, with their columns, and what the rows of an older release mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence import columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TABLES: Final = {
    "log_lines": columns.LOG_LINES,
    "api_usage": columns.API_USAGE,
    "quarantine": columns.QUARANTINE,
    "evidence_files": columns.EVIDENCE_FILES,
    "brokers": columns.BROKERS,
    "unread_files": columns.UNREAD_FILES,
    "coverage": columns.COVERAGE,
    "coordinator_records": columns.COORDINATOR_RECORDS,
    "coordinator_topics": columns.COORDINATOR_TOPICS,
    "cluster_views": columns.CLUSTER_VIEWS,
    "feature_levels": columns.FEATURE_LEVELS,
    "feature_usage": columns.FEATURE_USAGE,
    "usage_topics": columns.USAGE_TOPICS,
    "readiness": columns.READINESS,
}

ENDS: Final = {"api_usage": "hour + make_interval(0, 0, 0, 0, hours)", "coverage": "taken_at + interval 1 microsecond"}
"""The tables of what happened in some hours, and not of what is there now, and when that ended."""

_BEFORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "api_usage": {"text_log": False, "hours": 1},
    "quarantine": {"time_zone": "UTC", "layout": "", "whole": False, "parser": 0, "lines": 1, "text_log": False},
}
"""What the rows of an older release mean where they lack a column; otherwise that is null."""


def whole(table: str) -> pa.Schema:
    """Return the columns of a table, with those that say who wrote a row."""
    schema = TABLES[table]
    for field in columns.ORIGIN:
        schema = schema.append(field)
    return schema


def migrated(table: str, rows: DataFrame) -> DataFrame:
    """Return the rows with all columns of this release, and with those of a newer one left out."""
    before = _BEFORE.get(table, {})
    columns_now = []
    for field in from_arrow_schema(whole(table)):
        found = f.col(field.name) if field.name in rows.columns else f.lit(None)
        known = f.coalesce(found, f.lit(before[field.name])) if field.name in before else found
        columns_now.append(known.cast(field.dataType).alias(field.name))
    return rows.select(columns_now)
