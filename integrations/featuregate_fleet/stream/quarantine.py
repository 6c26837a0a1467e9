"""Parses again what is in quarantine: lines with a newer parser, and files that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.batches import parse_quarantined
from featuregate_fleet.evidence.columns import EVIDENCE_FILES, PARSED
from featuregate_fleet.evidence.paths import OTHERS, LogFile, LogTimes
from featuregate_fleet.evidence.reasons import OF_FILES, OF_REPORTS, PARSER, UNKNOWN_LAYOUT
from featuregate_fleet.files.contents import COMPRESSED, content_of
from featuregate_fleet.files.opening import path_of
from featuregate_fleet.files.pieces import Piece, as_it_is, rest_of
from featuregate_fleet.stream.parsed import file_rows, parse_files, quarantine_rows, text_logs_of, usage_rows
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_spark.arrow_tables import to_arrow
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    import pyarrow as pa
_OF_FILE: Final = ["query_id", "batch_id", "uri"]
"""What rows of a file in quarantine have in common with its row in the list of files."""
_FILES: Final = "evidence_files"
REPLAY: Final = "replay"
"""With this the ids of its queries begin."""
_NO_LAYOUTS: Final[Mapping[str, str]] = MappingProxyType({})


def replay(spark: SparkSession, tables: Tables, layouts: Mapping[str, str] = _NO_LAYOUTS) -> int:
    """Parse again what is in quarantine, and return the number of lines and files that were tried.

    These are the lines that were kept whole and that an older parser did not understand, and the files that could not
    be read. A replay that was killed is finished by the next one: it tries the same, and what it finds takes the place
    of what the killed one has written.

    ``layouts`` are those of brokers, by node id, and of all others as `OTHERS`: lines of which the time was not
    understood are tried with them. The quarantine keeps them first, so that a replay which is killed is the same again.

    Raises
    ------
    TablesBroken
        The tables cannot be read or written.
    """
    with one_line_failures("the replay failed"):
        _keep_layouts(tables, layouts)
        return _replay(spark, tables)


def _keep_layouts(tables: Tables, layouts: Mapping[str, str]) -> None:
    quarantine = tables.read("quarantine")
    layout = f.lit(layouts.get(OTHERS))
    for broker, text in layouts.items():
        layout = f.when(f.col("broker") == broker, text).otherwise(layout)
    is_line = (f.col("reason") == UNKNOWN_LAYOUT) & f.col("whole")
    is_new = layout.isNotNull() & (layout != f.col("layout")) & (is_line | f.col("reason").isin(*OF_FILES))
    if layouts and not quarantine.where(is_new).isEmpty():
        known = {"layout": layout, "parser": f.lit(0)}
        changed = {name: f.when(is_new, value).otherwise(f.col(name)) for name, value in known.items()}
        tables.rewrite("quarantine", quarantine.withColumns(changed))


def _replay(spark: SparkSession, tables: Tables) -> int:
    quarantine = tables.read("quarantine")
    of_file = f.col("reason").isin(*OF_FILES)
    of_report = f.col("reason").isin(*OF_REPORTS)
    again = of_file | (f.col("whole") & (f.col("parser") < PARSER) & ~of_report)
    tried = quarantine.where(again)
    # By when each row was written, too: what a replay leaves in quarantine is for another one.
    state = f.xxhash64("uri", "at", "reason", "parser", "query_id", "written_at")
    summary = tried.agg(f.count("*").alias("count"), f.bit_xor(state).alias("hash")).collect()[0]
    if not summary["count"]:
        return 0
    known = tables.read(_FILES).select(*_OF_FILE, "size", "content")
    files = tried.where(of_file).join(known, _OF_FILE, "left").collect()
    unread = _unread(tables)
    batch = BatchId(f"{REPLAY} {summary['count']} {summary['hash']}", 0)
    # The list of files may have millions. A replay that was killed may have written rows of this query.
    read = ReadFiles.of(tables, batch.query_id) if any(row.content is None for row in files) else ReadFiles()
    pieces = [_piece_again(row, read, is_unread=row.uri in unread) for row in files]
    lines = tried.where(~of_file).mapInArrow(ReusedWorkerTask(_parse), from_arrow_schema(PARSED))
    parsed = lines.unionByName(parse_files(spark, pieces)).unionByName(_counted_before(spark, files)).persist()
    try:
        text_logs = text_logs_of(to_arrow(file_rows(parsed)))
        tables.append_anew("api_usage", usage_rows(parsed, text_logs), batch)
        tables.append_anew(_FILES, file_rows(parsed), batch)
        # Last, because it says that the replay is done.
        tables.replace("quarantine", quarantine.where(~again), quarantine_rows(parsed, text_logs), batch)
    finally:
        parsed.unpersist()
    return int(summary["count"])


def _file(row: Any) -> LogFile:
    return LogFile(row.uri, row.path, row.broker, 0, LogTimes(row.time_zone, row.layout))


def _piece_again(row: Any, read: ReadFiles, *, is_unread: bool) -> Piece:
    """Return what is left to read of a file, up to the size that it had where its text is known.

    The text may have another name by now, and another file this one. A text that was not known may have been read under
    another name.
    """
    file = _file(row)
    if row.content is not None:
        # A compressed file has another size once it is restored; that of its text is not known.
        size = as_it_is(file).size if row.content.endswith(COMPRESSED) else row.size
        return rest_of(file._replace(size=size, content=row.content), row.at)
    now = as_it_is(file)
    now = now._replace(content=content_of(now))
    at = max(row.at, read.read_up_to(now, path_of(now).parents[now.path.count("/")]))
    # A file of which nothing was read is in quarantine once, however long it is.
    return Piece(now, at) if is_unread else rest_of(now, at)


def _unread(tables: Tables) -> set[str]:
    """Return the URIs of the files of which no line was read when they were listed."""
    first = tables.read(_FILES).where(f"query_id not like '{REPLAY}%'").groupBy("uri").agg(f.sum("read").alias("read"))
    return {row["uri"] for row in first.where("read = 1").collect()}


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from parse_quarantined(batch.to_pylist())


def _counted_before(spark: SparkSession, files: list[Any]) -> DataFrame:
    """Return rows that take back the one line in quarantine as which the rest of each file was counted."""
    counts = [(row.path, row.uri, row.broker, 0, -1, 0, -1, None, None) for row in files]
    rows = spark.createDataFrame(counts, from_arrow_schema(EVIDENCE_FILES)).select(f.struct("*").alias(_FILES))
    others = {
        field.name: f.lit(None).cast(field.dataType) for field in from_arrow_schema(PARSED) if field.name != _FILES
    }
    return rows.withColumns(others)
