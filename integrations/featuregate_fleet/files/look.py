"""Reads one log as the pipeline reads it, in this process and without Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from featuregate_fleet.evidence.paths import LogFile, LogTimes
from featuregate_fleet.evidence.sums import summed
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_fleet.files.pieces import Piece

if TYPE_CHECKING:
    from pathlib import Path

_ANY_BROKER: Final = "0"


class Look(NamedTuple):
    """What one log says."""

    usage: tuple[dict[str, Any], ...]
    """Rows of ``api_usage``: one for each client, version of an API and hour."""
    heads: tuple[dict[str, Any], ...]
    """Rows of ``quarantine`` of lines that were cut, of which the head is known."""
    understood: int
    """Lines."""
    reasons: Counter[str]
    """The lines that were not understood, by reason."""
    first: dict[str, str]
    """The beginning of the first of them, by reason; for a file that cannot be read, why."""


def look_at(path: Path, times: LogTimes) -> Look:
    """Read a log, compressed or not. What cannot be read is a reason."""
    file = LogFile(path.absolute().as_uri(), path.name, _ANY_BROKER, path.stat().st_size, times)
    number = pa.record_batch({"number": pa.array([0])})
    tables = pa.Table.from_batches(parse_pieces([number], pieces=[Piece(file)]))
    usage, quarantine, counts = (
        pa.Table.from_struct_array(tables[name].drop_null()) for name in ("api_usage", "quarantine", "evidence_files")
    )
    reasons: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in quarantine.select(["reason", "lines", "raw"]).to_pylist():
        reasons[row["reason"]] += row["lines"]
        first.setdefault(row["reason"], row["raw"])
    rows = summed(usage).to_pylist() if len(usage) else []
    heads = [row for row in quarantine.to_pylist() if row["seen_at"] is not None]
    marked = {"text_log": True} if any(counts["text_log"].to_pylist()) else {}
    return Look(
        tuple(row | marked for row in rows),
        tuple(row | marked for row in heads),
        sum(counts["rows"].to_pylist()),
        reasons,
        first,
    )
