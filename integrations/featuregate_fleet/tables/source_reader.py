"""Reads how much was read of each input, and which files could not be read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyspark.sql import functions as f

from featuregate_fleet.evidence.paths import LineCounts, ReadAgain
from featuregate_fleet.evidence.reasons import EMPTY, NO_REQUEST, OF_FILES, UNREADABLE
from featuregate_fleet.files.texts import WHOLE, moved_file, name_by_path
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_WHOSE: Final = ("source", "broker")
_MOVED: Final = "concat_ws(' ', try_element_at(split(stamp, ' '), 1), try_element_at(split(stamp, ' '), 3))"
"""As `moved_file` has it, or less of that."""

_NEVER_REQUESTS: Final = (NO_REQUEST, EMPTY)
"""Why most lines of other logs are in quarantine: they are read once more only where that is asked for them."""
_NOWHERE: Final = 2**62
"""A byte that no text has."""
COUNTS: Final = (
    "coalesce(sum(read) - sum(coalesce(again, 0)), 0) AS read",
    "coalesce(sum(rows), 0) AS rows",
    "coalesce(sum(quarantined) - sum(coalesce(again, 0)), 0) AS quarantined",
)
"""The lines of rows of kind ``source``, in SQL: what was read once more counts as it was read then."""


class SourceAt(NamedTuple):
    """What a batch says of a file: its text, its name, and why it was not read to the end."""

    source: str | None
    broker: str | None
    path: str
    uri: str
    batch: int
    reason: str | None
    stamp: str | None
    again: int | None
    tail: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any], batch: int) -> Self:
        """Return what a row of kind ``source`` of a batch says."""
        return cls(*({**row, "batch": batch}[name] for name in cls._fields))

    @property
    def moved(self) -> tuple[str, str, str]:
        """The file, whatever it is called."""
        return "moved", *moved_file(self.stamp or "", self.uri)

    @property
    def keys(self) -> set[tuple[object, ...]]:
        """What another row has in common with this one, if it is about the same text, name or file."""
        return {("text", self.source, self.broker), ("name", self.uri), self.moved}

    @property
    def mends(self) -> Iterator[tuple[str, ...]]:
        """What is read with this file, as `needs` has it."""
        yield "file", name_by_path(self.stamp or "", self.path)
        if self.again is not None:
            yield "again", self.uri
        if (self.stamp or "").endswith(WHOLE):
            yield self.moved

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """What mends a file that was not read to its end, each.

        A file that could not be opened is the same as long as it has its inode; that of a damaged one that was deleted
        may be the inode of the next log.
        """
        if self.reason != UNREADABLE:
            return (self.moved,)
        return ("again", self.uri), ("file", (self.source or "") if self.tail is None else "")


def read_sources(
    table: EvidenceTable,
) -> tuple[dict[str, LineCounts], Counter[tuple[str | None, str]], DataFrame | None]:
    """Return the lines or records by input, such as ``logs``; one that was never read is missing.

    Return also the number of files of which the rest cannot be read, by broker and reason, and the sources of which
    lines in quarantine were read once more, as `readings_again` has them; None without any.
    """
    rows, counts = table.rows("source"), (*COUNTS, "sum(again) AS again", "count(reason) AS failures")
    found = rows.groupBy("input").agg(*map(f.expr, counts)).collect()
    by_input = {row["input"]: LineCounts(*(row[name] for name in LineCounts._fields)) for row in found}
    failed = lost(_around_failures(rows)) if any(row["failures"] for row in found) else []
    again = readings_again(rows) if any(row["again"] for row in found) else None
    return by_input, Counter((one.broker, str(one.reason)) for one in failed), again


def readings_again(rows: DataFrame) -> DataFrame:
    """Return the sources of which lines in quarantine were read once more, with the batch of the last time."""
    return rows.where("again > 0").groupBy(*_WHOSE).agg(f.max("batch").alias("since"))


def newest_readings(rows: DataFrame, again: DataFrame | None) -> DataFrame:
    """Return the lines in quarantine without those that were read once more."""
    if again is None:
        return rows
    same = reduce(and_, (rows[name].eqNullSafe(again[name]) for name in _WHOSE))
    older = (rows["batch"] < again["since"]) & ~rows["reason"].isin(*_NEVER_REQUESTS)
    return rows.join(f.broadcast(again), same & older, "left_anti")


def read_again(table: EvidenceTable, reasons: Collection[str]) -> dict[tuple[str | None, str | None], ReadAgain]:
    """Return what to read once more, by text and broker: the quarantine of texts that have a line there for a reason.

    Of lines that are alike, from some number on, it is known where the first one is.
    """
    if not reasons:
        return {}
    lines = newest_readings(table.rows("quarantine"), readings_again(table.rows("source"))).where("source is not null")
    asked = f.col("reason").isin(*reasons)
    of_texts = lines.where(asked | ~f.col("reason").isin(*_NEVER_REQUESTS)).groupBy(*_WHOSE).agg(
        f.max(asked).alias("asked"),
        f.collect_set(f.when(f.col("lines") == 1, f.col("at"))).alias("at"),
        f.coalesce(f.min(f.when(f.col("lines") > 1, f.col("at"))), f.lit(_NOWHERE)).alias("start"),
        f.sum("lines").alias("lines"),
    )  # fmt: skip
    found = to_arrow(of_texts.where("asked").drop("asked")).to_pylist()
    return {(row["source"], row["broker"]): ReadAgain(tuple(row["at"]), row["start"], row["lines"]) for row in found}


def failed_files(table: EvidenceTable, reasons: Collection[str]) -> set[str]:
    """Return the URIs of the files that were not read to their ends for some reasons."""
    if OF_FILES.isdisjoint(reasons):
        return set()
    return {one.uri for one in lost(_around_failures(table.rows("source"))) if one.reason in reasons}


def _around_failures(rows: DataFrame) -> list[SourceAt]:
    """Return what was said of the texts, of the names and of the files of which one ever failed."""
    said = rows.select(*SourceAt._fields, f.expr(_MOVED).alias("moved"))
    failed = said.where("reason is not null")
    keys = ("source", "uri", "moved")
    around = [said.join(f.broadcast(failed.select(key).distinct()), key, "left_semi") for key in keys]
    found = reduce(type(said).unionByName, around).distinct().collect()
    return [SourceAt(*(row[name] for name in SourceAt._fields)) for row in found]


def around_failures(said: Iterable[SourceAt]) -> list[SourceAt]:
    """Return what was said of the texts, of the names and of the files of which one has failed. Pure."""
    rows = list(said)
    failed = {key for row in rows if row.reason for key in row.keys}
    return [row for row in rows if not failed.isdisjoint(row.keys)]


def lost(said: Iterable[SourceAt]) -> list[SourceAt]:
    """Return of each text that was not read to its end why: one of its rows. Pure.

    The newest batch of a text counts, in which it may be read under another name. A file that could not be opened is
    mended by a later batch that reads it, and a damaged one of which no text is known by one that reads its name where
    that was asked (``--again``): lines under its name may be those of the next log. One that has vanished was renamed
    where a file is read that was written at the same time, and has its inode.
    """
    states: dict[tuple[object, ...], SourceAt] = {}
    for one in said:
        key = one.source, one.broker, one.batch, one.uri, one.stamp
        if key not in states or one.reason:  # a piece that failed is missing, whatever others of the file say
            states[key] = one
    read: defaultdict[tuple[str, ...], int] = defaultdict(lambda: -1)
    texts: defaultdict[tuple[str | None, str | None], list[SourceAt]] = defaultdict(list)
    for one in states.values():
        texts[one.source, one.broker].append(one)
        for mended in one.mends if one.reason is None else ():
            read[mended] = max(one.batch, read[mended])
    found = []
    for rows in texts.values():
        newest = max(row.batch for row in rows)
        names = [row for row in rows if row.batch == newest]
        failed = [row for row in names if row.reason and not _is_mended(row, read)]
        if len(failed) == len(names):
            found.append(min(failed, key=lambda row: (row.reason or "", row.uri)))
    return found


def _is_mended(failed: SourceAt, read: Mapping[tuple[str, ...], int]) -> bool:
    """Return whether it was read since, or ever, if it was only renamed."""
    after = failed.batch if failed.reason == UNREADABLE else -1
    return any(read[need] > after for need in failed.needs if need in read)
