"""Counts requests that were read, adds rows up before they leave a task, and hides names in them. Pure.

Nothing is shuffled: executors run it within ``mapInArrow``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import AGGREGATED, BY_LOG, HOUR, KEYS, KINDS, USAGE, rows_of
from featuregate_fleet.evidence.lines.fast_path import FIELDS, FastLines
from featuregate_fleet.evidence.lines.request import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

SEEN: Final = pa.struct([("broker", pa.string()), *FIELDS, ("outcome", pa.string()), ("in_utc", pa.bool_())])
_OF_LINE: Final = ("client_id", "client_host", "connection")
_MOST: Final = 100_000
"""Rows that are held back, about 20 MB."""
MOST_CONNECTIONS: Final = 10_000
"""Connections of completed and of refused requests, each, that a task keeps. A client that connects for each request
would have a row for each of them; without it, rows of one client, version and day are one. A lost connection costs no
more than the name of a client that was refused."""


def usage_of(
    fast: FastLines | None, brokers: Sequence[tuple[str, int]], others: Sequence[dict[str, Any]], time_zone: str
) -> Iterator[pa.RecordBatch]:
    """Count requests whose times are in one zone; yield `featuregate_fleet.evidence.columns.ROWS`.

    ``brokers``: those that logged the lines of the fast path, in order, each with its number of lines. ``others``: the
    requests and refusals that the full parser has read, each with its broker.
    """
    if fast and pc.any(fast.read).as_py():
        yield from _rows(_counted(fast, brokers, time_zone))
    if others:
        seen = pa.RecordBatch.from_struct_array(pa.array(others, SEEN))
        times = placed(seen["time"], seen["in_utc"], time_zone)
        counts = {"count": pa.repeat(pa.scalar(1, pa.int64()), len(others)), "first_seen": times, "last_seen": times}
        columns = dict(zip(seen.schema.names, seen.columns, strict=True)) | counts
        yield from _rows(pa.RecordBatch.from_pydict(columns | {"hour": pc.floor_temporal(times, unit="hour")}))


def _counted(fast: FastLines, brokers: Sequence[tuple[str, int]], time_zone: str) -> pa.RecordBatch:
    """Count the lines of the fast path by the numbers of their texts, which is faster than by the texts."""
    names = pa.array(sorted({broker for broker, _ in brokers}))
    numbers = {name: pa.scalar(number) for number, name in enumerate(names.to_pylist())}
    of_broker = pa.concat_arrays([pa.repeat(numbers[broker], count) for broker, count in brokers])
    lines = pa.table({"broker": of_broker, "api": fast.api.index, "client": fast.client.index})
    for name in _OF_LINE:
        lines = lines.append_column(name, getattr(fast, name))
    lines = lines.append_column("time", to_utc(fast.time, time_zone))
    lines = lines.append_column("hour", pc.floor_temporal(lines["time"], unit="hour")).filter(fast.read)
    counts = [("time", "count"), ("time", "min"), ("time", "max")]
    # A task has one core.
    by_texts = lines.group_by(["broker", "api", "client", *_OF_LINE, "hour"], use_threads=False)
    counted = by_texts.aggregate(counts).combine_chunks().to_batches()[0]
    columns = {
        "broker": names.take(counted["broker"]),
        "hour": counted["hour"],
        "outcome": pa.repeat(pa.scalar(COMPLETED), len(counted)),
        **{name: counted[name] for name in _OF_LINE},
        "count": counted["time_count"],
        "first_seen": counted["time_min"],
        "last_seen": counted["time_max"],
    }
    for texts, numbers_of in ((fast.api, counted["api"]), (fast.client, counted["client"])):
        columns |= {name: texts.of(name, numbers_of) for name in texts.values.type.names}
    return pa.RecordBatch.from_pydict(columns)


def _rows(counted: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return rows of usage, and of the hours of completed requests, from requests that are counted by the hour."""
    day = pc.cast(counted["hour"], USAGE.field("day").type)
    columns = [day if name == "day" else counted[name] for name in USAGE.names]
    yield rows_of("usage", pa.StructArray.from_arrays(columns, fields=list(USAGE)))
    completed = counted.filter(pc.equal(counted["outcome"], COMPLETED))
    if completed.num_rows:
        nothing = {
            "by": pa.repeat(pa.scalar(BY_LOG), len(completed)),
            "asked": pa.repeat(pa.scalar(value=False), len(completed)),
            "failure": pa.nulls(len(completed), pa.string()),
        }
        columns = [nothing[name] if name in nothing else completed[name] for name in HOUR.names]
        yield rows_of("hour", summed("hour", [pa.StructArray.from_arrays(columns, fields=list(HOUR))]))


# ---------------------------------------------------------------- sums


def add_up(
    parsed: Iterable[pa.RecordBatch], names: Pseudonyms | None = None, most: int = _MOST
) -> Iterator[pa.RecordBatch]:
    """Hold rows of usage, hours and apps back and yield their sums; pass on rows of other kinds as they come.

    Takes and yields `featuregate_fleet.evidence.columns.ROWS`; each batch has rows of one kind. More than ``most`` rows
    of a kind are added up at once; where that leaves more than half of them, they go on. With ``names``, principals and
    addresses are hashed, and texts of lines in quarantine are left out, because the place of a name in them is unknown.
    """
    for batch in _sums(parsed, most):
        kind = batch.column("kind")[0].as_py() if names and batch.num_rows else None
        yield rows_of(kind, _changed(batch.column(kind), kind, names)) if names and kind in _CHANGES else batch


def _sums(parsed: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    held: dict[str, list[pa.Array]] = {kind: [] for kind in KEYS}
    counts = dict.fromkeys(KEYS, 0)
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
    """Return rows of a kind that is added up, one for all that are equal in what is not aggregated."""
    keys, columns = KEYS[kind], KINDS[kind]
    how = {name: AGGREGATED[name] for name in columns.names if name not in keys}
    same = pa.Table.from_struct_array(pa.chunked_array(rows)).group_by(keys, use_threads=False)  # a task has one core
    sums = same.aggregate(list(how.items())).rename_columns([*keys, *how]).select(columns.names)
    return sums.cast(columns).combine_chunks().to_struct_array().combine_chunks()


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


# ---------------------------------------------------------------- hashes in place of names


def _changed(rows: pa.StructArray, kind: str, names: Pseudonyms) -> pa.StructArray:
    columns = rows.flatten()
    for name, change in _CHANGES[kind].items():
        index = rows.type.get_field_index(name)
        columns[index] = change(columns[index], names)
    return pa.StructArray.from_arrays(columns, fields=list(rows.type))


def _hashed(texts: pa.Array, names: Pseudonyms) -> pa.Array:
    found = texts.dictionary_encode()
    hashes = [names.of(each) for each in found.dictionary.to_pylist()]
    return pa.array(hashes, texts.type).take(found.indices)


def _members(members: pa.Array, names: Pseudonyms) -> pa.Array:
    found = members.to_pylist()
    for member in (one for each in found for one in each or ()):
        member["client_host"] = member["client_host"] and names.of(member["client_host"])
    return pa.array(found, members.type)


def _left_out(texts: pa.Array, _: Pseudonyms) -> pa.Array:
    return pa.repeat(pa.scalar("", texts.type), len(texts))


_CHANGES: Final[dict[str, dict[str, Callable[[pa.Array, Pseudonyms], pa.Array]]]] = {
    # All else in a connection is known or can be guessed: a hash of the address alone would tell it.
    "usage": {"principal": _hashed, "client_host": _hashed, "connection": _hashed},
    "quarantine": {"raw": _left_out},
    "record": {"members": _members},
}


# ---------------------------------------------------------------- times of lines that do not say their zone


def placed(times: pa.Array, in_utc: pa.Array, time_zone: str) -> pa.Array:
    """Return times in UTC, of lines that say their zone, or of those that do not."""
    return pc.if_else(pc.fill_null(in_utc, fill_value=False), times, to_utc(times, time_zone))


def to_utc(times: pa.Array, time_zone: str) -> pa.Array:
    """Return times in UTC that were read as if they were. An hour that a zone has twice is the first one."""
    if time_zone == "UTC":
        return times
    wall = pc.cast(times, pa.timestamp("us"))
    moved = pc.assume_timezone(wall, time_zone, ambiguous="earliest", nonexistent="earliest")
    return pc.cast(moved, times.type)
