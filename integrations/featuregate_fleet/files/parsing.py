"""From pieces of files to rows: what executors run within ``mapInArrow``."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from featuregate_fleet.evidence.batches import FileText, parse_files
from featuregate_fleet.evidence.hidden_names import hidden
from featuregate_fleet.evidence.sums import add_up
from featuregate_fleet.files.opening import written_at
from featuregate_fleet.files.pieces import Piece, PieceReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms


def parse_groups(
    numbers: Iterable[pa.RecordBatch], *, groups: Sequence[Sequence[Piece]], names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Read and parse the pieces of the groups with these numbers; yield `featuregate_fleet.evidence.columns.ROWS`.

    Usage and hours are added up. With ``names``, principals and addresses are hashed.
    """
    chosen = (piece for batch in numbers for number in batch.column(0).to_pylist() for piece in groups[number])
    return hidden(parse_pieces(chosen), names)


def parse_pieces(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Read and parse pieces; yield `featuregate_fleet.evidence.columns.ROWS`, added up."""
    return add_up(parse_files(map(_text_of, pieces)))


def _text_of(piece: Piece) -> FileText:
    reader = PieceReader(piece)
    parts = reader.parts()
    first = list(islice(parts, 1))  # where a compressed text begins is known once it is opened
    file = piece.file._replace(not_after=written_at(piece.file), source=reader.source)
    return FileText(file, chain(first, parts), reader.start, reader.rest, reader.about)
