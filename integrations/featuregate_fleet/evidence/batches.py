"""Lines of files, in batches, become rows of the tables. Pure: executors run it within ``mapInArrow``.

Each line is counted once: it is a row, or it is in quarantine. A row is a line that was understood: a request, or one
of the lines about a refused request.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import API_USAGE, EVIDENCE_FILES, KEYS, PARSED, QUARANTINE
from featuregate_fleet.evidence.fast_path import FIELDS, read_lines
from featuregate_fleet.evidence.one_line import read_line
from featuregate_fleet.evidence.paths import broker_of, path_below
from featuregate_fleet.evidence.reasons import NO_REQUEST, PARSER, RAW_LENGTH, UNKNOWN_BROKER
from featuregate_fleet.evidence.refusals import Refusal, is_header, read_refusal, repeats_refusal
from featuregate_fleet.evidence.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["LINES", "parse_batches"]

LINES: Final = pa.schema([("value", pa.string()), ("path", pa.string()), ("block", pa.int64()), ("size", pa.int64())])
"""What is parsed: each line with the URI of its file, the byte where its reader began, and the size of the file."""

_SEEN: Final = pa.struct([*FIELDS, ("outcome", pa.string()), ("client_host", pa.string())])
_COMPLETED: Final = "completed"
_REFUSED: Final = "refused"


def parse_batches(batches: Iterable[pa.RecordBatch], *, root: str) -> Iterator[pa.RecordBatch]:
    """Parse batches of `LINES`, which hold the lines of each file in order, and yield batches of `PARSED`.

    ``root`` is the absolute path of the folder that has a folder for each broker.
    """
    piece = _Piece("", "", None, -1)
    for batch in batches:
        for lines in _split(batch):
            uri, block = lines["path"][0].as_py(), lines["block"][0].as_py()
            if (uri, block) != (piece.uri, piece.block):
                path = path_below(root, uri)
                piece = _Piece(uri, path, broker_of(path), block)
            yield from piece.parse(lines["value"], lines["size"][0].as_py())


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch where a file, or another block of it, begins."""
    if not batch.num_rows:
        return
    where = pc.binary_join_element_wise(batch["path"], pc.cast(batch["block"], pa.string()), "\0")
    start = 0
    for end in pc.run_end_encode(where).run_ends.to_pylist():
        yield batch.slice(start, end - start)
        start = end


@dataclass(slots=True)
class _Piece:
    """One file, or one block of a large one: the line that comes next, and the one before."""

    uri: str
    path: str
    broker: str | None
    block: int
    line: int = 0
    previous: str = ""

    def parse(self, lines: pa.Array, size: int) -> Iterator[pa.RecordBatch]:
        """Parse the next lines."""
        quarantined: list[dict[str, Any]] = []
        if self.broker is None:
            quarantined = [
                self._quarantined(number, UNKNOWN_BROKER, line) for number, line in enumerate(lines.to_pylist())
            ]
        else:
            fast = read_lines(lines)
            seen = self._read_others(lines, pc.indices_nonzero(pc.is_null(fast)).to_pylist(), quarantined)
            yield from _usage(self.broker, fast, seen)
        if quarantined:
            yield _parsed("quarantine", pa.array(quarantined, pa.struct(list(QUARANTINE))))
        counts = {
            "path": self.path,
            "uri": self.uri,
            "broker": self.broker,
            "size": size,
            "read": len(lines),
            "rows": len(lines) - len(quarantined),
            "quarantined": len(quarantined),
        }
        yield _parsed("evidence_files", pa.array([counts], pa.struct(list(EVIDENCE_FILES))))
        self.line += len(lines)
        self.previous = lines[-1].as_py()

    def _read_others(
        self, lines: pa.Array, numbers: list[int], quarantined: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Read the lines with these numbers, which the fast path has left. Return requests and refusals."""
        seen = []
        for number in numbers:
            line, previous = lines[number].as_py(), lines[number - 1].as_py() if number else self.previous
            match _understand(line, previous):
                case Request() as request:
                    seen.append(asdict(request) | {"outcome": _COMPLETED})
                case Refusal() as refusal:
                    seen.append(refusal._asdict() | {"outcome": _REFUSED})
                case str() as reason:
                    quarantined.append(self._quarantined(number, reason, line))
        return seen

    def _quarantined(self, number: int, reason: str, line: str) -> dict[str, Any]:
        return {
            "path": self.path,
            "block": self.block,
            "line": self.line + number,
            "reason": reason,
            "raw": line[:RAW_LENGTH],
            "parser": PARSER,
        }


def _understand(line: str, previous: str) -> Request | Refusal | str | None:
    """Return what a line says, the reason why it is for the quarantine, or None for a line beside a refusal."""
    found = read_line(line)
    if found != NO_REQUEST:
        return found
    if is_header(line) or repeats_refusal(line, previous):
        return None
    return read_refusal(line, previous) or NO_REQUEST


def _usage(broker: str, fast: pa.StructArray, others: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Count the requests of one broker."""
    requests = pa.Table.from_struct_array(fast.drop_null())
    table = pa.concat_tables(
        [
            requests.append_column("outcome", pa.repeat(pa.scalar(_COMPLETED), len(requests))).append_column(
                "client_host", pa.nulls(len(requests), pa.string())
            ),
            pa.Table.from_struct_array(pa.array(others, _SEEN)),
        ]
    )
    if not len(table):
        return
    table = table.append_column("broker", pa.repeat(pa.scalar(broker), len(table)))
    table = table.append_column("hour", pc.floor_temporal(table["time"], unit="hour"))
    counted = table.group_by(list(KEYS)).aggregate([("time", "count"), ("time", "min"), ("time", "max")])
    named = counted.rename_columns([*KEYS, "count", "first_seen", "last_seen"]).select(API_USAGE.names)
    yield _parsed("api_usage", named.cast(API_USAGE).to_struct_array().combine_chunks())


def _parsed(table: str, rows: pa.Array) -> pa.RecordBatch:
    """Return rows of one table as a batch of `PARSED`."""
    columns = [rows if field.name == table else pa.nulls(len(rows), field.type) for field in PARSED]
    return pa.RecordBatch.from_arrays(columns, schema=PARSED)
