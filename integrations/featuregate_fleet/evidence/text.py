"""What is parsed: lines of one file. Pure."""

from __future__ import annotations

from bisect import bisect_left
from operator import methodcaller
from typing import Final

import pyarrow as pa

LONGEST: Final = 16 * 2**20
"""How many bytes a line may have. A line of the request log has the bodies of request and response."""

LINES: Final = pa.schema(
    [
        ("value", pa.string()),  # at most LONGEST bytes of the line
        ("at", pa.int64()),  # the byte of the text at which the line begins
        ("length", pa.int64()),  # bytes of the whole line
    ]
)


def lines_before(lines: pa.RecordBatch, at: int) -> int:
    """Return how many of the first `LINES` begin before a byte of the text."""
    return bisect_left(lines["at"], at, key=methodcaller("as_py"))
