"""Counts of requests as text: what a collector hands in, so that no request leaves the broker's host. Pure.

The first line names the format and its version, each other one has a row of a table as JSON, and the last one the
counts of the lines. Where a file is, and so its broker, is up to the reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from featuregate_fleet.evidence.columns import EVIDENCE_FILES, PARSED, PARSED_USAGE, QUARANTINE, parsed_rows
from featuregate_fleet.evidence.sums import summed

if TYPE_CHECKING:
    from featuregate_fleet.evidence.paths import LogFile

BEGINNING: Final = '{"featuregate-fleet-counts":'
_FIRST_LINE: Final = BEGINNING + " 1}"

_OF_READER: Final = ("path", "uri", "broker", "size", "content")
_SCHEMAS: Final = {"api_usage": PARSED_USAGE, "quarantine": QUARANTINE, "evidence_files": EVIDENCE_FILES}
_COLUMNS: Final = {name: tuple(n for n in schema.names if n not in _OF_READER) for name, schema in _SCHEMAS.items()}
_TIMES: Final = ("hour", "first_seen", "last_seen", "seen_at", "not_after")
_ADDED: Final[dict[str, dict[str, Any]]] = {
    "api_usage": {"text_log": None},
    "quarantine": dict.fromkeys(("not_after", "seen_at", "forwarded", "client_id", "api_key", "version"))
    | {"layout": "", "lines": 1, "text_log": None},
    "evidence_files": {"text_log": None},
}
"""The columns that an older collector does not hand in, and what they are then."""


def as_text(parsed: Iterable[pa.RecordBatch]) -> str:
    """Return the rows of `PARSED` of one file as text."""
    tables = pa.Table.from_batches(parsed, PARSED)
    lines = [_FIRST_LINE]
    for name, columns in _COLUMNS.items():
        rows = pa.Table.from_struct_array(tables[name].drop_null()).combine_chunks()
        if name == "api_usage":
            rows = pa.Table.from_struct_array(summed(rows))
        found = rows.select(columns).to_pylist()
        lines += [json.dumps({name: row}, default=datetime.isoformat, separators=(",", ":")) for row in found]
    return "\n".join([*lines, ""])


def from_text(file: LogFile, lines: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Return `as_text` to rows of `PARSED`, those of ``file``.

    Raises
    ------
    ValueError
        The lines are of a newer version, or not those of one whole file.
    """
    if lines[0] != _FIRST_LINE:
        raise ValueError(f"this release reads {_FIRST_LINE}, and finds {lines[0][:80]}")
    of_reader = {"path": file.path, "uri": file.uri, "broker": file.broker, "size": file.size}
    of_reader["content"] = file.content
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _SCHEMAS}
    for number, line in enumerate(lines[1:], 2):
        try:
            name, row = _row(line)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"line {number} has no row of a table") from error
        whole = {**row, **of_reader}
        rows[name].append({column: whole[column] for column in _SCHEMAS[name].names})
    try:
        _check(rows)
        batches = [parsed_rows(name, pa.array(rows[name], pa.struct(list(_SCHEMAS[name])))) for name in _SCHEMAS]
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a row has a value of another type: {error}") from error
    yield from batches


def _row(line: str) -> tuple[str, dict[str, Any]]:
    ((name, row),) = json.loads(line).items()
    known = {**_ADDED[name], **row}
    row = {column: known[column] for column in _COLUMNS[name]} if known.keys() == set(_COLUMNS[name]) else row
    if tuple(row) != _COLUMNS[name]:
        raise ValueError("other columns")
    times = {column: row[column] for column in _TIMES if row.get(column) is not None}
    return name, {**row, **{column: datetime.fromisoformat(time) for column, time in times.items()}}


def _check(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Check that no row is missing: the counts are in the last line."""
    if len(rows["evidence_files"]) != 1:
        raise ValueError("the counts of the lines are missing: the file is not whole")
    (counts,) = rows["evidence_files"]
    completed = sum(row["count"] for row in rows["api_usage"] if row["outcome"] == "completed")
    if (
        counts["read"] != counts["rows"] + counts["quarantined"]
        or counts["quarantined"] != sum(row["lines"] for row in rows["quarantine"])
        or completed > counts["rows"]
    ):
        raise ValueError("the rows do not add up to the counts of the lines")
