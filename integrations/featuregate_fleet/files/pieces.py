"""Reads files of logs in pieces, as batches of lines. Damage ends the reading of one file, and never that of others."""

from __future__ import annotations

import os
import re
import zlib
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.reasons import UNREADABLE, VANISHED
from featuregate_fleet.evidence.text import LINES, LONGEST, Unreadable, lines_before
from featuregate_fleet.files.opening import open_log, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate_fleet.evidence.paths import LogFile

_PIECE: Final = 128 * 2**20
_BLOCK: Final = 8 * 2**20
_COMPRESSED_BLOCK: Final = 2**16
"""A block may grow a thousandfold when it is decompressed."""
_TEXT_BLOCK: Final = 2**20
_MOST_LINES: Final = 2**18
"""That are placed at once: each takes some tens of bytes in addition to its text, which may be empty."""
_HEADER: Final = 2**20
"""Bytes before a piece in which the line before it begins, if that is the header of a refusal, and those of a request
that a container runtime has split."""
_BATCH: Final = 8192
"""Lines: those that go to the quarantine become objects of Python."""
_GZIP: Final = "gzip"
_FORMATS: Final = {
    b"\x1f\x8b": _GZIP,
    b"(\xb5/\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"x\x9c": "deflate",
    b'\x04"M\x18': "lz4",
    b"\xff\x06\0\0sNaPpY": "snappy",
    b"\xff\xfe[\0": "UTF-16",
    b"\xff\xfe2\0": "UTF-16",
}
"""By the first bytes of a file: what Log4j 2, logrotate, shippers and editors write apart from plain text."""
_LONGEST_MARK: Final = max(map(len, _FORMATS))
_BEGINNING: Final = 1024
"""Bytes of a text that tell it from others: some lines, of which each has its time."""
_SEGMENT: Final = re.compile(r"\d+(?:\.[0-9a-f]+)?-\d+-\d+")
COMPRESSED: Final = "+gzip"
SHORT: Final = "+short"
"""Stands before the length of a text that is too short to be known under another name."""
_GZIP_HEADER: Final = 16 + zlib.MAX_WBITS


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
        with open_log(piece.file) as file:
            found = _format(file, piece.file.path)
            cutter = _Cutter(0 if found else max(piece.start - _HEADER, 0))
            file.seek(cutter.at)
            for batch in _cut(cutter, _text(file, found), piece.end):
                yield from _within(piece, batch)
    except FileNotFoundError:
        yield Unreadable(max(piece.start, cutter.at), VANISHED, "there is no such file any more")
    except (OSError, EOFError, zlib.error) as error:
        yield Unreadable(max(piece.start, cutter.at), UNREADABLE, str(error))


def lines_of(text: bytes) -> Iterator[pa.RecordBatch]:
    """Yield batches of `LINES` of a text."""
    cutter = _Cutter(0)
    yield from cutter.feed(text)
    yield from cutter.last_line()


def content_of(file: LogFile) -> str | None:
    """Return a hash of the beginning of a text, which says by its end whether the text is compressed.

    That of a short text, which may be the same as another one, has its length. None for an empty one, for one that
    cannot be read, and for a segment of `featuregate_fleet.files.segments`, whose name no other file ever has.
    """
    if _SEGMENT.fullmatch(file.path.rpartition("/")[2]):
        return None
    try:
        head, found = _beginning(file, _BEGINNING)
    except (OSError, EOFError, zlib.error):  # its reader says so
        return None
    if found not in {None, _GZIP}:
        return None
    short = f"{SHORT}{len(head)}" if len(head) < _BEGINNING else ""
    return sha256(head).hexdigest() + short + (COMPRESSED if found else "") if head else None


def has_grown_from(before: str, file: LogFile) -> bool:
    """Return whether a file with a content begins with the text of which this was the content."""
    text, short, length = before.removesuffix(COMPRESSED).partition(SHORT)
    if not short:
        return file.content == before
    try:
        return sha256(_beginning(file, int(length))[0]).hexdigest() == text
    except (OSError, EOFError, zlib.error):  # it has changed since its content was asked for
        return False


def _beginning(file: LogFile, length: int) -> tuple[bytes, str | None]:
    """Return the first bytes of a text, decompressed where that can be, and the format of the file."""
    head = b""
    with open_log(file) as opened:
        found = _format(opened, file.path)
        for part in _inflated(opened) if found == _GZIP else (opened.read(length),):
            head += part
            if len(head) >= length:
                break
    return head[:length], found


def pieces_behind(file: LogFile, at: int) -> list[Piece]:
    """Return the pieces of a file of which a part was read under another name, up to a byte of its text."""
    pieces = [piece for piece in pieces_of(file) if piece.end is None or piece.end > at]
    rest = [piece._replace(start=max(piece.start, at)) for piece in pieces]
    return rest or [Piece(file, file.size, file.size)]


def begins_with(file: LogFile, text: bytes) -> bool:
    """Return whether the text of a file begins so; False for a file that cannot be read."""
    try:
        return _beginning(file, len(text))[0] == text
    except (OSError, EOFError, zlib.error):  # its reader says so
        return False


def _cut(cutter: _Cutter, blocks: Iterator[bytes | memoryview], end: int | None) -> Iterator[pa.RecordBatch]:
    for block in blocks:
        yield from cutter.feed(block)
        if end is not None and cutter.at >= end:
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
            return _format(opened, file.path) is not None
    except OSError:  # its reader says so
        return False


def _format(opened: IO[bytes], path: str) -> str | None:
    """Return the format of a file, by its first bytes or its name; None for plain text. It is then at its beginning.

    Another format that is read as plain text has lines of no logger, and no request would be missing.
    """
    head = opened.read(_LONGEST_MARK)
    opened.seek(0)
    found = next((name for mark, name in _FORMATS.items() if head.startswith(mark)), None)
    return found or (_GZIP if path.endswith(".gz") else None)


def _text(file: IO[bytes], found: str | None) -> Iterator[bytes | memoryview]:
    """Return the blocks of the text of a file in a format."""
    if found is None:
        return _blocks(file)
    if found == _GZIP:
        return _inflated(file)
    raise OSError(f"this is {found}: put its text, or a gzip of that, under this name")


def _blocks(file: IO[bytes]) -> Iterator[memoryview]:
    """Yield blocks that end with a line where one ends. The line that has begun is read again: to join it is slower."""
    while block := file.read(_BLOCK):
        end = block.rfind(b"\n") + 1 or len(block)
        file.seek(end - len(block), os.SEEK_CUR)
        yield memoryview(block)[:end]


def _inflated(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress a file of any number of gzip members, up to the first damaged byte, as blocks of a bounded size."""
    waiting: list[bytes] = []
    size = 0
    try:
        for text in _members(file):
            waiting.append(text)
            size += len(text)
            if size >= _TEXT_BLOCK:
                yield b"".join(waiting)
                waiting, size = [], 0
    except (OSError, EOFError, zlib.error):
        yield b"".join(waiting)
        raise
    yield b"".join(waiting)


def _members(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the text of gzip members: each may have a byte or two, or a thousand times its size."""
    decoder = zlib.decompressobj(_GZIP_HEADER)
    while block := file.read(_COMPRESSED_BLOCK):
        text = b""
        while block or len(text) == _TEXT_BLOCK:  # a full text may have a rest that the decoder holds
            if decoder.eof:
                block = block.lstrip(b"\0")  # padding between members and behind the last one
                if not block:
                    break
                decoder = zlib.decompressobj(_GZIP_HEADER)
            before = decoder.copy()
            try:
                text = decoder.decompress(block, _TEXT_BLOCK)
            except zlib.error:
                yield from _up_to_damage(before, block)
                raise
            yield text
            block = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:  # also where the file is empty, which is not gzip
        raise EOFError("the compressed file ends before its end was marked")


def _up_to_damage(decoder: zlib._Decompress, block: bytes) -> Iterator[bytes]:
    """Yield what comes before the first byte that does not decompress."""
    for byte in range(len(block)):
        try:
            yield decoder.decompress(block[byte : byte + 1])
        except zlib.error:
            return


def _within(piece: Piece, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Leave out the lines that belong to other pieces, except for the last one before, and those that may go on."""
    last = max(lines_before(batch, piece.start) - 1, 0)
    first = min(last, lines_before(batch, piece.start - _HEADER))
    end = batch.num_rows if piece.end is None else lines_before(batch, piece.end)
    if first < end:
        yield batch.slice(first, end - first)


class _Cutter:
    """Cuts blocks of text into lines, and keeps the line that is not complete yet."""

    def __init__(self, at: int) -> None:
        self.at = at
        """The byte at which the next line begins."""
        self._begun = b""
        self._length = 0  # of the line that has begun; more than is kept of a long one

    def feed(self, block: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Return the lines that end in this block."""
        end = len(block) - 1 if block[-1:] == b"\n" else bytes(block).rfind(b"\n")
        if end >= 0:
            yield from self._lines(memoryview(block)[:end])
            block = block[end + 1 :]
        self._length += len(block)
        if len(self._begun) <= LONGEST:
            self._begun = (self._begun + block)[: LONGEST + 1]

    def last_line(self) -> Iterator[pa.RecordBatch]:
        """Return the line that ends with the file, without a line break."""
        if self._length:
            yield from self._lines(b"")
            self.at -= 1  # no line break

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
