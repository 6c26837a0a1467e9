"""Reads which broker logged when, and at which level, into the evidence that checks take."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from featuregate_fleet.evidence.columns import ALL
from featuregate_fleet.readiness.evidence import BrokerLog, LogLevel
from featuregate_fleet.readiness.hours import ALL_REQUESTS, covered_seconds
from featuregate_fleet.tables.times import from_micros
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from featuregate_fleet.tables.folder import Tables

_MIDDLE: Final = 30
"""Minutes."""
_DEPRECATED: Final = "INFO"
"""The level at which brokers log deprecated requests alone."""


class LoggedRequests(NamedTuple):
    """The requests that brokers logged, as `featuregate_fleet.readiness.evidence.Evidence` has them."""

    brokers: Mapping[str, BrokerLog]
    hourly: Mapping[str, Mapping[datetime, int]]
    deprecated: Mapping[str, Mapping[datetime, int]]


def logged_requests(tables: Tables) -> LoggedRequests:
    """Count the completed requests by broker and hour: those of logs with all requests, and the deprecated ones."""
    # Of a day that has daily rows, each hour has one of its own.
    by_hour = tables.read("api_usage").where(f"outcome = '{ALL}' or outcome = 'completed' and hours = 1")
    lines = by_hour.where(f.col("level").isin(*ALL_REQUESTS, _DEPRECATED))
    counted = lines.groupBy(
        (f.col("level") == _DEPRECATED).alias("deprecated"), "broker", f.unix_micros("hour").alias("hour")
    ).agg(
        f.sum("count").alias("requests"),
        f.unix_micros(f.min("first_seen")).alias("first_seen"),
        f.unix_micros(f.max("last_seen")).alias("last_seen"),
    )
    requests: dict[bool, dict[str, dict[datetime, int]]] = {kind: defaultdict(dict) for kind in (False, True)}
    seen: dict[str, dict[datetime, tuple[datetime, datetime]]] = defaultdict(dict)
    # Brokers times hours are some hundred thousands: rows of Arrow take a tenth of the time that rows of Spark take.
    columns = (column.to_pylist() for column in to_arrow(counted).columns)
    for deprecated, broker, hour, count, first, last in zip(*columns, strict=True):
        at = from_micros(hour)
        requests[deprecated][broker][at] = count
        if not deprecated:
            seen[broker][at] = from_micros(first), from_micros(last)
    brokers = {broker: _log(sum(hours.values()), seen[broker]) for broker, hours in requests[False].items()}
    return LoggedRequests(brokers, hourly=requests[False], deprecated=requests[True])


def _log(requests: int, seen: Mapping[datetime, tuple[datetime, datetime]]) -> BrokerLog:
    return BrokerLog(
        hours=len(seen),
        requests=requests,
        first_seen=min(first for first, _ in seen.values()),
        last_seen=max(last for _, last in seen.values()),
        covered_seconds=covered_seconds(seen),
    )


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
