"""Rows of the table of a cluster: parsed without Spark, or made up and committed."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from featuregate_fleet.evidence.batches import parse_files
from featuregate_fleet.evidence.columns import KINDS, ROWS, rows_from
from featuregate_fleet.evidence.file_parser import FileText
from featuregate_fleet.evidence.lines.fast_path import FIELDS, read_lines
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.evidence.paths import LogFile
from featuregate_fleet.evidence.usage import add_up
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_fleet.files.pieces import Piece, _Cutter, pieces_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_fleet.tables.evidence_table import EvidenceTable

Rows = dict[str, list[dict[str, Any]]]
"""By kind."""
OF_BROKER_1 = LogFile("file:///logs/1/a", "1/a", "1", 9)


def read_fast(*lines: str) -> list[LoggedRequest | None]:
    """Read lines with Arrow's kernels; None stands for a line that is left to the full parser."""
    if (found := read_lines(pa.array(lines, pa.string()))) is None:
        return [None] * len(lines)
    columns = {name: getattr(found, name) for name in ("time", "client_id", "client_host", "connection")}
    for texts in (found.api, found.client):
        columns |= {name: texts.of(name, texts.index) for name in texts.values.type.names}
    rows = pa.StructArray.from_arrays([columns[field.name] for field in FIELDS], fields=list(FIELDS)).to_pylist()
    return [
        LoggedRequest(**row) if is_read else None for row, is_read in zip(rows, found.read.to_pylist(), strict=True)
    ]


def by_kind(batches: Iterable[Any]) -> Rows:
    found: Rows = {kind: [] for kind in KINDS}
    for batch in batches:
        (kind,) = set(batch["kind"].to_pylist())
        assert batch.schema == ROWS
        found[kind] += batch[kind].to_pylist()
    return found


def lines_of(text: bytes) -> Iterator[pa.RecordBatch]:
    cutter = _Cutter(0)
    for _, batch in (*cutter.feed(text), *cutter.last_line()):
        yield batch


def parsed(parts: Iterable[Any], file: LogFile = OF_BROKER_1) -> Rows:
    return by_kind(add_up(parse_files([FileText(file, parts)])))


def parsed_text(text: str | bytes, file: LogFile = OF_BROKER_1) -> Rows:
    return parsed(lines_of(text.encode() if isinstance(text, str) else text), file)


def parsed_file(path: Path) -> Rows:
    """Read a file of broker 1, in the pieces in which executors read it, and parse it."""
    size = path.stat().st_size
    piece = Piece(LogFile(path.as_uri(), f"1/{path.name}", "1", size))
    packed = path.read_bytes()[:2] == b"\x1f\x8b"
    return by_kind(parse_pieces(pieces_of(piece if packed else piece._replace(end=size))))


def commit(spark: "SparkSession", table: "EvidenceTable", **rows: list[dict[str, Any]]) -> None:
    """Commit a batch of rows, by kind and the names of their columns; one of a run is among them."""
    from featuregate_spark.arrow_tables import from_arrow  # noqa: PLC0415 - other tests run without Spark

    kinds: dict[str, list[dict[str, Any]]] = {"run": [{}], **rows}
    batches = [rows_from(kind, of_kind) for kind, of_kind in kinds.items() if of_kind]
    table.append(from_arrow(spark, pa.Table.from_batches(batches)), table.rows("run").count())
