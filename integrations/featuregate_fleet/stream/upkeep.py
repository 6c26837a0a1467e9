"""Removes rows that are too old, and the names of one principal; joins the files of tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import reduce
from hashlib import sha256
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from featuregate.errors import ConfigError
from featuregate_fleet.evidence.principals import pattern_of
from featuregate_fleet.stream.daily import daily_before, sum_days
from featuregate_fleet.stream.read_files import FORGOTTEN
from featuregate_fleet.stream.shortening import gone_files, old_parts
from featuregate_fleet.tables.failures import one_line_failures

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables

_TIMES: Final = {
    "log_lines": "written_at",
    "api_usage": "last_seen",
    "quarantine": "written_at",
    "feature_usage": "written_at",
    "cluster_views": "taken_at",
    "coverage": "taken_at",
    "feature_levels": "taken_at",
    "readiness": "taken_at",
}
"""The tables of what was seen at a time. A line without a request has no time but that of its writing, and the time of
a usage report may be that of its app, whose clock may be wrong."""

_FILES: Final = "evidence_files"
_COUNTS: Final = ("read", "rows", "quarantined")
_CHOSEN: Final = "chosen"

_CONNECTION: Final = r"(?:Closing socket for|Exception while processing request from) (\S+)"
"""The line before the reason of a refusal."""


class Removal(NamedTuple):
    """What is changed in rows: ``None`` for rows that are deleted, or the columns that get another value."""

    rows: Mapping[str, Column]
    """Which rows, by table."""
    values: Mapping[str, Mapping[str, object]] | None
    sums: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The columns whose sums over deleted rows stay, in one row, by table."""


class RemovalPlan(NamedTuple):
    """What a removal would do to the tables as they are."""

    counts: Mapping[str, int]
    """How many rows, by table."""
    checksum: str
    """The checksum of the rows and of the change."""


def retention(tables: Tables, days: int, now: datetime, logs: Path | None = None) -> Removal:
    """Delete what was seen more than some days before today, in UTC.

    Records of coordinators go once they are overwritten, and topics once they were read again: the newest ones are what
    is there now. Files leave the list, and their counts stay, if they are not below ``logs`` any more; without it, all
    of them stay.

    Raises
    ------
    ConfigError
        As `featuregate_fleet.stream.shortening.gone_files`, for ``logs``.
    """
    at = f.lit(now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days))
    rows = {table: f.col(column) < at for table, column in _TIMES.items()}
    last = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    rows["coordinator_records"] = (f.col("at") < at) & (f.col("offset") < last)
    newest = f.max("taken_at").over(Window.partitionBy("topic"))
    rows["coordinator_topics"] = (f.col("taken_at") < at) & (f.col("taken_at") < newest)
    gone = old_parts() if logs is None else old_parts() | gone_files(tables, logs)
    rows[_FILES] = (f.col("written_at") < at) & (f.col("uri") != FORGOTTEN) & gone
    return Removal(rows, None, {_FILES: _COUNTS})


def forgetting(principal: str) -> Removal:
    """Remove who a principal is. The requests stay, because a verdict without them would be wrong."""
    nameless: dict[str, object] = {"principal": None, "client_id": None, "client_host": None}
    its, in_text = f.col("principal") == principal, f.col("raw").rlike(pattern_of(principal))
    one_of_several = f.array_contains(f.split("principal", " or "), principal)  # of a connection, in a finding
    rows = {
        "log_lines": _any(its, in_text, _refused_on_connections_of(its), _maybe_beside_refusal()),
        "api_usage": its,
        "quarantine": in_text,
        "readiness": _any(its, one_of_several),
    }
    values: dict[str, dict[str, object]] = {
        # A connection has the address of the client, and so has the line, of which a hash lets addresses be tried.
        "log_lines": nameless | {"connection": None, "raw": None, "hash": None},
        "api_usage": nameless,
        "quarantine": {"raw": "", "whole": False},
        "readiness": {"principal": None, "client_id": None, "subject": "", "why": "", "do": "", "hosts": None},
    }
    return Removal(rows, values)


def _refused_on_connections_of(its: Column) -> Column:
    """Return whether a line without a principal is about a connection from which other lines are ``its``.

    Brokers log neither principal nor client id of a refused request, from 3.9 on, but the address of the client.
    """
    connection = f.coalesce("connection", f.nullif(f.regexp_extract("raw", _CONNECTION, 1), f.lit("")))
    of_connection = f.max(its).over(Window.partitionBy("broker", connection))
    return f.isnull("principal") & f.isnotnull(connection) & of_connection


def _maybe_beside_refusal() -> Column:
    """Return whether a line without a request may be the one that has the address of a refused client.

    Without its text that is unknown, and its hash is all that is left of it.
    """
    return f.isnull("outcome") & f.isnull("raw") & f.isnotnull("hash")


def _any(*conditions: Column) -> Column:
    """Return whether one of some conditions holds; a null holds not."""
    return reduce(or_, (f.coalesce(each, f.lit(False)) for each in conditions))  # noqa: FBT003


def plan(tables: Tables, removal: Removal) -> RemovalPlan:
    """Count what a removal would change.

    Raises
    ------
    TablesBroken
        A table cannot be read.
    """
    with one_line_failures("the tables cannot be read"):
        found = {table: _summary(tables, table, rows) for table, rows in removal.rows.items()}
    text = repr([sorted(found.items()), removal.values])
    return RemovalPlan({table: count for table, (count, _) in found.items()}, sha256(text.encode()).hexdigest()[:16])


def _summary(tables: Tables, table: str, rows: Column) -> tuple[int, int | None]:
    found = tables.read(table)
    hashes = f.bit_xor(f.xxhash64(*found.columns))
    count, together = found.withColumn(_CHOSEN, rows).where(_CHOSEN).agg(f.count("*"), hashes).collect()[0]
    return count, together


def remove(tables: Tables, removal: Removal) -> None:
    """Change the rows, and delete the files that had them. No other process may write these tables meanwhile.

    Raises
    ------
    TablesBroken
        A table cannot be read or written.
    """
    with one_line_failures("the rows cannot be removed"):
        for table, rows in removal.rows.items():
            if tables.version(table) is None:
                continue
            tables.partition(table)
            found, chosen = tables.read(table), f.col(_CHOSEN)
            marked = found.withColumn(_CHOSEN, f.coalesce(rows, f.expr("false")))
            if table in removal.sums:
                _shorten(tables, table, marked, removal.sums[table])
            elif removal.values is None:
                tables.rewrite(table, marked.where(~chosen).drop(_CHOSEN))
            else:
                kinds = {field.name: field.dataType for field in found.schema}
                changed = {
                    name: f.when(chosen, f.lit(value).cast(kinds[name])).otherwise(f.col(name))
                    for name, value in removal.values[table].items()
                }
                # All at once: the condition has to see the row as it was.
                tables.rewrite(table, marked.select([changed.get(name, f.col(name)).alias(name) for name in kinds]))
            tables.vacuum(table)


def _shorten(tables: Tables, table: str, marked: DataFrame, sums: tuple[str, ...]) -> None:
    """Replace the chosen rows of files by one with their sums, and with those of such a row of before."""
    if marked.where(_CHOSEN).isEmpty():
        return
    gone = f.col(_CHOSEN) | (f.col("uri") == FORGOTTEN)
    total = marked.where(gone).agg(*(f.sum(name).alias(name) for name in sums), f.max("cluster").alias("cluster"))
    fixed = {"path": f.lit(FORGOTTEN), "uri": f.lit(FORGOTTEN), "query_id": f.lit(""), "batch_id": f.lit(-1)}
    fixed |= {"size": f.lit(0), "written_at": f.current_timestamp()}
    named = {name: f.col(name) for name in (*sums, "cluster")} | fixed
    columns = [
        named.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name)
        for field in marked.drop(_CHOSEN).schema
    ]
    tables.rewrite(table, marked.where(~gone).drop(_CHOSEN).unionByName(total.select(columns)))


def removed(tables: Tables, removal: Removal, checksum: str | None) -> RemovalPlan:
    """Return what a removal would change, and change it if that has the checksum.

    Raises
    ------
    ConfigError
        The rows have another checksum. Nothing was removed.
    TablesBroken
        A table cannot be read or written.
    """
    found = plan(tables, removal)
    if checksum is not None and checksum != found.checksum:
        raise ConfigError(
            "checksum",
            "the rows have changed since, or the options differ. Nothing was removed: ask without a checksum, and look "
            "at what would be",
        )
    if checksum is not None:
        remove(tables, removal)
    return found


def compact(tables: Tables, now: datetime) -> None:
    """Join the small files of each table, and delete those of earlier versions. Usage of a week ago becomes daily.

    Raises
    ------
    TablesBroken
        A table cannot be read or written.
    """
    with one_line_failures("the tables cannot be compacted"):
        for table in tables.names():
            tables.partition(table)
            if table == "api_usage":
                sum_days(tables, daily_before(now))
            tables.compact(table)
            tables.vacuum(table)
