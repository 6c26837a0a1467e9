"""Opens files of logs: only regular files, and none behind a symbolic link below the folder of logs.

Brokers write these folders. A link in one of them could name any file of the host that reads, such as a private key.
First bytes or name say what is in a file: plain text, gzip, or another format, which is not read.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final

from featuregate_fleet.errors import StorageFailed
from featuregate_fleet.files.storage import is_local, path_at, spark_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate_fleet.evidence.paths import LogFile

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_LINKS: Final = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""Errors of opening a link that is not followed, as a file or as a folder; the last one is that of FreeBSD."""

_OF_FILE: Final = (FileNotFoundError, PermissionError, IsADirectoryError)
"""Errors of a storage that are about one file."""

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


@contextmanager
def open_log(file: LogFile) -> Iterator[IO[bytes]]:
    """Open a file without following links below the folder of logs, also one that is put there meanwhile.

    Raises OSError, StorageFailed, also for what the block asks of the file.
    """
    path = path_at(file.uri)
    if is_local(path):
        with _opened(path, PurePosixPath(file.path).parts) as opened:
            yield opened
        return
    try:
        with path.open("rb") as opened:
            yield opened
    except _OF_FILE:
        raise
    except OSError as error:
        raise StorageFailed(f"{spark_path(path)} cannot be read: {error}") from error


def _opened(path: Path, parts: tuple[str, ...]) -> IO[bytes]:
    below_logs = path.parts[-len(parts) :]
    shown = tuple(os.fsencode(name).decode(errors="replace") for name in below_logs)  # a name need not be text
    if shown != parts or path.parts == below_logs:  # elsewhere
        below_logs = path.parts[-1:]
    at = os.open(path.parents[len(below_logs) - 1], _FOLDER)
    try:
        for name in below_logs[:-1]:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        # To open a pipe would wait for its writer.
        found = os.open(below_logs[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except OSError as error:
        if error.errno in _LINKS:
            raise OSError("a part of its path is a symbolic link, which is not followed") from error
        raise
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError("this is not a regular file")
    return os.fdopen(found, "rb")


# ---------------------------------------------------------------- formats


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
    raise ValueError(f"this is {found}: put its text, or a gzip of that, under this name")


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
            waiting.append(text)
            size += len(text)
            if size >= _TEXT_BLOCK:
                yield b"".join(waiting)
                waiting, size = [], 0
    except (OSError, EOFError, ValueError, zlib.error):
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
            if text.startswith(_GZIP_MARK):
                raise ValueError("this is a gzip within a gzip: put the inner one under this name")
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
