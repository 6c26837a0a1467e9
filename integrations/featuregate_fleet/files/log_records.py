"""Records of a topic to which a shipper writes request logs, in batches, become rows of tables."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from featuregate_fleet.evidence.batches import parse_in_turns
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.paths import LogFile, LogTimes, times_of
from featuregate_fleet.evidence.sums import add_up
from featuregate_fleet.evidence.text import LINES, LONGEST
from featuregate_fleet.files.pieces import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

RECORDS: Final = pa.schema(
    [
        ("uri", pa.string()),  # of the partition
        ("offset", pa.int64()),
        ("broker", pa.binary()),  # what the header or the key says
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)
"""What Spark hands to `parse_records`."""

_NODE_ID: Final = re.compile(rb"0|[1-9]\d{0,9}")


def parse_records(
    batches: Iterable[pa.RecordBatch], *, times: Mapping[str, LogTimes], kept: KeptLines = KeptLines.NONE
) -> Iterator[pa.RecordBatch]:
    """Parse the values of `RECORDS`, which are lines or texts of some lines; yield rows of ``PARSED``.

    The ``size`` of a partition is the offset behind its last record, and ``at`` of a line in quarantine is the offset
    of its record. A line follows another one of the same partition and broker.
    """
    return add_up(parse_in_turns((part for batch in batches for part in _parts(batch, times)), kept))


def _parts(batch: pa.RecordBatch, times: Mapping[str, LogTimes]) -> Iterator[tuple[LogFile, pa.RecordBatch]]:
    """Yield the lines of each partition and broker."""
    found: dict[tuple[str, bytes | None], list[tuple[int, bytes]]] = defaultdict(list)
    newest: dict[tuple[str, bytes | None], datetime] = {}
    for uri, offset, broker, at, value in zip(*(batch[name].to_pylist() for name in RECORDS.names), strict=True):
        lines = (value or b"").removesuffix(b"\n").split(b"\n")
        found[uri, broker] += [(offset, line) for line in lines]
        newest[uri, broker] = max(at, newest.get((uri, broker), at))
    for (uri, said), lines in found.items():
        broker = said.decode() if said is not None and _NODE_ID.fullmatch(said) else None
        file = LogFile(uri, uri, broker, lines[-1][0] + 1, times_of(broker, times), not_after=newest[uri, said])
        yield file, _lines(lines)


def _lines(lines: list[tuple[int, bytes]]) -> pa.RecordBatch:
    texts = texts_of(pa.array([line[:LONGEST] for _, line in lines], pa.binary()))
    places = pa.array([offset for offset, _ in lines], pa.int64())
    lengths = pa.array([len(line) for _, line in lines], pa.int64())
    return pa.RecordBatch.from_arrays([texts, places, lengths], schema=LINES)
