"""Files that a run leaves unread, in whole or in part, where no line in quarantine represents them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from featuregate_fleet.evidence.paths import broker_of

LINKED: Final = "linked"
"""A symbolic link, to a file or a folder: it may name any file of the host that reads."""

SPECIAL: Final = "special"
"""A pipe, a socket or a device: to read it would take its bytes from others, or never end."""

UNLISTED: Final = "unlisted"
"""A folder that may not be listed, such as one of another user, or an entry of one that may not be entered."""

BEING_WRITTEN: Final = "being written"
"""A name that shippers give to files that are not whole yet."""

_OF_WRITERS: Final = frozenset({"_temporary", "_spark_metadata"})
"""The folders in which Hadoop and Spark keep what is being written, and what was."""


class UnreadFile(NamedTuple):
    """A file, and why the last run left it unread."""

    path: str
    """Below the folder of logs."""
    broker: str | None
    """None where the folder is not a broker's."""
    reason: str


class MissingRequests(NamedTuple):
    """A file that has requests of which no line was understood, or one that cannot be read to its end."""

    path: str
    reason: str
    """The reason of the first line with a request, or of the file."""
    lines: int
    """Those that were not understood, or those before the damage."""
    head: str
    """How that line begins, or why the file cannot be read."""


def unread_file(path: str, reason: str) -> UnreadFile:
    """Return a file with the broker in whose folder it is."""
    return UnreadFile(path, broker_of(path), reason)


def some_of(paths: Sequence[str]) -> str:
    """Return the first path, and say how many more there are."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def is_being_written(path: str) -> bool:
    """Return whether shippers give such names to files that are not whole yet, such as ``.log.1.Xa81`` of rsync."""
    parts = path.split("/")
    hidden = any(part.startswith(".") for part in parts) or not _OF_WRITERS.isdisjoint(parts)
    return hidden or path.endswith("._COPYING_")
