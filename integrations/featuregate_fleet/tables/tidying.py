"""What tidying removes from the table of a cluster, while runs go on to append to it.

Each change is a commit of its own, which Delta Lake makes as a whole, and tries again where another one was first.
Names stand in data that is merged and not in conditions, because the log of Delta Lake keeps conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from featuregate_fleet.evidence.columns import FROM_LOGS, KINDS
from featuregate_fleet.evidence.pseudonyms import pattern_of
from featuregate_fleet.tables.evidence_table import ENDS, EvidenceTable
from featuregate_fleet.tables.failures import one_line_failures, read_steadily
from featuregate_fleet.tables.source_reader import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ENDS: Final = {**ENDS, "quarantine": "written_at", "app": "written_at"}
"""When what a row says was seen for the last time. A line without a request has no time but that of its writing, and
the time of a usage report may be that of its app, whose clock may be wrong."""
_SOURCE: Final = ("input", "broker", "source", "uri")
"""What says of which file or partition a row of kind ``source`` is."""
_GONE: Final[Mapping[str, object]] = {
    "input": "logs", "broker": None, "source": "", "uri": "", "path": "", "stamp": "", "tail": "", "size": 0,
    "position": 0, "reason": None, "why": None, "again": None,
}  # fmt: skip
"""The row with the counts of all files that are gone."""
_FURTHEST: Final = ("batch", "reason is not null", "if(reason is null, position, -position)")
"""The newest row of a source: of the pieces in a batch the furthest, or the first one that could not be read."""
_NAMELESS: Final = "usage.principal = NULL, usage.client_id = NULL, usage.client_host = NULL, usage.connection = NULL"
_WITHOUT_TEXT: Final = "quarantine.raw = '', quarantine.client_id = NULL"


class FilesThere(NamedTuple):
    """The files below a folder of logs."""

    logs: str
    """The URI of the folder. Files of other folders are not looked for in it."""
    uris: frozenset[str]

    def as_rows(self, table: EvidenceTable) -> DataFrame:
        """Return them as rows, to be joined with others."""
        uris = pa.table({"uri": sorted(self.uris)}, pa.schema([("uri", pa.string())]))
        return table.as_rows(uris).withColumn("there", f.expr("true"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for, in addition to the joining of files."""

    before: datetime | None = None
    """Rows that were seen earlier go, at most."""
    there: FilesThere | None = None
    """Other files of that folder, if they were read before that time, leave the table."""
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


def contents(table: EvidenceTable) -> tuple[int, dict[str, int]]:
    """Return how many batches were committed, and how many rows the table has of each kind that it has."""
    found = table.all_rows().groupBy("kind").agg(f.count("*").alias("rows"), f.max("batch").alias("newest")).collect()
    counts = {row["kind"]: row["rows"] for row in found}
    batches = 1 + max((row["newest"] for row in found), default=-1)
    return batches, {kind: counts[kind] for kind in KINDS if kind in counts}


def has_read_any(table: EvidenceTable, there: FilesThere) -> bool:
    """Return whether one of some files was read: otherwise it is another folder of logs, or its files are elsewhere."""
    files = table.rows("source").where("input = 'logs'")
    return not files.join(there.as_rows(table), "uri", "left_semi").isEmpty()


def plan(table: EvidenceTable, wanted: Wanted) -> TidyPlan:
    """Count what tidying would change. Raises TablesBroken (the table cannot be read)."""
    with one_line_failures("the table cannot be read"):
        files, size = table.size()
        return read_steadily(lambda: TidyPlan(_too_old(table, wanted), _with_names(table, wanted), files, size))


def tidy(table: EvidenceTable, wanted: Wanted) -> TidyPlan:
    """Remove what is asked for, join the small files, and delete those that had the rows before.

    Raises TablesBroken (the table cannot be read or written. What was committed before stays, and the same may be asked
    again).
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
        yield partial(table.delete, _old(table, wanted.before))
        for kind, rows in _kept(table, wanted.before, wanted.there).items():
            yield partial(table.replace, kind, rows)
    for kind, source, its, change in _forgetting(table, wanted.principal):
        yield partial(table.merge, source, f"t.kind = '{kind}' AND {its}", f"WHEN MATCHED THEN UPDATE SET {change}")
    yield table.join_files


def _too_old(table: EvidenceTable, wanted: Wanted) -> dict[str, int]:
    if wanted.before is None:
        return {}
    chosen = table.all_rows().where(_old(table, wanted.before)).groupBy("kind").count()
    found = {row["kind"]: row["count"] for row in chosen.collect()}
    for kind, rows in _kept(table, wanted.before, wanted.there).items():
        found[kind] = table.rows(kind).count() - rows().count()
    return {kind: found[kind] for kind in KINDS if found.get(kind)}


def _with_names(table: EvidenceTable, wanted: Wanted) -> dict[str, int]:
    found = Counter[str]()
    for kind, source, its, _ in _forgetting(table, wanted.principal):
        rows = table.all_rows().where(f.col("kind") == kind).alias("t")
        found[kind] += rows.join(source().alias("s"), f.expr(its), "left_semi").count()
    return {kind: count for kind, count in found.items() if count}


def _old(table: EvidenceTable, before: datetime) -> str:
    """Return the condition for rows that go as a whole. Of runs the newest ones stay, and what no later run asked."""
    at = f"timestamp'{before:%Y-%m-%d %H:%M:%S}+00:00'"
    conditions = [f"(kind = '{kind}' and {end} < {at})" for kind, end in _ENDS.items()]
    asked = ("batch", "asked_at", "listed", "records_read")
    newest = [f.max(f.when(f.col(name).isNotNull(), f.col("batch"))) for name in asked]
    kept = {number for number in table.rows("run").agg(*newest).collect()[0] if number is not None} or {-1}
    runs = f"(kind = 'run' and written_at < {at} and batch not in ({', '.join(map(str, sorted(kept)))}))"
    return " or ".join([*conditions, runs])


def _kept(table: EvidenceTable, before: datetime, there: FilesThere | None) -> dict[str, Callable[[], DataFrame]]:
    """Return, by kind, the rows that stay of those of which not each old one goes."""
    return {"record": partial(_records, table, before), "source": partial(_sources, table, before, there)}


def _records(table: EvidenceTable, before: datetime) -> DataFrame:
    """Return the records of coordinators without old ones that newer ones with their key have overwritten."""
    last = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    overwritten = (f.col("offset") < f.col("last")) & (f.col("at") < f.lit(before))
    return table.rows("record").withColumn("last", last).where(~overwritten).drop("last")


def _sources(table: EvidenceTable, before: datetime, there: FilesThere | None) -> DataFrame:
    """Return the rows of sources with one in place of the old ones of each: the newest one, with the sums of all.

    Files that are gone are one of these sources.
    """
    rows = table.rows("source")
    columns = [f.col(name) for name in rows.columns]
    if there is not None:
        newest = f.max("written_at").over(Window.partitionBy(*_SOURCE))
        found = rows.withColumn("newest", newest).join(there.as_rows(table), "uri", "left")
        of_folder = (f.col("input") == FROM_LOGS) & f.col("uri").startswith(f"{there.logs}/")
        gone = of_folder & f.col("there").isNull() & (f.col("newest") < f.lit(before))
        values = {name: f.lit(value).cast(rows.schema[name].dataType) for name, value in _GONE.items()}
        changed = {name: f.when(gone, value).otherwise(f.col(name)) for name, value in values.items()}
        rows = found.withColumns(changed).select(*columns)
    is_old = f.col("written_at") < f.lit(before)
    newest_row = f.max_by(f.struct(*columns), f.struct(*map(f.expr, _FURTHEST))).alias("row")
    summed = rows.where(is_old).groupBy(*_SOURCE).agg(newest_row, *map(f.expr, COUNTS))
    again = f.coalesce(f.col("row.again"), f.lit(0))  # COUNTS are without it, and the newest row has it
    sums = {"read": f.col("read") + again, "rows": f.col("rows"), "quarantined": f.col("quarantined") + again}
    old = summed.select(*(sums.get(name, f.col(f"row.{name}")).alias(name) for name in rows.columns))
    return rows.where(~is_old).unionByName(old)


def _forgetting(table: EvidenceTable, principal: str | None) -> list[tuple[str, Callable[[], DataFrame], str, str]]:
    """Return where the table says who a principal is. The requests stay: a verdict without them would be wrong.

    That is a kind of rows, a source, what a row ``t`` of the table and a row ``s`` of the source have in common, and
    what becomes of ``t``.

    Brokers log neither principal nor client id of a refused request, from 3.9 on, but the address of the client: its
    connection is that of other requests.
    """
    if principal is None:
        return []

    def connections() -> DataFrame:
        its = table.rows("usage").where((f.col("principal") == principal) & f.col("connection").isNotNull())
        return its.select("broker", "connection").distinct()

    name = partial(table.as_rows, pa.table({"principal": [principal], "pattern": [pattern_of(principal)]}))
    refused = "t.usage.principal IS NULL AND t.usage.broker <=> s.broker AND t.usage.connection = s.connection"
    return [
        ("usage", connections, refused, _NAMELESS),
        ("usage", name, "t.usage.principal = s.principal", _NAMELESS),
        ("quarantine", name, "t.quarantine.raw RLIKE s.pattern", _WITHOUT_TEXT),
    ]
