"""Where a file is says which broker wrote it. Pure, and loaded without pyarrow: the options of commands need it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

OF_TOPICS: Final = "kafka:"
"""What names of partitions begin with."""
_NODE_ID: Final = re.compile(r"(0|[1-9]\d{0,9})/.", re.ASCII)


class LogTimes(NamedTuple):
    """How brokers write the times of their logs."""

    time_zone: str = "UTC"
    """The zone of times that do not name one."""
    layout: str = ""
    """As for `featuregate_fleet.evidence.lines.layouts`; empty where times need none."""


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


def partition_uri(topic: str, partition: int) -> str:
    """Return how rows name a partition of a topic, where others have a file."""
    return f"{OF_TOPICS}{topic}/{partition}"


def log_file(root: str, uri: str, size: int, times: LogTimes = IN_UTC) -> LogFile:
    """Return a file with its path below the root, or its whole path if it is elsewhere, and with its broker."""
    path = unquote(urlsplit(uri).path).removeprefix(root.rstrip("/") + "/")
    return LogFile(uri, path, broker_of(path), size, times)


def broker_of(path: str) -> str | None:
    """Return the broker in whose folder a file is: the first part of its path below the root, if it is a node id."""
    found = _NODE_ID.match(path)
    return found[1] if found else None
