"""Removes rows that are too old, and the names of one principal; joins the files of tables."""

from __future__ import annotations

import json
from functools import reduce
from hashlib import sha256
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate_fleet.tables.failures import one_line_failures

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import Column

    from featuregate_fleet.tables.delta import DeltaTables

__all__ = ["Removal", "compact", "forgetting", "plan", "remove", "retention"]

_TIMES: Final = {
    "log_lines": "written_at",
    "api_usage": "last_seen",
    "quarantine": "written_at",
    "feature_usage": "last_seen",
    "cluster_views": "taken_at",
    "coverage": "taken_at",
    "feature_levels": "taken_at",
    "readiness": "taken_at",
}
"""The tables of what was seen at a time. A line without a request has no time but that of its writing."""

_CHOSEN: Final = "chosen"


class Removal(NamedTuple):
    """What is changed in rows: ``None`` for rows that are deleted, or the columns that get another value."""

    rows: Mapping[str, Column]
    """Which rows, by table."""
    values: Mapping[str, Mapping[str, object]] | None


class Plan(NamedTuple):
    """What a removal would do to the tables as they are."""

    counts: Mapping[str, int]
    """How many rows, by table."""
    checksum: str
    """That of the rows and of what is done to them."""


def retention(before: datetime) -> Removal:
    """Delete what was seen before a time.

    Records of coordinators go once they are overwritten, and topics once they were read again: the newest ones are what
    is there now.
    """
    at = f.lit(before)
    rows = {table: f.col(column) < at for table, column in _TIMES.items()}
    last = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    rows["coordinator_records"] = (f.col("at") < at) & (f.col("offset") < last)
    newest = f.max("taken_at").over(Window.partitionBy("topic"))
    rows["coordinator_topics"] = (f.col("taken_at") < at) & (f.col("taken_at") < newest)
    return Removal(rows, None)


def forgetting(principal: str) -> Removal:
    """Remove who a principal is. The requests stay, because a verdict without them would be wrong."""
    nameless: dict[str, object] = {"principal": None, "client_id": None, "client_host": None}
    spellings = {principal, json.dumps(principal, ensure_ascii=False)[1:-1]}  # a line has it as JSON
    its, in_text = f.col("principal") == principal, reduce(or_, (f.contains("raw", f.lit(one)) for one in spellings))
    in_report = reduce(or_, (f.contains(column, f.lit(principal)) for column in ("subject", "why", "do")))
    rows = {
        "log_lines": _either(its, in_text),
        "api_usage": its,
        "quarantine": in_text,
        "readiness": _either(its, in_report),
    }
    values: dict[str, dict[str, object]] = {
        "log_lines": nameless | {"connection": None, "raw": None},  # a connection has the address of the client
        "api_usage": nameless,
        "quarantine": {"raw": "", "whole": False},
        "readiness": {"principal": None, "client_id": None, "subject": "", "why": "", "do": ""},
    }
    return Removal(rows, values)


def _either(one: Column, other: Column) -> Column:
    """Return whether one of two holds; a null holds not."""
    return f.coalesce(one, f.lit(False)) | f.coalesce(other, f.lit(False))  # noqa: FBT003


def plan(tables: DeltaTables, removal: Removal) -> Plan:
    """Count what a removal would change.

    Raises
    ------
    TablesBroken
        A table cannot be read.
    """
    with one_line_failures("the tables cannot be read"):
        found = {table: _summary(tables, table, rows) for table, rows in removal.rows.items()}
    text = repr([sorted(found.items()), removal.values])
    return Plan({table: count for table, (count, _) in found.items()}, sha256(text.encode()).hexdigest()[:16])


def _summary(tables: DeltaTables, table: str, rows: Column) -> tuple[int, int | None]:
    found = tables.read(table)
    hashes = f.bit_xor(f.xxhash64(*found.columns))
    count, together = found.withColumn(_CHOSEN, rows).where(_CHOSEN).agg(f.count("*"), hashes).collect()[0]
    return count, together


def remove(tables: DeltaTables, removal: Removal) -> None:
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
            found, chosen = tables.read(table), f.col(_CHOSEN)
            marked = found.withColumn(_CHOSEN, f.coalesce(rows, f.expr("false")))
            if removal.values is None:
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


def compact(tables: DeltaTables) -> None:
    """Join the small files of each table, and delete those of earlier versions.

    Raises
    ------
    TablesBroken
        A table cannot be read or written.
    """
    with one_line_failures("the tables cannot be compacted"):
        for table in tables.names():
            tables.compact(table)
            tables.vacuum(table)
