"""Reads files of logs in pieces, as batches of lines. Damage ends the reading of one file, and never that of others."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.errors import StorageFailed
from featuregate_fleet.evidence.file_parser import FileText, Rest
from featuregate_fleet.evidence.lines.fast_path import LINES, lines_before
from featuregate_fleet.evidence.lines.request import LONGEST
from featuregate_fleet.evidence.paths import LogFile, ReadAgain
from featuregate_fleet.evidence.reasons import UNREADABLE, VANISHED
from featuregate_fleet.files.opening import format_of, open_log, text_in
from featuregate_fleet.files.storage import written_at
from featuregate_fleet.files.texts import EndOfText, KnownText, begins_with, end_of_lines, read_up_to, tail_at, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator


_PIECE: Final = 128 * 2**20
_HEADER: Final = 2**20
"""Bytes before a piece in which the line before it begins, if that is the header of a refusal, and those of a request
that a container runtime has split."""
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:\[\s*)*+\{|(?:\[\s*)++)\s*\"")
_JOINTS: Final = (b'}{"', b'},{"', b'}, {"', b'],["', b'], ["')
"""What stands between two objects or lists, and never within a text of JSON, in which quotes have a backslash."""
_OPENS: Final = len(b'{"')
_REPLACED: Final = "another file has its name since it was listed: the next run looks for its text"
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
    final: bool = True
    """Whether nobody writes the file any more: its last line is read, also without an end."""
    stamp: str = ""
    """The stamp of the file when it was listed."""
    known: frozenset[KnownText] = frozenset()
    """Up to where a compressed text may be read."""
    name: str | None = None
    """The name of the text in the table, which may be that of a shorter beginning than the one of its file."""
    again: ReadAgain | None = None
    """What is read of it once more, where that is asked."""
    tail: str | None = None
    """The hash of what is before ``start``, where a run has read up to there before."""


def pieces_of(piece: Piece) -> list[Piece]:
    """Cut what is to be read of a file of plain text into pieces. A compressed one has one."""
    if piece.end is None:
        return [piece]
    last = piece.end - (0 if piece.final else _PIECE // 8)  # no piece begins in a last line that waits for its end
    cuts = [*range(piece.start - piece.start % _PIECE + _PIECE, last, _PIECE), piece.end]
    again = piece.again and piece.again._replace(lines=0)
    others = [piece._replace(start=start, end=end, tail=None, again=again) for start, end in pairwise(cuts)]
    return [piece._replace(end=cuts[0]), *others]


class PieceReader(FileText):
    """Reads one piece, and says afterwards how far it came. Of a compressed one, its parts say where it begins."""

    def __init__(self, piece: Piece) -> None:
        written = written_at(piece.file.uri) if piece.file.times.layout else None  # a storage is asked for it
        file = piece.file._replace(not_after=written, source=piece.name or piece.file.source)
        super().__init__(file, start=piece.start, again=piece.again)
        if piece.end is not None and piece.end < file.size:
            self.rest = Rest.NEXT
        elif not piece.final:
            self.rest = Rest.LATER
        self._piece = piece
        self._position, self._tail = max(piece.known)[:2] if piece.known else (piece.start, piece.tail)
        self._ending: EndOfText | None = None
        self._failed: tuple[str, str] | tuple[None, None] = (None, None)

    def about(self, begun: int | None = None) -> dict[str, object]:
        """Return what rows of kind ``source`` have of this piece."""
        reason, why = self._failed
        if begun is not None and begun < self._position:
            self._position, self._tail = begun, tail_of(self._piece.file, begun)
        return {
            "stamp": self._piece.stamp,
            "position": self._position,
            "tail": self._tail,
            "reason": reason,
            "why": why,
            "again": self.again.lines if self.again and not reason else None,
        }

    def parts(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of `LINES`, those of a damaged file up to the damage."""
        if self._piece.end is not None and self._piece.start >= self._piece.end:
            return  # all of it was read under another name, or before it was touched: it may be gone by now
        try:
            with open_log(self._piece.file) as opened:
                yield from self._read(opened)
        except FileNotFoundError as error:
            self._fail(VANISHED, "there is no such file any more" if error.errno else str(error))
        except StorageFailed:
            raise
        except Exception as error:  # noqa: BLE001 - also one that nobody foresaw: one file may not end the reading of others
            self._fail(UNREADABLE, str(error) or type(error).__name__)

    def _fail(self, reason: str, why: str) -> None:
        self._failed = reason, why
        if self._ending is not None:
            self._position, self._tail = self._ending.lines

    def _read(self, opened: IO[bytes]) -> Iterator[pa.RecordBatch]:
        file = self._piece.file
        self._tail = self._tail if self._position else tail_at(opened, 0)
        if not begins_with(opened, file.path, file.source or ""):
            raise FileNotFoundError(_REPLACED)
        found = format_of(opened, file.path)
        yield from self._packed(opened, found) if found else self._plain(opened)

    def _plain(self, opened: IO[bytes]) -> Iterator[pa.RecordBatch]:
        piece = self._piece
        end = piece.file.size if piece.end is None else piece.end
        if end >= piece.file.size and not piece.final:
            end = end_of_lines(opened, piece.start, end)
        cutter = _Cutter(max(piece.start - _HEADER, 0))
        read_to = end, tail_at(opened, end)  # copytruncate may empty the file while it is read
        opened.seek(cutter.at)
        try:
            if end > piece.start:
                yield from self._within(cutter, text_in(opened, None), end)
        except EOFError:
            if (cut := end_of_lines(opened, piece.start, cutter.at)) > piece.start:
                self._position, self._tail = cut, tail_at(opened, cut)
            raise
        if not piece.final and tail_at(opened, end) != read_to[1]:
            raise FileNotFoundError(_REPLACED)  # it was emptied, and has grown beyond what was to be read
        self._position, self._tail = read_to

    def _packed(self, opened: IO[bytes], found: str) -> Iterator[pa.RecordBatch]:
        if self._piece.known:
            known, start = read_up_to(opened, self._piece.known)
            self.file = self.file._replace(source=(known and known.name) or self._piece.file.source)
            if self.again and self.again.lines and self.file.source == self._piece.name:
                self.again = self.again._replace(start=min(start, self.again.start))
            else:
                self.start, self.again = start, self.again and ReadAgain()
        self._ending = EndOfText()
        yield from self._within(_Cutter(0), self._ending.follow(text_in(opened, found)), None)
        self._position, self._tail = self._ending.whole

    def _within(
        self, cutter: _Cutter, blocks: Iterator[bytes | memoryview], end: int | None
    ) -> Iterator[pa.RecordBatch]:
        for begin, batch in _cut(cutter, blocks, end):
            if begin is None:
                yield from _those(batch, self.start, end)
            elif self.start <= begin and (end is None or begin < end):
                yield batch


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


def _those(batch: pa.RecordBatch, start: int, before: int | None) -> Iterator[pa.RecordBatch]:
    """Leave out the lines that belong to other pieces, except for the last one before, and those that may go on."""
    last = max(lines_before(batch, start) - 1, 0)
    first = min(last, lines_before(batch, start - _HEADER))
    end = batch.num_rows if before is None else lines_before(batch, before)
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
            yield from self._lines(memoryview(block)[:end])
            self.begin, self._knows = self.at, True
            block = block[end + 1 :]
        yield from self._parts(block)

    def last_line(self) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Return the line that ends with the file, without a line break."""
        if self.begin < self.at:
            yield from self._rest()
        elif self._length:
            yield from self._lines(b"")
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
        return self.begin, lines_of([(text[:LONGEST], at, length)])

    def _rest(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._length:
            yield self._part(len(self._begun), self._length)

    def _lines(self, text: memoryview | bytes) -> Iterator[tuple[None, pa.RecordBatch]]:
        dropped = self._length - len(self._begun)
        whole_text = b"".join((self._begun, text)) if self._begun else text
        self._begun, self._length = b"", 0
        ends = pa.array([0, len(whole_text)], pa.int32()).buffers()[1]
        one_value = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(whole_text)])  # without a copy
        lines = pc.split_pattern(one_value, b"\n").values
        for first in range(0, len(lines), _BATCH):
            yield None, self._placed(lines.slice(first, _BATCH), 0 if first else dropped)

    def _placed(self, lines: pa.Array, dropped: int) -> pa.RecordBatch:
        """Return lines with their places; of the first one some bytes are dropped already."""
        lengths = pc.cast(pc.binary_length(lines), pa.int64())
        if dropped:
            lengths = pa.concat_arrays([pc.add(lengths[:1], dropped), lengths[1:]])
        ends = pc.add(pc.cumulative_sum(pc.add(lengths, 1)), self.at)
        starts = pc.subtract(ends, pc.add(lengths, 1))
        if pc.max(lengths).as_py() > LONGEST:
            lines = pc.binary_slice(lines, 0, LONGEST)
        self.at = ends[-1].as_py()
        return pa.RecordBatch.from_arrays([texts_of(lines), starts, lengths], schema=LINES)


def lines_of(lines: list[tuple[bytes, int, int]]) -> pa.RecordBatch:
    """Return `LINES`: of each its bytes, where it begins, and its length."""
    texts, *numbers = zip(*lines, strict=True)
    return pa.record_batch([texts_of(pa.array(texts, pa.binary())), *map(pa.array, numbers)], schema=LINES)


def texts_of(lines: pa.Array) -> pa.Array:
    """Return lines as texts, with a replacement for bytes that are not UTF-8, and without carriage returns."""
    try:
        texts = pc.cast(lines, pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([line.decode("utf-8", "replace") for line in lines.to_pylist()], pa.string())
    return pc.utf8_rtrim(texts, "\r") if pc.any(pc.ends_with(texts, "\r")).as_py() else texts
