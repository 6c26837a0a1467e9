"""Reads the requests of clients, and what the page draws of them over time: versions by software and day."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import and_, attrgetter
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import Usage, UsageAt
from featuregate_fleet.tables.times import EPOCH, from_micros

if TYPE_CHECKING:
    from collections.abc import Collection

    from featuregate_fleet.tables.coverage_reader import BrokerHours
    from featuregate_fleet.tables.evidence_table import EvidenceTable

WHO: Final = (
    "outcome", "forwarded", "principal", "client_id", "client_host", "listener", "software_name", "software_version",
    "api_key", "version",
)  # fmt: skip
"""The columns by which usage differs for verdicts."""
_FEW: Final = {"outcome": ("'completed'", "'refused'"), "forwarded": ("false", "true")}
"""Columns of ``usage`` with two values, in SQL, or null."""
_STRINGS_AND_NUMBERS: Final = tuple(sorted(set(WHO) - _FEW.keys()))
_OF_NODES: Final = ("listener", "principal", "client_id", "software_name", "api_key")
"""The columns by which requests of nodes differ from those of clients."""
_DAY: Final = timedelta(days=1)
_DAYS: Final = 30


def usage_by_day(table: EvidenceTable, logged: BrokerHours) -> DataFrame:
    """Add up the rows of usage by client and version, and by the day of the last 30 days.

    ``day`` is the number of days since 1970, and null for the days before. What is read of clients is made from this:
    the table may have millions of rows.
    """
    hours = [hour for of_level in (logged.hourly, logged.deprecated) for seen in of_level.values() for hour in seen]
    since = (max(hours, default=EPOCH) - EPOCH) // _DAY - _DAYS
    rows = table.rows("usage").withColumns({"few": f.expr(_packed()), "day": f.expr("unix_date(day)")})
    timed = rows.withColumn("day", f.when(f.col("day") >= since, f.col("day")))
    added = timed.groupBy("few", "day", *_STRINGS_AND_NUMBERS).agg(
        f.sum("count").alias("count"), f.min("first_seen").alias("first_seen"), f.max("last_seen").alias("last_seen")
    )
    return added.withColumns(_unpacked()).drop("few")


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


def usage_of_clients(by_day: DataFrame) -> tuple[Usage, ...]:
    """Return how often each client used each version, on all days."""
    times = (
        f.unix_micros(f.min("first_seen")).alias("first_seen"),
        f.unix_micros(f.max("last_seen")).alias("last_seen"),
    )
    return tuple(
        Usage(
            **{name: row[name] for name in (*WHO, "count")},
            first_seen=from_micros(row["first_seen"]),
            last_seen=from_micros(row["last_seen"]),
        )
        for row in by_day.groupBy(*WHO).agg(f.sum("count").alias("count"), *times).collect()
    )


def usage_over_time(by_day: DataFrame, nodes: Collection[Usage] = ()) -> tuple[UsageAt, ...]:
    """Count the requests of the last 30 days of evidence by software, API version and day.

    Those of brokers and controllers, ``nodes``, are left out.
    """
    clients = by_day.where("outcome = 'completed' and not coalesce(forwarded, false) and day is not null")
    counted = (
        _named(_without(nodes, clients))
        .groupBy("software", "api_key", "version", "day")
        .agg(f.sum("count").alias("count"))
    )
    return tuple(
        UsageAt(row["software"], row["api_key"], row["version"], EPOCH + row["day"] * _DAY, row["count"])
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
