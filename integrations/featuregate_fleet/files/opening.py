"""Opens files of logs: only regular files, and none behind a symbolic link below the folder of logs.

Brokers write these folders. A link in one of them could name any file of the host that reads, such as a private key.
"""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final, Self, TypeVar, cast

from featuregate_fleet.files.storage import failure_of, is_local, modified_at, path_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from featuregate_fleet.evidence.paths import LogFile

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_OPENED_AT_ONCE: Final = 16
_TAKEN_AT_ONCE: Final = 1024
_LINKS: Final = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""Errors of opening a link that is not followed, as a file or as a folder; the last one is that of FreeBSD."""


Answer = TypeVar("Answer")
Asked = TypeVar("Asked")

_OF_FILE: Final = (FileNotFoundError, PermissionError, IsADirectoryError)
"""Errors of a storage that are about one file."""


def written_at(file: LogFile) -> datetime | None:
    """Return when a file was last written; None for one that is gone, and for a time that no calendar has."""
    try:
        return modified_at(path_at(file.uri))
    except (OSError, OverflowError, ValueError):  # its reader says so, or its broker has set it
        return None


def open_log(file: LogFile) -> IO[bytes]:
    """Open a file without following links below the folder of logs, also one that is put there meanwhile.

    Raises OSError, StorageFailed.
    """
    path = path_at(file.uri)
    return _opened(path, PurePosixPath(file.path).parts) if is_local(path) else cast("IO[bytes]", _StoredFile(path))


def _opened(path: Path, parts: tuple[str, ...]) -> IO[bytes]:
    below_logs = path.parts[-len(parts) :]
    if tuple(map(_shown, below_logs)) != parts or path.parts == below_logs:  # elsewhere
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


def _shown(name: str) -> str:
    """Return a name as `featuregate_fleet.evidence.paths.log_file` has it, where it is not a text."""
    return os.fsencode(name).decode(errors="replace")


def look_at_each(look: Callable[[Asked], Answer], files: Iterable[Asked]) -> Iterator[Answer]:
    """Yield what a look at each file says, in their order: a storage or a mount answers after some milliseconds.

    There may be millions of files, of which some are taken at a time.
    """
    waiting = iter(files)
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as threads:
        while some := list(islice(waiting, _TAKEN_AT_ONCE)):
            yield from threads.map(look, some)


class _StoredFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._asked(lambda: path.open("rb"))

    def read(self, size: int = -1) -> bytes:
        return self._asked(lambda: self._file.read(size))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except _OF_FILE:
            raise
        except OSError as error:
            raise failure_of(self._path, error) from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
