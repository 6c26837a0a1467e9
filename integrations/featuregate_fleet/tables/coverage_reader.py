"""Reads which broker logged when, and at which level, into the evidence that checks take."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import LogLevel
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from featuregate_fleet.tables.folder import Tables

_MIDDLE: Final = 30
"""Minutes."""


def hourly_requests(tables: Tables, levels: Collection[str]) -> Mapping[str, Mapping[datetime, int]]:
    """Return by broker the requests that it logged at some levels, in each hour that has some."""
    lines = tables.read("api_usage").where(f.col("level").isin(*levels) & (f.col("outcome") == "completed"))
    counted = lines.groupBy("broker", f.unix_micros("hour").alias("hour")).agg(f.sum("count").alias("requests"))
    hourly: dict[str, dict[datetime, int]] = defaultdict(dict)
    for row in counted.collect():
        hourly[row["broker"]][from_micros(row["hour"])] = row["requests"]
    return hourly


def log_levels(tables: Tables) -> tuple[LogLevel, ...]:
    """Return the levels that brokers reported, the oldest first.

    A run without ``--once`` asks each minute. Of one broker, hour and level two answers are enough: the one that is
    nearest to the middle of the hour, which no clock can move into another one, and the last one.
    """
    told = tables.read("coverage").withColumn("hour", f.date_trunc("hour", "taken_at"))
    middle = f.abs(f.minute("taken_at") - _MIDDLE)
    times = f.array_distinct(f.array(f.min_by("taken_at", middle), f.max("taken_at")))
    kept = told.groupBy("broker", "hour", "level").agg(times.alias("times"))
    at = kept.select("broker", "level", f.explode("times").alias("at")).orderBy("at")
    return tuple(
        LogLevel(broker=row["broker"], level=row["level"], taken_at=from_micros(row["taken_at"]))
        for row in at.select("broker", "level", f.unix_micros("at").alias("taken_at")).collect()
    )
