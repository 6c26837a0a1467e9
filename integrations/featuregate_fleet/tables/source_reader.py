"""Reads how much was read of each input, and which files could not be read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from featuregate_fleet.evidence.line_counts import LineCounts
from featuregate_fleet.evidence.reasons import UNREADABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_WHOSE: Final = ("source", "broker")


class SourceAt(NamedTuple):
    """What a batch says of a file: its text, its name, and why it was not read to the end."""

    source: str | None
    broker: str | None
    uri: str
    batch: int
    reason: str | None
    stamp: str | None
    read: int


class Sources(NamedTuple):
    """What became of the sources of each input."""

    counts: Mapping[str, LineCounts]
    """Lines or records by input: ``logs``, ``reports`` and ``records``. An input that was never read is missing."""
    failed: Mapping[tuple[str | None, str], int]
    """The files of which the rest cannot be read, by broker and reason."""
    again: DataFrame | None
    """The sources that were read from their beginnings once more, with the batch from which on they count; None
    without any."""


def read_sources(table: EvidenceTable) -> Sources:
    """Add up what the rows of sources say. Of a source that was read again, what it said before does not count."""
    rows = table.rows("source")
    found = _added_up(rows)
    again = None
    if any(row["again"] for row in found):
        again = readings_again(rows)
        found = _added_up(newest_readings(rows, again))
    return Sources(
        {row["input"]: LineCounts(**{name: row[name] for name in LineCounts._fields}) for row in found},
        failures(_around_failures(rows)) if any(row["failures"] for row in found) else {},
        again,
    )


def readings_again(rows: DataFrame) -> DataFrame:
    """Return the sources that were read from their beginnings once more, with the batch of the last time."""
    return rows.where("again").groupBy(*_WHOSE).agg(f.max("batch").alias("since"))


def newest_readings(rows: DataFrame, again: DataFrame | None) -> DataFrame:
    """Return rows with columns ``source``, ``broker`` and ``batch`` without those of sources that were read again."""
    if again is None:
        return rows
    same = reduce(and_, (rows[name].eqNullSafe(again[name]) for name in _WHOSE))
    return rows.join(f.broadcast(again), same & (rows["batch"] < again["since"]), "left_anti")


def _added_up(rows: DataFrame) -> list[Row]:
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in LineCounts._fields]
    return (
        rows.groupBy("input").agg(*sums, f.max("again").alias("again"), f.count("reason").alias("failures")).collect()
    )


def file_at(name: str, stamp: str | None) -> tuple[str, str]:
    """Return which file has a name: the inode tells it from another one that gets this name. Storages have none."""
    return name, "".join((stamp or "").split(" ")[2:3])


def _around_failures(rows: DataFrame) -> list[SourceAt]:
    """Return what was said of the texts and of the names of which one ever failed."""
    said = rows.select(*SourceAt._fields)
    failed = said.where("reason is not null")
    around = [said.join(f.broadcast(failed.select(key).distinct()), key, "left_semi") for key in ("source", "uri")]
    return [SourceAt(**row.asDict()) for row in reduce(type(said).unionByName, around).distinct().collect()]


def failures(said: Iterable[SourceAt]) -> Mapping[tuple[str | None, str], int]:
    """Count the texts that were not read to the end, by broker and reason. Pure.

    The newest batch of a text counts, in which it may be read under another name. One that could not be read is mended
    by a later batch that reads its file, or lines under its name, also where it is known as another text by then: most
    often it was damaged from its beginning on, and is restored. A rotation that gives its name to a log that was read
    before restores nothing. One that has vanished is not mended so: its name may be that of the next log.
    """
    states: dict[tuple[tuple[str | None, str | None], int, tuple[str, str]], str | None] = {}
    lines: Counter[tuple[int, tuple[str, str]]] = Counter()
    for one in said:
        file = file_at(one.uri, one.stamp)
        lines[one.batch, file] += one.read
        key = (one.source, one.broker), one.batch, file
        states[key] = one.reason or states.get(key)  # a piece that failed is missing, whatever others of the file say
    read: defaultdict[tuple[str, ...], int] = defaultdict(lambda: -1)
    newest: defaultdict[tuple[str | None, str | None], int] = defaultdict(lambda: -1)
    for (text, batch, file), reason in states.items():
        newest[text] = max(batch, newest[text])
        if reason is None:
            for name in (file, file[:1]) if lines[batch, file] else (file,):
                read[name] = max(batch, read[name])
    last: defaultdict[tuple[str | None, str | None], list[str | None]] = defaultdict(list)
    for (text, batch, file), reason in states.items():
        if batch == newest[text]:
            mended = reason == UNREADABLE and max(read[file], read[file[:1]]) > batch
            last[text].append(None if mended else reason)
    lost: Counter[tuple[str | None, str]] = Counter()
    for (_, broker), names in last.items():
        reasons = sorted(reason for reason in names if reason is not None)
        if len(reasons) == len(names):
            lost[broker, reasons[0]] += 1
    return dict(lost)
