"""Counts the requests in a part of a log, and reads such counts back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate_fleet.evidence.aggregates import BEGINNING, as_text, from_text
from featuregate_fleet.evidence.batches import parse_file
from featuregate_fleet.evidence.paths import LogFile, LogTimes
from featuregate_fleet.evidence.reasons import UNKNOWN_BROKER, UNREADABLE
from featuregate_fleet.evidence.text import Unreadable
from featuregate_fleet.files.pieces import Piece, begins_with, lines_of, read_piece

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa

_BEGINNING: Final = BEGINNING.encode()
_ANY_BROKER: Final = "0"
"""The reader of the counts knows it."""


def aggregate(text: bytes, times: LogTimes = LogTimes(), not_after: datetime | None = None) -> bytes:  # noqa: B008 - a value
    """Return the counts of whole lines of a log that was last written at a time."""
    file = LogFile("", "", _ANY_BROKER, 0, times, not_after=not_after)
    return as_text(parse_file(file, lines_of(text))).encode()


def is_aggregate(file: LogFile) -> bool:
    """Return whether a file holds counts, by its first bytes."""
    return begins_with(file, _BEGINNING)


def read_aggregate(file: LogFile) -> Iterator[pa.RecordBatch]:
    """Yield the counts of a file, or one line in quarantine if it is not whole: half of it would hide clients."""
    try:
        parsed = [] if file.broker is None else list(from_text(file, _lines(file)))
    except ValueError as error:
        yield from parse_file(file, [Unreadable(0, UNREADABLE, str(error))])
        return
    if not parsed:
        parsed = list(parse_file(file, [Unreadable(0, UNKNOWN_BROKER, "counts outside of the brokers' folders")]))
    yield from parsed


def _lines(file: LogFile) -> list[str]:
    lines: list[str] = []
    for part in read_piece(Piece(file)):
        if isinstance(part, Unreadable):
            raise ValueError(part.why)  # noqa: TRY004 - the file is wrong, not a type
        lines += part["value"].to_pylist()
    return lines
