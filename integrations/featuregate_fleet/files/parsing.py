"""From pieces of files to rows of tables: what executors run within ``mapInArrow``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from featuregate_fleet.evidence.batches import parse_file
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.sums import add_up
from featuregate_fleet.files.aggregation import is_aggregate, read_aggregate
from featuregate_fleet.files.opening import written_at
from featuregate_fleet.files.pieces import Piece, read_piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa


def parse_pieces(
    numbers: Iterable[pa.RecordBatch], *, pieces: Sequence[Piece], kept: KeptLines = KeptLines.NONE
) -> Iterator[pa.RecordBatch]:
    """Read and parse the pieces with these numbers, and yield `featuregate_fleet.evidence.columns.PARSED`, added up."""
    chosen = (pieces[number] for batch in numbers for number in batch.column(0).to_pylist())
    return add_up(chain.from_iterable(_parse(piece, kept) for piece in chosen))


def _parse(piece: Piece, kept: KeptLines) -> Iterator[pa.RecordBatch]:
    if not is_aggregate(piece.file):
        goes_on = piece.end is not None and (piece.end < piece.file.size or piece.start == piece.end)
        file = piece.file._replace(not_after=written_at(piece.file))
        yield from parse_file(file, read_piece(piece), kept, piece.start, goes_on=goes_on)
    elif piece.start == 0:  # counts are read as a whole
        yield from read_aggregate(piece.file)
