"""Reads what the page draws over time: the versions that each software used, and finalized levels."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import and_, attrgetter
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from featuregate_fleet.evidence.columns import ALL
from featuregate_fleet.readiness.evidence import LevelAt, Usage, UsageAt
from featuregate_fleet.tables.times import EPOCH, from_micros

if TYPE_CHECKING:
    from collections.abc import Collection

    from featuregate_fleet.tables.coverage_reader import LoggedRequests
    from featuregate_fleet.tables.folder import Tables

WHO: Final = (
    "outcome", "forwarded", "principal", "client_id", "client_host", "listener", "software_name", "software_version",
    "api_key", "version", "text_log",
)  # fmt: skip
"""The columns by which usage differs for verdicts."""
_FEW: Final = {"outcome": ("'completed'", "'refused'"), "forwarded": ("false", "true"), "text_log": ("false", "true")}
"""Columns of ``api_usage`` with two values, in SQL, or null."""
_STRINGS_AND_NUMBERS: Final = tuple(sorted(set(WHO) - _FEW.keys()))
_OF_NODES: Final = ("listener", "principal", "client_id", "software_name", "api_key")
"""The columns by which requests of nodes differ from those of clients."""
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_DAYS: Final = 30
_DAYS_IN_HOURS: Final = 4
"""Evidence of up to this many days is counted by the hour, and by the day otherwise."""


def usage_by_time(tables: Tables, logged: LoggedRequests) -> DataFrame:
    """Add up the rows of ``api_usage`` by client and version, and by the day or hour of the last 30 days.

    ``at`` is where these begin, in microseconds since 1970, and null for the days before. What is read of clients is
    made from this: the table may have millions of rows.
    """
    rows = tables.read("api_usage").where(f"outcome <> '{ALL}'")
    hours = [hour for of_level in (logged.hourly, logged.deprecated) for seen in of_level.values() for hour in seen]
    first, step = EPOCH, _DAY
    if hours:
        first = max(min(hours), max(hours) - _DAYS * _DAY)
        step = _HOUR if max(hours) - first <= _DAYS_IN_HOURS * _DAY else _DAY
    micros = step // timedelta(microseconds=1)
    since = (first - EPOCH) // step
    # Whole numbers: to cut a time to its day, by the rules of time zones, takes as long as to add a row up.
    number = f.expr(f"cast(unix_micros(hour) div {micros} as int)")
    timed = rows.withColumns({"few": f.expr(_packed()), "at": f.when(number >= since, number)})
    added = timed.groupBy("few", "at", *_STRINGS_AND_NUMBERS).agg(
        f.sum("count").alias("count"), f.min("first_seen").alias("first_seen"), f.max("last_seen").alias("last_seen")
    )
    return added.withColumns(_unpacked() | {"at": f.col("at").cast("long") * micros}).drop("few")


def _packed() -> str:
    """Return the columns of few values as one number: a key of many columns is copied and hashed for each row."""
    return " + ".join(
        f"case {name} when {one} then {3**place} when {other} then {2 * 3**place} else 0 end"
        for place, (name, (one, other)) in enumerate(_FEW.items())
    )


def _unpacked() -> dict[str, Column]:
    return {
        name: f.expr(f"case few div {3**place} % 3 when 1 then {one} when 2 then {other} end")
        for place, (name, (one, other)) in enumerate(_FEW.items())
    }


def usage_over_time(by_time: DataFrame, nodes: Collection[Usage] = ()) -> tuple[UsageAt, ...]:
    """Count the requests of the last 30 days of evidence by software, API version and hour or day.

    Those of brokers and controllers, ``nodes``, are left out.
    """
    clients = by_time.where("outcome = 'completed' and not coalesce(forwarded, false) and at is not null")
    counted = (
        _named(_without(nodes, clients))
        .groupBy("software", "api_key", "version", "at")
        .agg(f.sum("count").alias("count"))
    )
    return tuple(
        UsageAt(row["software"], row["api_key"], row["version"], from_micros(row["at"]), row["count"])
        for row in counted.collect()
    )


def _without(nodes: Collection[Usage], lines: DataFrame) -> DataFrame:
    if not nodes:
        return lines
    wanted = lines.select(*_OF_NODES)
    known = lines.sparkSession.createDataFrame(
        sorted({attrgetter(*_OF_NODES)(usage) for usage in nodes}, key=str), wanted.schema
    )
    same = reduce(and_, (lines[name].eqNullSafe(known[name]) for name in _OF_NODES))
    return lines.join(f.broadcast(known), same, "left_anti")


def _named(lines: DataFrame) -> DataFrame:
    """Add the software; a client that says one software on some connections from a host has it on all of them."""
    said = f.nullif(f.concat_ws(" ", "software_name", "software_version"), f.lit(""))
    of_client = Window.partitionBy("principal", "client_id", "client_host")
    known = lines.withColumn("said", said)
    first, last = f.min("said").over(of_client), f.max("said").over(of_client)
    return known.withColumn("software", f.coalesce("said", f.when(first == last, first), f.lit("")))


def levels_over_time(tables: Tables) -> tuple[LevelAt, ...]:
    """Return the level of each feature when it was first seen, and whenever it had changed, the oldest first."""
    seen = tables.read("feature_levels").groupBy(f.unix_micros("taken_at").alias("at"), "feature")
    before = Window.partitionBy("feature").orderBy("at")
    levels = seen.agg(f.max("level").alias("level"))
    levels = levels.withColumn("place", f.row_number().over(before)).withColumn("last", f.lag("level").over(before))
    changed = levels.where("place = 1 or not level <=> last")
    rows = changed.orderBy("at", "feature").collect()
    return tuple(LevelAt(row["feature"], row["level"], from_micros(row["at"])) for row in rows)
