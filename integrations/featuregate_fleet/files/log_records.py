"""Records of a topic to which a shipper writes request logs, in batches, become rows. Executors run it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from featuregate_fleet.evidence.batches import parse_in_turns
from featuregate_fleet.evidence.columns import FROM_LOGS, rows_from
from featuregate_fleet.evidence.hidden_names import hidden
from featuregate_fleet.evidence.paths import LogFile, LogTimes, partition_uri
from featuregate_fleet.evidence.sums import add_up
from featuregate_fleet.evidence.text import LINES, LONGEST
from featuregate_fleet.files.pieces import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

"""How rows of kind ``source`` name this input."""

RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("broker", pa.binary()),  # what the header or the key says
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)
"""What Spark hands to `parse_records`."""

_NODE_ID: Final = re.compile(rb"0|[1-9]\d{0,9}")


def parse_records(
    batches: Iterable[pa.RecordBatch], *, topic_id: str, times: LogTimes, names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Parse the values of `RECORDS`, which are lines or texts of some lines.

    Yield `featuregate_fleet.evidence.columns.ROWS`, added up: ``at`` of a line in quarantine is the offset of its
    record, and each partition and broker has a row of kind ``source`` with its counts alone. A line follows another one
    of the same partition and broker. With ``names``, principals and addresses are hashed.
    """
    parsed = parse_in_turns(part for batch in batches for part in _parts(batch, times))
    return hidden(add_up(_with_counts_of(topic_id, parsed)), names)


def _with_counts_of(topic_id: str, parsed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave counts alone in rows of kind ``source``: up to which offset a batch reads is not known here."""
    for batch in parsed:
        counts = [row for row in batch.column("source").to_pylist() if row is not None]
        if not counts:
            yield batch
            continue
        of_topic = {"source": topic_id, "input": FROM_LOGS, "position": 0, "size": 0, "tail": None}
        yield rows_from("source", [row | of_topic for row in counts])


def _parts(batch: pa.RecordBatch, times: LogTimes) -> Iterator[tuple[LogFile, pa.RecordBatch]]:
    """Yield the lines of each partition and broker."""
    found: dict[tuple[str, bytes | None], list[tuple[int, bytes]]] = defaultdict(list)
    newest: dict[tuple[str, bytes | None], datetime] = {}
    for row in zip(*(batch[name].to_pylist() for name in RECORDS.names), strict=True):
        topic, partition, offset, broker, at, value = row
        place = partition_uri(topic, partition), broker
        lines = (value or b"").removesuffix(b"\n").split(b"\n")
        found[place] += [(offset, line) for line in lines]
        newest[place] = max(at, newest.get(place, at))
    for (uri, said), lines in found.items():
        broker = said.decode() if said is not None and _NODE_ID.fullmatch(said) else None
        file = LogFile(uri, uri, broker, 0, times, not_after=newest[uri, said])
        yield file, _lines(lines)


def _lines(lines: list[tuple[int, bytes]]) -> pa.RecordBatch:
    texts = texts_of(pa.array([line[:LONGEST] for _, line in lines], pa.binary()))
    places = pa.array([offset for offset, _ in lines], pa.int64())
    lengths = pa.array([len(line) for _, line in lines], pa.int64())
    return pa.RecordBatch.from_arrays([texts, places, lengths], schema=LINES)
