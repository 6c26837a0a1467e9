"""Times of lines that do not say their zone, in UTC. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def placed(times: pa.ChunkedArray, in_utc: pa.ChunkedArray, time_zone: str) -> pa.ChunkedArray:
    """Return times in UTC, of lines that say their zone, or of those that do not."""
    return pc.if_else(pc.fill_null(in_utc, fill_value=False), times, to_utc(times, time_zone))


def to_utc(times: pa.ChunkedArray, time_zone: str) -> pa.ChunkedArray:
    """Return times in UTC that were read as if they were. An hour that a zone has twice is the first one."""
    if time_zone == "UTC":
        return times
    wall = pc.cast(times, pa.timestamp("us"))
    moved = pc.assume_timezone(wall, time_zone, ambiguous="earliest", nonexistent="earliest")
    return pc.cast(moved, times.type)
