"""Hourly rows of usage become daily ones: there are 24 times fewer, and verdicts are the same."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from featuregate_fleet.evidence.columns import ALL, KEYS
from featuregate_fleet.stream.quarantine import REPLAY

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables

_USAGE: Final = "api_usage"
_KEPT_DAYS: Final = 7
"""Days before today whose rows stay hourly."""
_BY_CLIENT: Final = f"outcome <> '{ALL}'"
_BY_HOUR: Final = f"outcome = '{ALL}' or outcome = 'completed' and hours = 1"
_DAY: Final = 24
_OF_A_REPLAY: Final = ("cluster", "query_id")
"""What a replay has written stays apart, because one that was killed replaces its own rows. Of all other queries, of
which a rotation makes one for each file that gets a new name, Delta Lake knows that they have written theirs."""
_OF_AN_HOUR: Final = ("broker", "level", "hour")
"""What readers want to know of each hour: which brokers logged, and how many requests."""


def daily_before(now: datetime) -> datetime:
    """Return the midnight in UTC before which rows become daily."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=_KEPT_DAYS)


def sum_days(tables: Tables, before: datetime) -> None:
    """Make the hourly rows before a midnight in UTC daily, and keep one for each broker and hour.

    All of it is one commit, so that readers see either. Lines of an old hour that come later are added in the same way.
    """
    of_replay = f.when(f.col("query_id").startswith(REPLAY), f.col("query_id")).otherwise(f.lit(""))
    usage = tables.read(_USAGE).withColumn("query_id", of_replay)
    hourly = usage.where(f"hours = 1 and {_BY_CLIENT}").where(f.col("hour") < f.lit(before))
    (first,) = hourly.agg(f.date_trunc("day", f.min("hour"))).collect()[0]
    if first is None:
        return
    days = usage.where((f.col("hour") >= f.lit(first)) & (f.col("hour") < f.lit(before)))
    tables.rewrite_where(
        _USAGE,
        _daily(days).unionByName(_hours(days)),
        f"hour >= timestamp'{_text(first)}' and hour < timestamp'{_text(before)}'",
    )


def _daily(usage: DataFrame) -> DataFrame:
    """Return a row for each client, API version, broker and day."""
    clients = usage.where(_BY_CLIENT).withColumn("hour", f.date_trunc("day", "hour"))
    summed = clients.groupBy(*_OF_A_REPLAY, *KEYS).agg(*_sums(), f.max("text_log").alias("text_log"))
    return _in_order(summed.withColumn("hours", f.lit(_DAY)), usage)


def _hours(usage: DataFrame) -> DataFrame:
    """Return a row for each broker and hour, of rows by client and of those that were such rows before."""
    summed = usage.where(_BY_HOUR).groupBy(*_OF_A_REPLAY, *_OF_AN_HOUR).agg(*_sums())
    return _in_order(summed.withColumns({"outcome": f.lit(ALL), "hours": f.lit(1), "text_log": f.lit(False)}), usage)  # noqa: FBT003


def _sums() -> list[Column]:
    return [
        f.sum("count").alias("count"),
        f.min("first_seen").alias("first_seen"),
        f.max("last_seen").alias("last_seen"),
        f.max("batch_id").alias("batch_id"),
        f.max("written_at").alias("written_at"),
    ]


def _in_order(rows: DataFrame, whole: DataFrame) -> DataFrame:
    """Return the columns of the table, null where rows of this kind have none."""
    kinds: dict[str, Any] = {field.name: field.dataType for field in whole.schema}
    found = set(rows.columns)
    return rows.select(
        [(f.col(name) if name in found else f.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()]
    )


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}Z"
