"""From pieces of files to rows of tables: what executors run within ``mapInArrow``.

A collector may hand in counts of requests in place of lines, which are made and read back here.
"""

from __future__ import annotations

from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from featuregate_fleet.errors import StorageFailed
from featuregate_fleet.evidence.aggregates import BEGINNING, as_text, from_text
from featuregate_fleet.evidence.batches import FileText, parse_file, parse_files
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.paths import LogFile, LogTimes, log_file
from featuregate_fleet.evidence.reasons import UNKNOWN_BROKER, UNREADABLE
from featuregate_fleet.evidence.sums import add_up
from featuregate_fleet.evidence.text import Unreadable
from featuregate_fleet.files.contents import begins_with, content_of
from featuregate_fleet.files.opening import look_at_each, path_of, size_now, written_at
from featuregate_fleet.files.pieces import Piece, lines_of, read_piece
from featuregate_fleet.files.storage import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

FILES: Final = pa.schema([("uri", pa.string()), ("size", pa.int64()), ("content", pa.string())])
"""Files that Spark has listed, with their contents, as `featuregate_fleet.files.pieces.content_of` returns them."""
_BEGINNING: Final = BEGINNING.encode()
_ANY_BROKER: Final = "0"
"""The reader of the counts knows it."""


def parse_pieces(
    numbers: Iterable[pa.RecordBatch], *, pieces: Sequence[Piece], kept: KeptLines = KeptLines.NONE
) -> Iterator[pa.RecordBatch]:
    """Read and parse the pieces with these numbers, and yield `featuregate_fleet.evidence.columns.PARSED`, added up."""
    chosen = (pieces[number] for batch in numbers for number in batch.column(0).to_pylist())
    return add_up(_parse(chosen, kept))


def look_at_files(files: Iterable[pa.RecordBatch], *, root: str) -> Iterator[pa.RecordBatch]:
    """Take batches of URIs and sizes of files below a folder, and yield them as `FILES`.

    A disk is asked for the sizes of now. There, threads would take four times as long as the looks.
    """
    for batch in files:
        found = [log_file(root, *row.values()) for row in batch.to_pylist()]
        if found and is_local(path_of(found[0])):  # since Spark has listed it, the name may be that of another one
            found = [file._replace(size=size_now(file)) for file in found]
            contents = list(map(content_of, found))
        else:
            contents = list(look_at_each(content_of, found))
        sizes = pa.array([file.size for file in found], pa.int64())
        yield pa.RecordBatch.from_arrays([batch["uri"], sizes, pa.array(contents, pa.string())], schema=FILES)


def _parse(pieces: Iterable[Piece], kept: KeptLines) -> Iterator[pa.RecordBatch]:
    for are_counts, some in groupby(map(_text_of, pieces), itemgetter(0)):
        texts = (text for _, text in some)
        if are_counts:  # they are read as a whole
            yield from chain.from_iterable(read_aggregate(text.file) for text in texts if text.start == 0)
        else:
            yield from parse_files(texts, kept)


def _text_of(piece: Piece) -> tuple[bool, FileText]:
    """Return the lines of a piece, and whether they are counts, which the first line of the file says.

    A file may have been empty when it was listed, and have its counts by now.
    """
    file = piece.file._replace(not_after=written_at(piece.file))
    parts = read_piece(piece)
    first = list(islice(parts, 1))
    are_counts = any(map(_begins_counts, first)) if first and not piece.start else begins_with(file, _BEGINNING)
    goes_on = piece.end is not None and (piece.end < piece.file.size or piece.start == piece.end)
    return are_counts, FileText(file, chain(first, parts), piece.start, goes_on)


def _begins_counts(part: pa.RecordBatch | Unreadable) -> bool:
    return not isinstance(part, Unreadable) and str(part["value"][0]).startswith(BEGINNING)


def aggregate(text: bytes, times: LogTimes = LogTimes(), not_after: datetime | None = None) -> bytes:  # noqa: B008 - a value
    """Return the counts of whole lines of a log that was last written at a time."""
    file = LogFile("", "", _ANY_BROKER, 0, times, not_after=not_after)
    return as_text(parse_file(file, lines_of(text))).encode()


def read_aggregate(file: LogFile) -> Iterator[pa.RecordBatch]:
    """Yield the counts of a file, or one line in quarantine if it is not whole: half of it would hide clients."""
    try:
        parsed = [] if file.broker is None else list(from_text(file, _lines(file)))
    except StorageFailed:
        raise
    except Exception as error:  # noqa: BLE001 - one file may not end the reading of others
        yield from parse_file(file, [Unreadable(0, UNREADABLE, str(error) or type(error).__name__)])
        return
    if not parsed:
        parsed = list(parse_file(file, [Unreadable(0, UNKNOWN_BROKER, "counts outside of the brokers' folders")]))
    yield from parsed


def _lines(file: LogFile) -> list[str]:
    lines: list[str] = []
    for part in read_piece(Piece(file)):
        if isinstance(part, Unreadable):
            raise ValueError(part.why)  # noqa: TRY004 - the file is wrong, not a type
        lines += part["value"].to_pylist()
    return lines
