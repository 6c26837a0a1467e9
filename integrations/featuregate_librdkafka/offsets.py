"""Reads what a group has committed from brokers that show it late."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LATE_SECONDS: Final = 1.0
"""Seconds between two reads. The coordinator's thread that applies offsets is late by milliseconds, unless it has to
wait for a processor, which took half a second at times."""


def read_until_agreed(read: Callable[[float], T], seconds: float) -> T:
    """Read until two answers, `LATE_SECONDS` apart, agree, and return the last.

    A coordinator before 2.5 answers that it has the end of a transaction, and applies its offsets in another thread.
    Until then it answers the offsets of the transaction before. ``read`` is given the seconds that are left. Raises
    TimeoutError (no two answers agreed within ``seconds``).
    """
    until = time.monotonic() + seconds
    found = read(seconds)
    while True:
        time.sleep(LATE_SECONDS)
        before, found = found, read(until - time.monotonic())
        if found == before:
            return found
        if time.monotonic() >= until:
            raise TimeoutError(f"no two answers agreed within {seconds:g} s")
