"""Lists the files below a folder of logs, and what in it is not read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from featuregate_fleet.evidence.paths import BEING_WRITTEN, LINKED, SPECIAL, UNLISTED, is_being_written
from featuregate_fleet.files.storage import is_local, stored_files, uri_of

_STILL: Final = 3600.0
"""Seconds for which a file was not written, after which its last line gets no end any more. Slow machines and buffered
appenders write half a line, and the rest of it minutes later."""


class Listed(NamedTuple):
    """A file as it is listed."""

    uri: str
    size: int
    stamp: str
    """Changes whenever the file is written, renamed or replaced."""
    still: bool
    """Whether it was not written for an hour."""


class Listing(NamedTuple):
    """What is below a folder of logs."""

    files: list[Listed]
    left: dict[str, str]
    """By path, what is not read, and why: see `featuregate_fleet.evidence.paths`."""


def list_logs(logs: Path, now: datetime) -> Listing:
    """List the files below a folder of this machine or of a storage, in the order of their URIs."""
    found = Listing([], {})
    seconds = now.timestamp()
    for each in _local(logs, found.left, seconds) if is_local(logs) else _stored(logs, found.left, seconds):
        found.files.append(each)
    found.files.sort()
    return found


def _local(logs: Path, left: dict[str, str], now: float) -> Iterator[Listed]:
    root, uri_root = str(logs), uri_of(logs).rstrip("/")
    waiting = [root]
    while waiting:
        for entry in _entries(waiting.pop(), root, left):
            path = entry.path[len(root) + 1 :]
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError:
                left[_text(path)] = UNLISTED
                continue
            if why := _why_left(path, about):
                left[_text(path)] = why
            elif stat.S_ISDIR(about.st_mode):
                waiting.append(entry.path)
            elif about.st_size:  # no line is missing of an empty file
                stamp = f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
                uri = f"{uri_root}/{quote(os.fsencode(path))}"
                yield Listed(uri, about.st_size, stamp, abs(now - about.st_mtime) > _STILL)


def _entries(folder: str, root: str, left: dict[str, str]) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder; nothing of one that is gone, or may not be listed."""
    try:
        found = os.scandir(folder)
    except FileNotFoundError:  # deleted since it was listed
        return
    except OSError:
        if folder == root:
            raise
        left[_text(folder[len(root) + 1 :])] = UNLISTED
        return
    with found:
        yield from found


def _text(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")


def _why_left(path: str, about: os.stat_result) -> str | None:
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFLNK:
        return LINKED
    if kind not in {stat.S_IFREG, stat.S_IFDIR}:
        return SPECIAL
    return BEING_WRITTEN if is_being_written(path) else None


def _stored(logs: Path, left: dict[str, str], now: float) -> Iterator[Listed]:
    uri_root = uri_of(logs).rstrip("/")
    for path, about in stored_files(logs).items():
        if is_being_written(path):
            left[path] = BEING_WRITTEN
        elif about.size:
            still = about.written is None or abs(now - about.written) > _STILL
            yield Listed(f"{uri_root}/{quote(path)}", about.size, about.stamp, still)
