"""What tidying removes from the table of a cluster, while runs go on to append to it.

Each change is a commit of its own, which Delta Lake makes as a whole, and tries again where another one was first.
Names stand in data that is merged and not in conditions, because the log of Delta Lake keeps conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from featuregate_fleet.evidence.columns import FROM_LOGS, KINDS
from featuregate_fleet.evidence.paths import OF_TOPICS
from featuregate_fleet.evidence.principals import pattern_of
from featuregate_fleet.tables.failures import one_line_failures, read_steadily

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_ENDS: Final = {
    "usage": "usage.last_seen",
    "hour": "hour.last_seen",
    "quarantine": "written_at",
    "app": "written_at",
    "run": "written_at",
}
"""When what a row says was seen for the last time. A line without a request has no time but that of its writing, and
the time of a usage report may be that of its app, whose clock may be wrong."""
_COUNTS: Final = ("read", "rows", "quarantined")
_SOURCE: Final = ("input", "broker", "source", "uri")
"""What says of which file or partition a row of kind ``source`` is."""
_GONE: Final[Mapping[str, object]] = {
    "input": "logs", "broker": None, "source": "", "uri": "", "path": "", "stamp": "", "tail": "", "size": 0,
    "position": 0, "reason": None, "why": None, "again": False,
}  # fmt: skip
"""The row with the counts of all files that are gone."""
_FURTHEST: Final = ("batch", "reason is not null", "if(reason is null, position, -position)")
"""The newest row of a source: of the pieces in a batch the furthest, or the first one that could not be read."""
_NAMELESS: Final = "usage.principal = NULL, usage.client_id = NULL, usage.client_host = NULL, usage.connection = NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for, in addition to the joining of files."""

    before: datetime | None = None
    """Rows that were seen earlier go, at most."""
    paths: frozenset[str] | None = None
    """The files below the folder of logs: others that were read before that time leave the table."""
    principal: str | None = None
    """Whose names go, as the table has it."""


class TidyPlan(NamedTuple):
    """What tidying does, or has done."""

    deleted: Mapping[str, int]
    """How many rows go, by kind."""
    nameless: Mapping[str, int]
    """How many rows lose who a principal is, by kind."""
    files: int
    """How many files have the rows, and how many bytes, before."""
    bytes: int
    files_after: int | None = None
    """The same afterwards; None for a plan."""
    bytes_after: int | None = None


def days_before(now: datetime, days: int) -> datetime:
    """Return when a day began, some days ago, in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)


def contents(table: EvidenceTable) -> tuple[int, dict[str, int]]:
    """Return how many batches were committed, and how many rows the table has of each kind that it has."""
    found = table.all_rows().groupBy("kind").agg(f.count("*").alias("rows"), f.max("batch").alias("newest")).collect()
    counts = {row["kind"]: row["rows"] for row in found}
    batches = 1 + max((row["newest"] for row in found), default=-1)
    return batches, {kind: counts[kind] for kind in KINDS if kind in counts}


def has_read_any(table: EvidenceTable, paths: frozenset[str]) -> bool:
    """Return whether one of some paths is that of a file that was read: otherwise it is another folder of logs."""
    files = table.rows("source").where("input = 'logs'")
    return not files.join(table.as_rows(_as_table(paths)), "path", "left_semi").isEmpty()


def _as_table(paths: frozenset[str]) -> pa.Table:
    return pa.table({"path": sorted(paths)}, pa.schema([("path", pa.string())]))


def plan(table: EvidenceTable, wanted: Wanted) -> TidyPlan:
    """Count what tidying would change.

    Raises
    ------
    TablesBroken
        The table cannot be read.
    """
    with one_line_failures("the table cannot be read"):
        files, size = table.size()
        return read_steadily(lambda: TidyPlan(_too_old(table, wanted), _with_names(table, wanted), files, size))


def tidy(table: EvidenceTable, wanted: Wanted) -> TidyPlan:
    """Remove what is asked for, join the small files, and delete those that had the rows before.

    Raises
    ------
    TablesBroken
        The table cannot be read or written. What was committed before stays, and the same may be asked again.
    """
    found = plan(table, wanted)
    with one_line_failures("the table cannot be tidied"):
        had_rows = set(table.files())
        for change in _changes(table, wanted):
            change()
            had_rows |= table.files()  # each change leaves files behind, with the names that the next one removes
        table.delete_files(had_rows - table.files())
        files, size = table.size()
    return found._replace(files_after=files, bytes_after=size)


def _changes(table: EvidenceTable, wanted: Wanted) -> Iterator[Callable[[], None]]:
    """Yield what changes the table: each is one commit, and the next one is made from what there is then."""
    if wanted.before is not None:
        yield from _delete_old(table, wanted.before, wanted.paths)
    if wanted.principal is not None:
        yield from _forget(table, wanted.principal)
    yield table.join_files


def _too_old(table: EvidenceTable, wanted: Wanted) -> dict[str, int]:
    if wanted.before is None:
        return {}
    chosen = table.all_rows().where(_old(table, wanted.before)).groupBy("kind").count()
    found = {row["kind"]: row["count"] for row in chosen.collect()}
    old = _marked(table, wanted.before, wanted.paths).agg(f.count("*"), f.countDistinct("group")).collect()[0]
    found |= {"record": _overwritten(table, wanted.before).count(), "source": old[0] - old[1]}
    return {kind: found[kind] for kind in KINDS if found.get(kind)}


def _with_names(table: EvidenceTable, wanted: Wanted) -> dict[str, int]:
    if wanted.principal is None:
        return {}
    usage = table.rows("usage")
    its = usage.where(f.col("principal") == wanted.principal).count()
    refused = usage.where("principal is null").join(
        _connections(table, wanted.principal).withColumnRenamed("whose", "broker"),
        ["broker", "connection"],
        "left_semi",
    )
    lines = table.rows("quarantine").where(f.col("raw").rlike(pattern_of(wanted.principal)))
    found = {"usage": its + refused.count(), "quarantine": lines.count()}
    return {kind: count for kind, count in found.items() if count}


def _old(table: EvidenceTable, before: datetime) -> str:
    """Return the condition for rows that go as a whole. Of runs the newest ones stay, and what no later run asked."""
    at = f"timestamp'{before:%Y-%m-%d %H:%M:%S}+00:00'"
    conditions = [f"(kind = '{kind}' and {end} < {at})" for kind, end in _ENDS.items() if kind != "run"]
    asked = ("batch", "asked_at", "listed", "records_read")
    newest = [f.max(f.when(f.col(name).isNotNull(), f.col("batch"))) for name in asked]
    kept = {number for number in table.rows("run").agg(*newest).collect()[0] if number is not None} or {-1}
    runs = f"(kind = 'run' and {_ENDS['run']} < {at} and batch not in ({', '.join(map(str, sorted(kept)))}))"
    return " or ".join([*conditions, runs])


def _delete_old(table: EvidenceTable, before: datetime, paths: frozenset[str] | None) -> Iterator[Callable[[], None]]:
    yield partial(table.delete, _old(table, before))
    yield partial(
        table.merge,
        partial(_overwritten, table, before),
        "t.kind = 'record' AND t.record.topic = s.topic AND t.record.partition = s.partition AND t.record.key = s.key"
        " AND t.record.offset = s.offset AND t.batch = s.batch",
        "WHEN MATCHED THEN DELETE",
    )
    same = " AND ".join(f"t.source.{name} <=> s.was.{name}" for name in _SOURCE)
    yield partial(
        table.merge,
        partial(_summed, table, before, paths),
        f"t.kind = 'source' AND s.kind IS NULL AND {same} AND t.written_at < s.before",
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.kind IS NOT NULL THEN INSERT (kind, source, batch, run_id,"
        " written_at) VALUES (s.kind, s.source, s.batch, s.run_id, s.written_at)",
    )


def _overwritten(table: EvidenceTable, before: datetime) -> DataFrame:
    """Return the records of coordinators that newer ones with their key have overwritten, and that are old."""
    last = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    rows = table.rows("record").withColumn("last", last).where(f.col("offset") < f.col("last"))
    return rows.where(f.col("at") < f.lit(before)).select("topic", "partition", "key", "offset", "batch").distinct()


def _marked(table: EvidenceTable, before: datetime, paths: frozenset[str] | None) -> DataFrame:
    """Return the old rows of sources: ``was`` says of which one, and ``group`` with which others they are summed."""
    newest = f.max("written_at").over(Window.partitionBy(*_SOURCE))
    again = f.max(f.when(f.col("again"), f.col("batch"))).over(Window.partitionBy("source", "broker"))
    rows = table.rows("source").withColumns(
        {"newest": newest, "counts": f.coalesce(f.col("batch") >= again, f.expr("true"))}
    )
    if paths is None:
        rows = rows.withColumn("gone", f.expr("false"))
    else:
        there = table.as_rows(_as_table(paths))
        rows = rows.join(there.withColumn("there", f.expr("true")), "path", "left")
        no_file = f.expr(f"input = '{FROM_LOGS}' and uri not like '{OF_TOPICS}%' and there is null")
        rows = rows.withColumn("gone", no_file & (f.col("newest") < f.lit(before)))
    old = rows.where(f.col("written_at") < f.lit(before))
    group = [f.when(f.col("gone"), f.lit(_GONE[name])).otherwise(f.col(name)).alias(name) for name in _SOURCE]
    return old.withColumns({"was": f.struct(*_SOURCE), "group": f.struct(*group)})


def _summed(table: EvidenceTable, before: datetime, paths: frozenset[str] | None) -> DataFrame:
    """Return one row for each group of old rows, the newest with the sums of all, and which rows it replaces."""
    marked = _marked(table, before, paths)
    changed = {
        name: f.when(f.col("gone"), f.lit(_GONE[name]).cast(marked.schema[name].dataType)).otherwise(f.col(name))
        for name in KINDS["source"].names
        if name in _GONE
    }
    row = f.struct(*(changed.get(name, f.col(name)).alias(name) for name in KINDS["source"].names))
    newest = f.max_by(f.struct(row.alias("row"), "batch", "run_id", "written_at"), f.struct(*map(f.expr, _FURTHEST)))
    # What was read again from the beginning counts as it was read then.
    sums = {name: f.sum(f.when(f.col("counts"), f.col(name)).otherwise(0)) for name in _COUNTS}
    groups = marked.groupBy("group").agg(
        newest.alias("newest"), f.collect_set("was").alias("were"), f.count("*").alias("number"), *(
            total.alias(f"all_{name}") for name, total in sums.items()
        ), f.max("gone").alias("gone"),
    )  # fmt: skip
    several = groups.where("number > 1 or gone")
    total = f.col("newest.row")
    for name in _COUNTS:
        total = total.withField(name, f.col(f"all_{name}"))
    columns = ("batch", "run_id", "written_at")
    added = several.select(
        f.lit("source").alias("kind"),
        total.alias("source"),
        *(f.col(f"newest.{name}").alias(name) for name in columns),
        f.lit(None).cast(marked.schema["was"].dataType).alias("was"),
        f.lit(before).alias("before"),
    )
    kinds = {name: added.schema[name].dataType for name in ("kind", "source", *columns)}
    removed = several.select(f.explode("were").alias("was")).select(
        *(f.lit(None).cast(kind).alias(name) for name, kind in kinds.items()), "was", f.lit(before).alias("before")
    )
    return added.unionByName(removed)


def _connections(table: EvidenceTable, principal: str) -> DataFrame:
    """Return the connections of a principal.

    Brokers log neither principal nor client id of a refused request, from 3.9 on, but the address of the client.
    """
    its = table.rows("usage").where((f.col("principal") == principal) & f.col("connection").isNotNull())
    return its.select(f.col("broker").alias("whose"), "connection").distinct()


def _forget(table: EvidenceTable, principal: str) -> Iterator[Callable[[], None]]:
    """Remove who a principal is. The requests stay, because a verdict without them would be wrong."""
    yield partial(
        table.merge,
        partial(_connections, table, principal),
        "t.kind = 'usage' AND t.usage.principal IS NULL AND t.usage.broker <=> s.whose"
        " AND t.usage.connection = s.connection",
        f"WHEN MATCHED THEN UPDATE SET {_NAMELESS}",
    )
    names = pa.table({"principal": [principal], "pattern": [pattern_of(principal)]})
    one = partial(table.as_rows, names)
    yield partial(
        table.merge,
        one,
        "t.kind = 'usage' AND t.usage.principal = s.principal",
        f"WHEN MATCHED THEN UPDATE SET {_NAMELESS}",
    )
    yield partial(
        table.merge,
        one,
        "t.kind = 'quarantine' AND t.quarantine.raw RLIKE s.pattern",
        "WHEN MATCHED THEN UPDATE SET quarantine.raw = '', quarantine.client_id = NULL",
    )
