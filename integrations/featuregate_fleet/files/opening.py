"""Opens files of logs: only regular files, and none behind a symbolic link below the folder of logs.

Brokers write these folders. A link in one of them could name any file of the host that reads, such as a private key.
"""

from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from featuregate_fleet.evidence.paths import LogFile

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_LINKS: Final = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""Errors of opening a link that is not followed, as a file or as a folder; the last one is that of FreeBSD."""


def path_of(file: LogFile) -> Path:
    """Return where a file is on this host."""
    return Path(unquote(urlsplit(file.uri).path))


def written_at(file: LogFile) -> datetime | None:
    """Return when a file was last written; None for one that is gone."""
    try:
        return datetime.fromtimestamp(path_of(file).stat().st_mtime, UTC)
    except OSError:  # its reader says so
        return None


def open_log(file: LogFile) -> IO[bytes]:
    """Open a file without following links below the folder of logs, also one that is put there meanwhile.

    Raises
    ------
    OSError
        There is no such file, it is not a regular one, or a part of its path is a link.
    """
    path, parts = path_of(file), PurePosixPath(file.path).parts
    if path.parts[-len(parts) :] != parts or path.parts == parts:  # elsewhere
        parts = path.parts[-1:]
    at = os.open(path.parents[len(parts) - 1], _FOLDER)
    try:
        for name in parts[:-1]:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        # To open a pipe would wait for its writer.
        found = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
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


def is_behind_link(folder: Path, path: str) -> bool:
    """Return whether a part of a path below a folder is a symbolic link."""
    below = PurePosixPath(path)
    return any((folder / part).is_symlink() for part in (below, *below.parents[:-1]))
