"""Counts requests that were read, of one or several files: rows of usage and of hours. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import HOUR, USAGE, rows_of
from featuregate_fleet.evidence.lines.fast_path import FIELDS, FastLines
from featuregate_fleet.evidence.sums import summed
from featuregate_fleet.evidence.wall_times import placed, to_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMPLETED: Final = "completed"
REFUSED: Final = "refused"
SEEN: Final = pa.struct([("broker", pa.string()), *FIELDS, ("outcome", pa.string()), ("in_utc", pa.bool_())])
_OF_LINE: Final = ("client_id", "client_host", "connection")


def usage_of(
    fast: FastLines, brokers: Sequence[tuple[str, int]], others: Sequence[dict[str, Any]], time_zone: str
) -> Iterator[pa.RecordBatch]:
    """Count requests whose times are in one zone; yield `featuregate_fleet.evidence.columns.ROWS`.

    Parameters
    ----------
    brokers
        Those that logged the lines of the fast path, in order, each with its number of lines.
    others
        The requests and refusals that the full parser has read, each with its broker.
    """
    if pc.any(fast.read).as_py():
        yield from _rows(_counted(fast, brokers, time_zone))
    if others:
        table = pa.Table.from_struct_array(pa.array(others, SEEN))
        times = placed(table["time"], table["in_utc"], time_zone)
        columns = {
            "hour": pc.floor_temporal(times, unit="hour"),
            "count": pa.repeat(pa.scalar(1, pa.int64()), len(table)),
            "first_seen": times,
            "last_seen": times,
        }
        for name, column in columns.items():
            table = table.append_column(name, column)
        yield from _rows(table.combine_chunks().to_batches()[0])


def _counted(fast: FastLines, brokers: Sequence[tuple[str, int]], time_zone: str) -> pa.RecordBatch:
    """Count the lines of the fast path by the numbers of their texts, which is faster than by the texts."""
    names = pa.array(sorted({broker for broker, _ in brokers}))
    numbers = {name: pa.scalar(number) for number, name in enumerate(names.to_pylist())}
    of_broker = pa.concat_arrays([pa.repeat(numbers[broker], count) for broker, count in brokers])
    lines = pa.table({"broker": of_broker, "api": fast.api.index, "client": fast.client.index})
    for name in _OF_LINE:
        lines = lines.append_column(name, getattr(fast, name))
    lines = lines.append_column("time", to_utc(pa.chunked_array([fast.time]), time_zone))
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
            "asked": pa.repeat(pa.scalar(value=False), len(completed)),
            "failure": pa.nulls(len(completed), pa.string()),
        }
        columns = [nothing[name] if name in nothing else completed[name] for name in HOUR.names]
        yield rows_of("hour", summed("hour", [pa.StructArray.from_arrays(columns, fields=list(HOUR))]))
