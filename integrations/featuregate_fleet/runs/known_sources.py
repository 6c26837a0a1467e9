"""What was read of logs and topics, and what an input of a run adds to that with one batch.

The table is asked once, and what it says is kept in Arrow, because there may be a million sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from featuregate_fleet.evidence.columns import FROM_LOGS, FROM_METRICS, ORIGIN, SOURCE
from featuregate_fleet.evidence.paths import OF_TOPICS, LineCounts
from featuregate_fleet.files.texts import NAME, NOTHING_BEFORE, WHOLE, KnownText
from featuregate_fleet.tables.source_reader import COUNTS
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from featuregate_fleet.files.storage import Listed
    from featuregate_fleet.runs.internal_topics import TopicEnds
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_OF_TEXT: Final = ("input", "uri", "source", "broker")
"""Which text, and under which name."""
_SAID: Final = ("size", "stamp", "position", "tail", "reason")
_KEPT: Final = pa.schema([*map(SOURCE.field, (*_OF_TEXT, *_SAID)), ORIGIN.field("batch")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one batch, of one input: a folder of logs, or topics."""

    rows: DataFrame | None = None
    """Those of `featuregate_fleet.evidence.columns.ROWS` that executors make: nothing is read before the commit."""
    sources: Sequence[Mapping[str, object]] = ()
    """Rows of kind ``source`` that the driver knows: up to which offsets topics are read with this batch."""
    run: Mapping[str, object] = field(default_factory=dict)
    """Columns of the row of kind ``run``."""
    more: bool = False
    """Whether the input has more than fits into a batch."""
    topics: Sequence[TopicEnds] = ()
    """Those that are read. Whether they were deleted meanwhile is to be asked once the batch is committed, and once it
    failed, because Spark names an offset then."""


class TopicRead(NamedTuple):
    """How far a partition of a topic is read."""

    topic_id: str
    """Empty where brokers have none, before 2.8."""
    position: int
    """The offset after the last record that was read."""


class KnownSources:
    """The files and partitions of topics that were read."""

    def __init__(self, rows: pa.Table, counts: LineCounts) -> None:
        """Begin with rows of `_KEPT`, one for each text and name, and with the counts of all lines."""
        self._rows = rows
        self.counts = counts
        self._newest = _last(rows, ["uri"])

    @classmethod
    def of(cls, table: EvidenceTable) -> KnownSources:
        """Ask the table, which is as it was when the number of its next batch was asked."""
        if table.version() is None:
            return cls.nothing()
        rows = table.rows("source")
        newest = f.max("batch").over(Window.partitionBy(*_OF_TEXT))
        last = rows.withColumn("newest", newest).where(f.col("batch") == f.col("newest"))
        counts = rows.where(f.col("input") == FROM_LOGS).agg(*map(f.expr, COUNTS)).collect()[0]
        return cls(_folded(to_arrow(last.select(_KEPT.names)).cast(_KEPT)), LineCounts(*counts))

    @classmethod
    def nothing(cls) -> KnownSources:
        """Return that nothing was read yet."""
        return cls(_KEPT.empty_table(), LineCounts(0, 0, 0))

    def add(self, rows: pa.Table, batch: int) -> None:
        """Add the rows of kind ``source`` of one batch."""
        numbered = rows.append_column("batch", pa.array([batch] * len(rows), pa.int64())).select(_KEPT.names)
        self._rows = _last(pa.concat_tables([self._rows, _folded(numbered.cast(_KEPT))]), _OF_TEXT)
        self._newest = _last(self._rows, ["uri"])
        logs = rows.filter(pc.equal(rows["input"], FROM_LOGS))
        read, kept, lost, again = (pc.sum(logs[name]).as_py() or 0 for name in (*LineCounts._fields, "again"))
        before = self.counts
        self.counts = LineCounts(before.read + read - again, before.rows + kept, before.quarantined + lost - again)

    @property
    def files(self) -> int:
        """How many files were read, by their names."""
        return pc.sum(pc.equal(self._newest["input"], FROM_LOGS)).as_py() or 0

    def has_below(self, folder: str) -> bool:
        """Return whether a file below a folder was read, by the beginning of its URI."""
        return bool(pc.any(pc.starts_with(self._newest["uri"], folder)).as_py())

    def new(self, listed: Sequence[Listed]) -> list[Listed]:
        """Return the files that have changed since they were read, or that were not read to their ends."""
        if not len(self._newest):
            return list(listed)
        at = pc.index_in(pa.array([each.uri for each in listed], pa.string()), self._newest["uri"].combine_chunks())
        known = self._newest.take(at) if len(listed) else self._newest.slice(0, 0)
        columns = (known[name].to_pylist() for name in ("size", "stamp", "position"))
        return [
            each
            for each, size, stamp, position in zip(listed, *columns, strict=True)
            if size != each.size  # a file system may have times of two seconds, within which a file grows
            or not (stamp == each.stamp + WHOLE or (stamp == each.stamp and (position == each.size or not each.still)))
        ]

    def unopened(self, listed: Sequence[Listed]) -> dict[str, Listed]:
        """Return, by URI, the files that could not be opened, and have not changed since."""
        closed = self._newest.filter(pc.and_(pc.is_valid(self._newest["reason"]), pc.is_null(self._newest["tail"])))
        stamps = dict(zip(closed["uri"].to_pylist(), closed["stamp"].to_pylist(), strict=True))
        return {each.uri: each for each in listed if stamps and stamps.get(each.uri) == each.stamp + WHOLE}

    def lengths(self) -> list[int]:
        """Return how long the beginnings are by which texts are known."""
        lengths = pc.struct_field(pc.extract_regex(self._rows["source"], NAME), "length")
        return [int(length) for length in pc.unique(lengths).to_pylist() if length]

    def texts(self, sources: Collection[str]) -> Mapping[tuple[str | None, str], list[KnownText]]:
        """Return up to where texts with these names were read, by broker and name, the furthest first."""
        found: dict[tuple[str | None, str], list[KnownText]] = defaultdict(list)
        wanted = self._rows.filter(pc.is_in(self._rows["source"], pa.array(sorted(sources), pa.string())))
        for row in wanted.to_pylist():
            text = KnownText(row["position"], row["tail"] or NOTHING_BEFORE, row["source"], row["reason"] is not None)
            found[row["broker"], row["source"]].append(text)
        for each in found.values():
            each.sort(reverse=True)
        return found

    def topics(self) -> dict[str, TopicRead]:
        """Return how far partitions of topics are read, by URI."""
        of_topics = self._rows.filter(pc.starts_with(self._rows["uri"], OF_TOPICS))
        # Beside the row that says how far a batch reads, it has one with counts alone for each broker.
        of_topics = of_topics.sort_by([("batch", "ascending"), ("position", "ascending")])
        return {row["uri"]: TopicRead(row["source"], row["position"]) for row in of_topics.to_pylist()}

    def metrics_position(self) -> int | None:
        """Return the second up to which metrics are read; None where none are."""
        read = self._newest.filter(pc.equal(self._newest["input"], FROM_METRICS))
        return max(read["position"].to_pylist(), default=None)

    def named(self, sources: Collection[str]) -> set[str]:
        """Return the URIs of the files that have texts of some names now."""
        chosen = self._newest.filter(pc.is_in(self._newest["source"], pa.array(sorted(sources), pa.string())))
        return set(chosen["uri"].to_pylist())


def _folded(rows: pa.Table) -> pa.Table:
    """Return one row for each text and name, of the rows of its pieces in one batch."""
    failed = pc.is_in(rows["uri"], pc.unique(rows["uri"].filter(pc.is_valid(rows["reason"]))))
    groups: defaultdict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows.filter(failed).to_pylist():
        groups[tuple(row[name] for name in _OF_TEXT)].append(row)
    read = pa.Table.from_pylist([_up_to_failure(group) for group in groups.values()], _KEPT)
    return pa.concat_tables([_last(rows.filter(pc.invert(failed)), _OF_TEXT, "position"), read])


def _up_to_failure(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Return up to where the pieces of a file were read. One that failed is read again, and those behind it."""
    failed = [row for row in pieces if row["reason"] is not None]
    if not failed:
        return max(pieces, key=itemgetter("position"))
    first = min(failed, key=itemgetter("position"))
    before = [row["tail"] for row in pieces if row["position"] == first["position"] and row["tail"] is not None]
    return first | {"tail": min(before, default=None)}


def _last(rows: pa.Table, keys: Sequence[str], *order: str) -> pa.Table:
    rows = rows.sort_by([(name, "ascending") for name in ("batch", *order)])
    numbered = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
    last = numbered.group_by(list(keys), use_threads=False).aggregate([("row", "last")])
    return rows.take(last["row_last"])
