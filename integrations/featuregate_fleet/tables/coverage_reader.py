"""Reads which broker logged when, and at which level, into the evidence that checks take."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import BrokerLog, LogLevel
from featuregate_fleet.readiness.hours import ALL_REQUESTS, covered_seconds
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_DEPRECATED: Final = "INFO"
"""The level at which brokers log deprecated requests alone."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR: Final = 3_600_000_000
"""Microseconds."""


class BrokerHours(NamedTuple):
    """What brokers logged, and what they say of it, as `featuregate_fleet.readiness.evidence.Evidence` has it."""

    brokers: Mapping[str, BrokerLog]
    hourly: Mapping[str, Mapping[datetime, int]]
    deprecated: Mapping[str, Mapping[datetime, int]]
    log_levels: tuple[LogLevel, ...]


def logged_hours(table: EvidenceTable) -> BrokerHours:
    """Add up the completed requests of each broker and hour, and tell at which level it logged.

    Brokers are asked each minute. Of one broker, hour and level two answers are enough: the one that is nearest to the
    middle of the hour, which no clock can move into another one, and the last one.
    """
    rows = table.rows("hour").where(f.col("asked") | f.col("level").isin(*ALL_REQUESTS, _DEPRECATED))
    from_middle = f.abs(f.unix_micros("first_seen") % _HOUR - _HOUR // 2)
    added = rows.groupBy(
        "asked",
        f.when(f.col("asked"), f.col("level")).alias("level"),
        (f.col("level") == _DEPRECATED).alias("deprecated"),
        "broker",
        f.unix_micros("hour").alias("hour"),
    ).agg(
        f.sum("count").alias("requests"),
        f.unix_micros(f.min("first_seen")).alias("first_seen"),
        f.unix_micros(f.max("last_seen")).alias("last_seen"),
        f.unix_micros(f.min_by("first_seen", from_middle)).alias("in_middle"),
    )
    requests: dict[bool, dict[str, dict[datetime, int]]] = {kind: defaultdict(dict) for kind in (False, True)}
    seen: dict[str, dict[datetime, tuple[datetime, datetime]]] = defaultdict(dict)
    levels: set[tuple[int, str, str | None]] = set()
    # Brokers times hours are some hundred thousands: rows of Arrow take a tenth of the time that rows of Spark take.
    columns = (column.to_pylist() for column in to_arrow(added).columns)
    for asked, level, deprecated, broker, hour, count, first, last, in_middle in zip(*columns, strict=True):
        if asked:
            levels |= {(at, broker, level) for at in (in_middle, last)}
            continue
        at = from_micros(hour)
        requests[deprecated][broker][at] = requests[deprecated][broker].get(at, 0) + count
        if not deprecated:
            seen[broker][at] = from_micros(first), from_micros(last)
    return BrokerHours(
        {broker: _log(sum(hours.values()), seen[broker]) for broker, hours in requests[False].items()},
        hourly=requests[False],
        deprecated=requests[True],
        log_levels=tuple(
            LogLevel(broker=broker, level=level, taken_at=from_micros(at))
            for at, broker, level in sorted(levels, key=lambda one: (one[0], one[1], one[2] or ""))
        ),
    )


def from_micros(micros: int) -> datetime:
    """Return a time of ``unix_micros()``: Arrow makes times of some hundred thousand rows in ten times as long."""
    return _EPOCH + timedelta(microseconds=micros)


def _log(requests: int, seen: Mapping[datetime, tuple[datetime, datetime]]) -> BrokerLog:
    return BrokerLog(
        hours=len(seen),
        requests=requests,
        first_seen=min(first for first, _ in seen.values()),
        last_seen=max(last for _, last in seen.values()),
        covered_seconds=covered_seconds(seen),
    )
