"""What is in a file, by its first bytes or its name: plain text, gzip, or another format, which is not read."""

from __future__ import annotations

import os
import zlib
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK: Final = 8 * 2**20
_COMPRESSED_BLOCK: Final = 2**16
"""A block may grow a thousandfold when it is decompressed."""
_TEXT_BLOCK: Final = 2**20
GZIP: Final = "gzip"
BY_GZIP: Final = ".gz"
"""The end of the names that gzip gives."""
_GZIP_MARK: Final = b"\x1f\x8b"
_FORMATS: Final = {
    _GZIP_MARK: GZIP,
    b"(\xb5/\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"x\x9c": "deflate",
    b'\x04"M\x18': "lz4",
    b"\xff\x06\0\0sNaPpY": "snappy",
    b"PAR1": "Parquet",
    b"Obj\x01": "Avro",
    b"7z\xbc\xaf": "7z",
    b"\xff\xfe[\0": "UTF-16",
    b"\xff\xfe2\0": "UTF-16",
    b"\xff\xfe{\0": "UTF-16",
}
"""By the first bytes of a file: what Log4j 2, logrotate, shippers and editors write apart from plain text."""
_LONGEST_MARK: Final = max(map(len, _FORMATS))
_GZIP_HEADER: Final = 16 + zlib.MAX_WBITS


def format_of(opened: IO[bytes], path: str) -> str | None:
    """Return the format of a file, by its first bytes or its name; None for plain text. It is then at its beginning.

    Another format that is read as plain text has lines of no logger, and no request would be missing.
    """
    head = opened.read(_LONGEST_MARK)
    opened.seek(0)
    found = next((name for mark, name in _FORMATS.items() if head.startswith(mark)), None)
    return found or (GZIP if path.endswith(BY_GZIP) else None)


def text_in(file: IO[bytes], found: str | None) -> Iterator[bytes | memoryview]:
    """Return the blocks of the text of a file in a format."""
    if found is None:
        return _blocks(file)
    if found == GZIP:
        return inflated(file)
    raise OSError(f"this is {found}: put its text, or a gzip of that, under this name")


def _blocks(file: IO[bytes]) -> Iterator[memoryview]:
    """Yield blocks that end with a line where one ends. The line that has begun is read again: to join it is slower."""
    while block := file.read(_BLOCK):
        end = block.rfind(b"\n") + 1 or len(block)
        file.seek(end - len(block), os.SEEK_CUR)
        yield memoryview(block)[:end]


def inflated(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress a file of any number of gzip members, up to the first damaged byte, as blocks of a bounded size.

    Firehose may compress what CloudWatch has compressed: to read that as text would be to find no request in it.
    """
    waiting: list[bytes] = []
    size = 0
    try:
        for text in _members(file):
            _check_is_text(text)
            waiting.append(text)
            size += len(text)
            if size >= _TEXT_BLOCK:
                yield b"".join(waiting)
                waiting, size = [], 0
    except (OSError, EOFError, zlib.error):
        yield b"".join(waiting)
        raise
    yield b"".join(waiting)


def _check_is_text(text: bytes) -> None:
    if text.startswith(_GZIP_MARK):
        raise OSError("this is a gzip within a gzip: put the inner one under this name")


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
    for byte in range(len(block)):
        try:
            yield decoder.decompress(block[byte : byte + 1])
        except zlib.error:
            return
