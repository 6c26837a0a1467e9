"""Whether a file may have another content than the one that was read under its name, and whether it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.evidence.paths import LogFile, LogTimes, log_file
from featuregate_fleet.files.contents import COMPRESSED, content_of, has_grown_from, text_of
from featuregate_fleet.files.opening import path_of, written_at
from featuregate_fleet.files.pieces import as_it_is
from featuregate_fleet.files.storage import is_local, path_in_uri, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_CLOCKS: Final = 300 * 10**9
"""Nanoseconds by which the clock of a file system may differ from that of Spark."""
_BY_GZIP_WITHIN: Final = timedelta(minutes=5)
"""Since the last byte that gzip has written. At its end it gives its output the time of its input."""


class KnownFile(NamedTuple):
    """A file that may have another content than the one that was read."""

    path: str
    content: str | None
    """The one that was read; None for a file that was forgotten."""
    stamp: tuple[int, object]


def is_same(size: int, known_at: int, stamp: tuple[int, object]) -> bool:
    """Return whether a file has its size, and was neither written nor renamed since something was known of it.

    That is since its row was written, or since a run has looked at all files.
    """
    return size == stamp[0] and isinstance(stamp[1], int) and stamp[1] < known_at * 1000 - _CLOCKS


def other_file(
    logs: Path,
    known: KnownFile,
    stamps: Callable[[str], tuple[int, object] | None],
    times: Mapping[str, LogTimes],
) -> LogFile | None:
    """Return the file that has the name of another or a forgotten one; None where it is the same, or has grown."""
    path, before, stamp = known
    file = log_file(path_in_uri(logs), uri_of(logs / path), stamp[0], times)
    file = file._replace(content=content_of(file))
    if file.content is None:  # damaged, or empty, or renamed just now
        return file if stamp[0] > 0 and stamps(path) == stamp else None
    return None if before is not None and has_grown_from(before, file) else file


def has_content(place: Path, path: str, text: str) -> bool:
    """Return whether the text of a file begins with that of another one."""
    content = content_of(LogFile(uri_of(place), path, None, 0)) if place.is_file() else None
    return text_of(content) == text


def is_output_at_work(file: LogFile, twin: LogFile | None) -> bool:
    """Return whether gzip may not be done with a file, which has nothing then that was not read.

    It is new, and its input has this text, and is still there as it was read.
    """
    if twin is None or not twin.content or file.content != twin.content + COMPRESSED or not is_local(path_of(file)):
        return False
    written = written_at(file)
    is_new = written is not None and abs(datetime.now(UTC) - written) < _BY_GZIP_WITHIN
    return is_new and as_it_is(twin).size == twin.size and has_content(path_of(twin), twin.path, twin.content)
