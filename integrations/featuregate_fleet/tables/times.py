"""The times of collected rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def from_micros(micros: int) -> datetime:
    """Return a time of ``unix_micros()``.

    Collected as it is, it would be one of this machine's time zone, of which two may be the same.
    """
    return EPOCH + timedelta(microseconds=micros)
