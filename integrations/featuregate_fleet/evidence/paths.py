"""The files of logs: where one is says which broker wrote it, and what of it is left unread. Pure.

It is loaded without pyarrow, because the options of commands need it.
"""

from __future__ import annotations

import re
import stat
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import unquote

OF_TOPICS: Final = "kafka:"
"""What names of partitions begin with."""
_NODE_ID: Final = re.compile(r"(0|[1-9]\d{0,9})/.", re.ASCII)


class LogTimes(NamedTuple):
    """How brokers write the times of their logs."""

    time_zone: str = "UTC"
    """The zone of times that do not name one."""
    layout: str = ""
    """As for `featuregate_fleet.evidence.lines.times`; empty where times need none."""


IN_UTC: Final = LogTimes()


class LogFile(NamedTuple):
    """Where lines come from."""

    uri: str
    """As Spark names the file."""
    path: str
    """Below the folder of logs."""
    broker: str | None
    """None where the folder is not a broker's."""
    size: int
    """Bytes of the file when it was listed."""
    times: LogTimes = LogTimes()
    source: str | None = None
    """Which text it is, as in the rows of kind ``source``, whatever it is called; None where that is not known."""
    not_after: datetime | None = None
    """When it was last written: no line is later."""


class ReadAgain(NamedTuple):
    """Which lines of a text are read once more: those that were in quarantine. Others were understood, and count."""

    at: tuple[int, ...] = ()
    """The bytes at which they begin."""
    start: int = 0
    """All lines from this byte on are read: new ones, and some of which it is not known what they are."""
    lines: int = 0
    """How many they were."""


def partition_uri(topic: str, partition: int) -> str:
    """Return how rows name a partition of a topic, where others have a file."""
    return f"{OF_TOPICS}{topic}/{partition}"


def log_file(root: str, uri: str, size: int, times: LogTimes = IN_UTC) -> LogFile:
    """Return a file by its URI, with its path below the folder with the URI ``root``, and with its broker."""
    path = unquote(uri.removeprefix(f"{root}/"))
    return LogFile(uri, path, broker_of(path), size, times)


def broker_of(path: str) -> str | None:
    """Return the broker in whose folder a file is: the first part of its path below the root, if it is a node id."""
    found = _NODE_ID.match(path)
    return found[1] if found else None


class LineCounts(NamedTuple):
    """Lines: ``read = rows + quarantined``."""

    read: int
    rows: int
    quarantined: int


# ---------------------------------------------------------------- files that are left unread

LINKED: Final = "linked"
"""A symbolic link, to a file or a folder: it may name any file of the host that reads."""

SPECIAL: Final = "special"
"""A pipe, a socket or a device: to read it would take its bytes from others, or never end."""

UNLISTED: Final = "unlisted"
"""A folder that may not be listed, such as one of another user, or an entry of one that may not be entered."""

BEING_WRITTEN: Final = "being written"
"""A name that shippers give to files that are not whole yet, such as ``.log.1.Xa81`` of rsync."""

_OF_WRITERS: Final = frozenset({"_temporary", "_spark_metadata"})
"""The folders in which Hadoop and Spark keep what is being written, and what was."""


class UnreadFile(NamedTuple):
    """A file, and why the last run left it unread."""

    path: str
    """Below the folder of logs."""
    broker: str | None
    """None where the folder is not a broker's."""
    reason: str


def why_left(path: str, mode: int) -> str | None:
    """Return why a file or folder with this ``st_mode`` is left unread; None where it is not."""
    if stat.S_ISLNK(mode):
        return LINKED
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return SPECIAL
    parts = path.split("/")
    hidden = any(part.startswith(".") for part in parts) or not _OF_WRITERS.isdisjoint(parts)
    return BEING_WRITTEN if hidden or path.endswith("._COPYING_") else None
