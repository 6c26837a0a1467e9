"""Adds rows of usage and of hours up before they leave a task: what is added here is not shuffled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import HOUR_KEYS, KINDS, USAGE_KEYS, rows_of

_KEYS: Final = {"usage": USAGE_KEYS, "hour": HOUR_KEYS}
"""The kinds of which rows are added up."""
_MOST: Final = 100_000
"""Rows that are held back, about 20 MB."""
MOST_CONNECTIONS: Final = 10_000
"""Connections of completed and of refused requests, each, that a task keeps. A client that connects for each request
would have a row for each of them; without it, rows of one client, version and day are one. A lost connection costs no
more than the name of a client that was refused."""


def add_up(parsed: Iterable[pa.RecordBatch], most: int = _MOST) -> Iterator[pa.RecordBatch]:
    """Hold rows of usage and of hours back and yield their sums; pass on rows of other kinds as they come.

    Takes and yields `featuregate_fleet.evidence.columns.ROWS`; each batch has rows of one kind. More than ``most`` rows
    of a kind are added up at once; where that leaves more than half of them, they go on.
    """
    held: dict[str, list[pa.Array]] = {kind: [] for kind in _KEYS}
    counts = dict.fromkeys(_KEYS, 0)
    connections = _Connections()
    for batch in parsed:
        kind = batch.column("kind")[0].as_py() if batch.num_rows else ""
        if kind not in held:
            yield batch
            continue
        rows = batch.column(kind)
        held[kind].append(connections.bounded(rows) if kind == "usage" else rows)
        counts[kind] += len(rows)
        if counts[kind] > most:
            held[kind] = [summed(kind, held[kind])]
            counts[kind] = len(held[kind][0])
            if counts[kind] > most // 2:
                yield rows_of(kind, held[kind].pop())
                counts[kind] = 0
    for kind, rest in held.items():
        if rest:
            yield rows_of(kind, summed(kind, rest))


def summed(kind: str, rows: list[pa.Array]) -> pa.StructArray:
    """Return rows of ``usage`` or of ``hour``, one for all that are equal in what is not aggregated."""
    keys = list(_KEYS[kind])
    same = pa.Table.from_struct_array(pa.chunked_array(rows)).group_by(keys, use_threads=False)  # a task has one core
    sums = same.aggregate([("count", "sum"), ("first_seen", "min"), ("last_seen", "max")])
    named = sums.rename_columns([*keys, "count", "first_seen", "last_seen"]).select(KINDS[kind].names)
    return named.cast(KINDS[kind]).combine_chunks().to_struct_array().combine_chunks()


class _Connections:
    """The connections that a task keeps: `MOST_CONNECTIONS` of completed, and as many of refused requests."""

    def __init__(self) -> None:
        self._kept = {outcome: pa.array([], pa.string()) for outcome in ("completed", "refused")}

    def bounded(self, usage: pa.StructArray) -> pa.StructArray:
        """Return rows of ``usage`` without the connections that are too many."""
        connections, outcomes = usage.field("connection"), usage.field("outcome")
        if connections.null_count == len(usage):
            return usage
        known = [self._known(connections, outcomes, outcome) for outcome in self._kept]
        columns = usage.flatten()
        columns[usage.type.get_field_index("connection")] = pc.if_else(pc.or_(*known), connections, None)
        return pa.StructArray.from_arrays(columns, fields=list(usage.type))

    def _known(self, connections: pa.Array, outcomes: pa.Array, outcome: str) -> pa.BooleanArray:
        """Return which rows of an outcome have a connection that is kept; keep new ones as long as there is room."""
        of_it = pc.equal(outcomes, outcome)
        kept = self._kept[outcome]
        room = MOST_CONNECTIONS - len(kept)
        if room:
            found = pc.unique(connections.filter(of_it)).drop_null()
            new = found.filter(pc.invert(pc.is_in(found, kept)))
            kept = self._kept[outcome] = pa.concat_arrays([kept, new[:room]])
        return pc.and_(of_it, pc.is_in(connections, kept))
