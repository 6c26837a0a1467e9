"""What is parsed: lines of one file, and why its reading ended early. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

__all__ = ["LINES", "LONGEST", "LogFile", "Unreadable"]

LONGEST: Final = 16 * 2**20
"""How many bytes a line may have. A line of the request log has the bodies of request and response."""

LINES: Final = pa.schema(
    [
        ("value", pa.string()),  # at most LONGEST bytes of the line
        ("at", pa.int64()),  # the byte of the text at which the line begins
        ("length", pa.int64()),  # bytes of the whole line
    ]
)


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
    time_zone: str = "UTC"
    """That of its times, which do not say it."""


class Unreadable(NamedTuple):
    """The rest of a file cannot be read. It counts as one line."""

    at: int
    """The byte of the text at which the rest begins."""
    reason: str
    why: str
