"""Reads one log as the pipeline reads it, in this process and without Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate_fleet.evidence.paths import LogFile, LogTimes
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_fleet.files.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

_ANY_BROKER: Final = "0"


class Look(NamedTuple):
    """What one log says."""

    usage: tuple[dict[str, Any], ...]
    """Rows of kind ``usage``: one for each client, version of an API and day."""
    heads: tuple[dict[str, Any], ...]
    """Rows of kind ``quarantine`` of lines that were cut, of which the head is known."""
    understood: int
    """Lines."""
    reasons: Counter[str]
    """The lines that were not understood, by reason."""
    first: dict[str, str]
    """The beginning of the first of them, by reason; for a file that cannot be read, why."""


def look_at(path: Path, times: LogTimes) -> Look:
    """Read a log, compressed or not. What cannot be read is a reason."""
    file = LogFile(path.absolute().as_uri(), path.name, _ANY_BROKER, path.stat().st_size, times)
    batches = list(parse_pieces([Piece(file)]))
    usage, quarantine, sources = (_of_kind(batches, kind) for kind in ("usage", "quarantine", "source"))
    reasons: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in quarantine:
        reasons[row["reason"]] += row["lines"]
        first.setdefault(row["reason"], row["raw"])
    for row in sources:
        if row["reason"] is not None:
            reasons[row["reason"]] += 1
            first.setdefault(row["reason"], row["why"])
    return Look(
        usage=tuple(usage),
        heads=tuple(row for row in quarantine if row["seen_at"] is not None),
        understood=sum(row["rows"] for row in sources),
        reasons=reasons,
        first=first,
    )


def _of_kind(batches: Sequence[pa.RecordBatch], kind: str) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.column(kind).to_pylist() if row is not None]
