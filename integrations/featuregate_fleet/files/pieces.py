"""Reads files of logs in pieces, as batches of lines. Damage ends the reading of one file, and never that of others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.errors import StorageFailed
from featuregate_fleet.evidence.reasons import UNREADABLE, VANISHED
from featuregate_fleet.evidence.text import LINES, LONGEST, Unreadable, lines_before
from featuregate_fleet.files.contents import COMPRESSED, open_text
from featuregate_fleet.files.formats import format_of, text_in
from featuregate_fleet.files.opening import open_log, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate_fleet.evidence.paths import LogFile

_PIECE: Final = 128 * 2**20
_MOST_LINES: Final = 2**18
"""Pieces that are placed at once: each takes some tens of bytes in addition to its text, which may be empty."""
_HEADER: Final = 2**20
"""Bytes before a piece in which the line before it begins, if that is the header of a refusal, and those of a request
that a container runtime has split."""
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:\[\s*)*+\{|(?:\[\s*)++)\s*\"")
_JOINTS: Final = (b'}{"', b'},{"', b'}, {"', b'],["', b'], ["')
"""What stands between two objects or lists, and never within a text of JSON, in which quotes have a backslash."""
_OPENS: Final = len(b'{"')
_BATCH: Final = 8192
"""Lines: those that go to the quarantine become objects of Python."""


class Piece(NamedTuple):
    """The lines of one file that begin at or after ``start``, and before ``end``.

    Both are bytes of the text; those of a compressed file count once it is decompressed.
    """

    file: LogFile
    start: int = 0
    """The beginning of a line, or a byte within one that belongs to the piece before."""
    end: int | None = None
    """None for the end of the file."""


def pieces_of(file: LogFile) -> list[Piece]:
    """Cut a large file of plain text into pieces. Another one cannot be cut."""
    if _is_packed(file):
        return [Piece(file)]
    starts = range(0, max(file.size, 1), _PIECE)
    return [Piece(file, start, min(start + _PIECE, file.size)) for start in starts]


def rest_of(file: LogFile, at: int) -> Piece:
    """Return the piece that begins where the reading of a file ended early."""
    if not file.size or _is_packed(file):
        return Piece(file, at)
    return Piece(file, at, min(at - at % _PIECE + _PIECE, file.size))


def as_it_is(file: LogFile) -> LogFile:
    """Return a file with the size that it has now; 0 for one that is gone."""
    path = path_of(file)
    return file._replace(size=path.stat().st_size if path.is_file() else 0)


def read_piece(piece: Piece) -> Iterator[pa.RecordBatch | Unreadable]:
    """Yield batches of `LINES`, and `Unreadable` at the end if the rest of the piece cannot be read.

    Lines before ``start`` belong to the piece before, and only say what the first one goes on with.
    """
    cutter = _Cutter(0)
    try:
        file, path = open_text(piece.file)
        with file:
            found = format_of(file, path)
            cutter = _Cutter(0 if found else max(piece.start - _HEADER, 0))
            file.seek(cutter.at)
            for begin, batch in _cut(cutter, text_in(file, found), piece.end):
                if begin is None:
                    yield from _within(piece, batch)
                elif piece.start <= begin and (piece.end is None or begin < piece.end):
                    yield batch
    except FileNotFoundError as error:
        why = "there is no such file any more" if error.errno else str(error)
        yield Unreadable(max(piece.start, cutter.at), VANISHED, why)
    except StorageFailed:
        raise
    except Exception as error:  # noqa: BLE001 - also one that nobody foresaw: one file may not end the reading of others
        yield Unreadable(max(piece.start, cutter.at), UNREADABLE, str(error) or type(error).__name__)


def lines_of(text: bytes) -> Iterator[pa.RecordBatch]:
    """Yield batches of `LINES` of a text."""
    cutter = _Cutter(0)
    for _, batch in (*cutter.feed(text), *cutter.last_line()):
        yield batch


def pieces_behind(file: LogFile, at: int) -> list[Piece]:
    """Return the pieces of a file of which a part was read under another name, up to a byte of its text."""
    pieces = [piece for piece in pieces_of(file) if piece.end is None or piece.end > at]
    rest = [piece._replace(start=max(piece.start, at)) for piece in pieces]
    return rest or [Piece(file, file.size, file.size)]


def _cut(
    cutter: _Cutter, blocks: Iterator[bytes | memoryview], end: int | None
) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    for block in blocks:
        yield from cutter.feed(block)
        if end is not None and cutter.begin >= end:
            return
    yield from cutter.last_line()
    if end is not None and cutter.at < end:
        raise EOFError(f"the file was cut to {cutter.at} bytes after it was listed")


def _is_packed(file: LogFile) -> bool:
    """Return whether a file is anything but plain text; False for one that cannot be read."""
    if file.content is not None:
        return file.content.endswith(COMPRESSED)
    try:
        with open_log(file) as opened:
            return format_of(opened, file.path) is not None
    except OSError:  # its reader says so
        return False


def _within(piece: Piece, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Leave out the lines that belong to other pieces, except for the last one before, and those that may go on."""
    last = max(lines_before(batch, piece.start) - 1, 0)
    first = min(last, lines_before(batch, piece.start - _HEADER))
    end = batch.num_rows if piece.end is None else lines_before(batch, piece.end)
    if first < end:
        yield batch.slice(first, end - first)


class _Cutter:
    """Cuts blocks of text into lines, and keeps the line that is not complete yet.

    JSON may have no line breaks: a line that is longer than `LONGEST` is cut between its objects. Such a part has the
    byte at which its line begins: the piece that has that byte reads all of the line.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        """The byte at which the next line begins, or the next part of one."""
        self.begin = at
        """The byte at which that line begins."""
        self._knows = not at
        """Whether that is known: a piece may begin within a line."""
        self._begun = b""
        self._length = 0  # of the line that has begun; more than is kept of a long one

    def feed(self, block: bytes | memoryview) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Return the lines that end in this block, and parts of the one that has begun."""
        end = bytes(block).find(b"\n") if self._length else -1
        if end >= 0 and (self.begin < self.at or self._length + end > LONGEST):
            yield from self._parts(block[:end])
            block = block[end:]
        if self.begin < self.at and block[:1] == b"\n":
            yield from self._rest()
            self.at = self.begin = self.at + 1
            block = block[1:]
        end = len(block) - 1 if block[-1:] == b"\n" else bytes(block).rfind(b"\n")
        if end >= 0:
            for batch in self._lines(memoryview(block)[:end]):
                yield None, batch
            self.begin, self._knows = self.at, True
            block = block[end + 1 :]
        yield from self._parts(block)

    def last_line(self) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Return the line that ends with the file, without a line break."""
        if self.begin < self.at:
            yield from self._rest()
        elif self._length:
            for batch in self._lines(b""):
                yield None, batch
            self.at -= 1  # no line break

    def _parts(self, text: bytes | memoryview) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Add what a line goes on with, and return the parts of a line that is too long."""
        self._length += len(text)
        if len(self._begun) <= LONGEST:
            self._begun += text
            while len(self._begun) > LONGEST and (joint := self._joint()):
                yield self._part(joint, joint)
            self._begun = self._begun[: LONGEST + 1]

    def _joint(self) -> int:
        """Return where the last object begins that fits; 0 where there is none, or the line began before the piece."""
        if not self._knows or not _JSON.match(self._begun):
            return 0
        found = ((self._begun.rfind(joint, 0, LONGEST), len(joint)) for joint in _JOINTS)
        return max((at + length - _OPENS for at, length in found if at >= 0), default=0)

    def _part(self, kept: int, length: int) -> tuple[int, pa.RecordBatch]:
        text, self._begun = self._begun[:kept], self._begun[kept:]
        at, self.at = self.at, self.at + length
        self._length -= length
        columns = [texts_of(pa.array([text[:LONGEST]], pa.binary())), pa.array([at]), pa.array([length])]
        return self.begin, pa.RecordBatch.from_arrays(columns, schema=LINES)

    def _rest(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return what is left of a line of which there were parts."""
        if self._length:
            yield self._part(len(self._begun), self._length)

    def _lines(self, text: memoryview | bytes) -> Iterator[pa.RecordBatch]:
        dropped = self._length - len(self._begun)
        whole_text = b"".join((self._begun, text)) if self._begun else text
        self._begun, self._length = b"", 0
        lines = pc.split_pattern(_one_value(whole_text), b"\n").values
        for first in range(0, len(lines), _MOST_LINES):
            yield from self._placed(lines.slice(first, _MOST_LINES), 0 if first else dropped)

    def _placed(self, lines: pa.Array, dropped: int) -> Iterator[pa.RecordBatch]:
        """Return lines with their places; of the first one some bytes are dropped already."""
        lengths = pc.cast(pc.binary_length(lines), pa.int64())
        if dropped:
            lengths = pa.concat_arrays([pc.add(lengths[:1], dropped), lengths[1:]])
        ends = pc.add(pc.cumulative_sum(pc.add(lengths, 1)), self.at)
        starts = pc.subtract(ends, pc.add(lengths, 1))
        if pc.max(lengths).as_py() > LONGEST:
            lines = pc.binary_slice(lines, 0, LONGEST)
        whole = pa.RecordBatch.from_arrays([texts_of(lines), starts, lengths], schema=LINES)
        self.at = ends[-1].as_py()
        for row in range(0, whole.num_rows, _BATCH):
            yield whole.slice(row, _BATCH)


def _one_value(text: bytes | memoryview) -> pa.Array:
    """Return an array of one text, which is not copied."""
    ends = pa.array([0, len(text)], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(text)])


def texts_of(lines: pa.Array) -> pa.Array:
    """Return lines as texts, with a replacement for bytes that are not UTF-8, and without carriage returns."""
    try:
        texts = pc.cast(lines, pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([line.decode("utf-8", "replace") for line in lines.to_pylist()], pa.string())
    return pc.utf8_rtrim(texts, "\r") if pc.any(pc.ends_with(texts, "\r")).as_py() else texts
