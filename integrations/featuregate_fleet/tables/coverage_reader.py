"""Reads which broker logged when, and at which level, into the evidence that checks take."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import LogLevel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_fleet.tables.delta import DeltaTables

__all__ = ["hourly_requests", "log_levels"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def hourly_requests(tables: DeltaTables, level: str) -> Mapping[str, Mapping[datetime, int]]:
    """Return by broker the requests that it logged at a level, in each hour that has some."""
    lines = tables.read("api_usage").where((f.col("level") == level) & (f.col("outcome") == "completed"))
    counted = lines.groupBy("broker", f.unix_micros("hour").alias("hour")).agg(f.sum("count").alias("requests"))
    hourly: dict[str, dict[datetime, int]] = defaultdict(dict)
    for row in counted.collect():
        hourly[row["broker"]][_utc(row["hour"])] = row["requests"]
    return hourly


def log_levels(tables: DeltaTables) -> tuple[LogLevel, ...]:
    """Return the levels that brokers told, the oldest first."""
    told = tables.read("coverage").select("broker", "level", f.unix_micros("taken_at").alias("taken_at"))
    return tuple(
        LogLevel(broker=row["broker"], level=row["level"], taken_at=_utc(row["taken_at"]))
        for row in told.orderBy("taken_at").collect()
    )


def _utc(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
