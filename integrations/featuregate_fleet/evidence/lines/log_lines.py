"""A row for each line: where it is, a hash of it, and what its head and its tail say. Pure."""

from __future__ import annotations

import enum
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import LOG_LINES
from featuregate_fleet.evidence.lines.fast_path import FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from featuregate_fleet.evidence.paths import LogFile

_DIGEST_BYTES: Final = 8


class KeptLines(enum.Enum):
    """What the tables keep of each line, in addition to the counts of requests."""

    NONE = "none"
    TYPED = "typed"
    """What head and tail say: nothing of the bodies."""
    WHOLE = "whole"
    """The text, too."""


def line_rows(
    file: LogFile,
    lines: pa.RecordBatch,
    fast: pa.StructArray,
    others: Sequence[dict[str, Any] | None],
    kept: KeptLines,
) -> pa.Array:
    """Return rows of ``log_lines``.

    Parameters
    ----------
    fast, others
        The requests that the fast path has read, and what the full parser has read of all other lines; null and None
        for a line without a request, of which only the place is known.
    """
    slow = pa.array(others, pa.struct(list(_SEEN)))
    both = {name: pc.struct_field(slow, name) for name in _SEEN.names}
    for field in FIELDS:
        # A field that is null in a line of the fast path is null here, too: the other array has no row of that line.
        both[field.name] = pc.coalesce(pc.struct_field(fast, field.name), both[field.name])
    both["outcome"] = pc.if_else(pc.is_valid(fast), "completed", both["outcome"])
    count = lines.num_rows
    texts = lines["value"]
    both["connection"] = pc.coalesce(
        pc.struct_field(pc.extract_regex(texts, _CONNECTION), "connection"), both["connection"]
    )
    columns = both | {
        "path": pa.repeat(pa.scalar(file.path), count),
        "uri": pa.repeat(pa.scalar(file.uri), count),
        "broker": pa.repeat(pa.scalar(file.broker, pa.string()), count),
        "time_zone": pc.if_else(pc.fill_null(both["in_utc"], fill_value=False), "UTC", file.times.time_zone),
        "at": lines["at"],
        "length": lines["length"],
        "hash": pa.array([_hash(text) for text in texts.to_pylist()], pa.string()),
        "raw": texts if kept is KeptLines.WHOLE else pa.nulls(count, pa.string()),
    }
    return pa.StructArray.from_arrays([columns[name] for name in LOG_LINES.names], fields=list(LOG_LINES))


_SEEN: Final = pa.schema(
    [
        *FIELDS,
        ("outcome", pa.string()),
        ("connection", pa.string()),
        ("in_utc", pa.bool_()),
    ]
)
_CONNECTION: Final = r'(?:,"connection":"| from connection )(?P<connection>[^"\\;\s]+)(?:","totalTimeMs"|;totalTime):'
"""Behind the bodies, in which quotes have a backslash."""


def connection_in(text: str) -> str | None:
    """Return the connection of a request without its envelopes."""
    found = re.search(_CONNECTION, text)
    return found["connection"] if found else None


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
