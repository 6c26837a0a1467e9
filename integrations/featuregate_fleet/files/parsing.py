"""From pieces of files, and from records of a topic of logs, to rows: what executors run within ``mapInArrow``."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from featuregate_fleet.evidence.batches import parse_files, parse_in_turns
from featuregate_fleet.evidence.lines.request import LONGEST
from featuregate_fleet.evidence.paths import LogFile, LogTimes, partition_uri
from featuregate_fleet.evidence.topic_records import RECORDS
from featuregate_fleet.evidence.usage import add_up
from featuregate_fleet.files.pieces import Piece, PieceReader, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_NODE_ID: Final = re.compile(rb"0|[1-9]\d{0,9}")


def parse_groups(
    numbers: Iterable[pa.RecordBatch], *, groups: Sequence[Sequence[Piece]], names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Read and parse the pieces of the groups with these numbers, as `parse_pieces` does."""
    chosen = (piece for batch in numbers for number in batch.column(0).to_pylist() for piece in groups[number])
    return parse_pieces(chosen, names)


def parse_pieces(pieces: Iterable[Piece], names: Pseudonyms | None = None) -> Iterator[pa.RecordBatch]:
    """Read and parse pieces; yield `featuregate_fleet.evidence.columns.ROWS`, added up, with hashes for ``names``."""
    return add_up(parse_files(map(PieceReader, pieces)), names)


def parse_records(
    batches: Iterable[pa.RecordBatch], *, topic_id: str, times: LogTimes, names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Parse the values of `featuregate_fleet.evidence.topic_records.RECORDS`, which are lines or texts of some lines.

    Yield `featuregate_fleet.evidence.columns.ROWS`, added up: ``at`` of a line in quarantine is the offset of its
    record, and each partition and broker has a row of kind ``source`` with its counts alone. A line follows another one
    of the same partition and broker. With ``names``, principals and addresses are hashed.
    """
    # Up to which offset a batch reads is not known here.
    more = {"source": topic_id, "position": 0}
    parsed = parse_in_turns((part for batch in batches for part in _parts(batch, times)), more)
    return add_up(parsed, names)


def _parts(batch: pa.RecordBatch, times: LogTimes) -> Iterator[tuple[LogFile, pa.RecordBatch]]:
    found: dict[tuple[str, bytes | None], list[tuple[int, bytes]]] = defaultdict(list)
    newest: dict[tuple[str, bytes | None], datetime] = {}
    for row in zip(*(batch[name].to_pylist() for name in RECORDS.names), strict=True):
        topic, partition, offset, at, broker, value = row
        place = partition_uri(topic, partition), broker
        lines = (value or b"").removesuffix(b"\n").split(b"\n")
        found[place] += [(offset, line) for line in lines]
        newest[place] = max(at, newest.get(place, at))
    for (uri, said), lines in found.items():
        broker = said.decode() if said is not None and _NODE_ID.fullmatch(said) else None
        file = LogFile(uri, uri, broker, 0, times, not_after=newest[uri, said])
        yield file, lines_of([(line[:LONGEST], offset, len(line)) for offset, line in lines])
