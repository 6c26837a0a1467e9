"""The rows that the parser returns: what each of the tables takes of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark import InheritableThread
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import KEYS, PARSED
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.reasons import NOTHING_MISSING, OF_FILES
from featuregate_fleet.evidence.unread import MissingRequests
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_spark.arrow_tables import from_arrow, to_arrow
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa

    from featuregate_fleet.files.pieces import Piece
    from featuregate_fleet.tables.folder import BatchId, Tables

_TASKS_A_CORE: Final = 8
_JOINED_EACH: Final = 64
"""Micro-batches of a query: each run reads the whole list of files that were read, to which each of them adds one."""
_HEAD: Final = 160
"""Characters of a line that a message shows: its layout, and not yet who sent the request."""


def tasks_for(spark: SparkSession) -> int:
    """Return among how many tasks files are divided."""
    return _TASKS_A_CORE * spark.sparkContext.defaultParallelism


def parse_files(spark: SparkSession, pieces: Sequence[Piece], kept: KeptLines = KeptLines.NONE) -> DataFrame:
    """Return the rows of `featuregate_fleet.evidence.columns.PARSED` of some pieces of files."""
    numbers = spark.range(0, len(pieces), 1, max(1, min(len(pieces), tasks_for(spark))))
    parse = ReusedWorkerTask(partial(parse_pieces, pieces=pieces, kept=kept))
    return numbers.mapInArrow(parse, from_arrow_schema(PARSED))


def write_parsed(
    parsed: DataFrame, tables: Tables, batch: BatchId, kept: KeptLines = KeptLines.NONE
) -> list[MissingRequests]:
    """Append the rows of `featuregate_fleet.evidence.columns.PARSED` to the tables, once.

    Return the files with requests of which no line was understood, and those that cannot be read to their end.

    A transaction takes more than half a second of processor time, so the quarantine has none where no line is in it.
    Then it does not know that it had this batch: do not call this for one that ``evidence_files`` has.
    """
    parsed = parsed.persist()
    missing: list[MissingRequests] = []
    try:
        files = to_arrow(file_rows(parsed))  # a row for each file, and the lines are parsed here
        text_logs = text_logs_of(files)
        written = {"api_usage": usage_rows(parsed, text_logs)}
        if any(files["quarantined"].to_pylist()):
            written["quarantine"] = quarantine_rows(parsed, text_logs)
        if kept is not KeptLines.NONE:
            written["log_lines"] = parsed.where("log_lines is not null").select("log_lines.*")
        _at_once(
            lambda: missing.extend(_missing_requests(parsed, files.to_pylist())),
            *(partial(tables.append, table, rows, batch) for table, rows in written.items()),
        )
        done = from_arrow(parsed.sparkSession, files)
        tables.append("evidence_files", done, batch)  # last, because it says that the files are done
        if batch.batch_id % _JOINED_EACH == _JOINED_EACH - 1:
            tables.join_files("evidence_files")
    finally:
        parsed.unpersist()
    return missing


def _missing_requests(parsed: DataFrame, files: Sequence[Mapping[str, Any]]) -> list[MissingRequests]:
    """Return the damaged files, and those without a row that have a line in quarantine which evidence misses."""
    if not any(file["quarantined"] for file in files):
        return []
    with_rows = {file["uri"] for file in files if file["rows"]}  # a partition of a topic is one file for each broker
    without_rows = [file["uri"] for file in files if file["quarantined"] and file["uri"] not in with_rows]
    of_file = f.col("reason").isin(*OF_FILES)
    missing = (
        parsed.where("quarantine is not null")
        .select("quarantine.*")
        .where(of_file | (f.col("uri").isin(without_rows) & ~f.col("reason").isin(*NOTHING_MISSING)))
    )
    first = [f.min_by(name, "at").alias(name) for name in ("reason", "raw")]
    found = missing.groupBy("path", of_file.alias("of_file")).agg(*first, f.sum("lines").alias("lines")).orderBy("path")
    read = {file["path"]: file["read"] - 1 for file in files}
    return [
        MissingRequests(
            row["path"], row["reason"], read[row["path"]] if row["of_file"] else row["lines"], row["raw"][:_HEAD]
        )
        for row in found.collect()
    ]


def _at_once(*steps: Callable[[], None]) -> None:
    """Take several steps at once: most of a transaction runs on one core, or waits for the file system."""
    failures: list[Exception] = []

    def take(step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that waits
            failures.append(error)

    threads = [InheritableThread(target=take, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def text_logs_of(files: pa.Table) -> list[str]:
    """Return the brokers of files with requests as text.

    Each row of such a broker is doubtful, also one that was read from JSON or in another file: a line that a client
    wrote may be in the next segment of a log.
    """
    return sorted({file["broker"] for file in files.to_pylist() if file["text_log"] and file["broker"]})


def usage_rows(parsed: DataFrame, text_logs: Collection[str]) -> DataFrame:
    """Return rows of ``api_usage``, added up."""
    usage = parsed.where("api_usage is not null").select("api_usage.*")
    summed = usage.groupBy(*KEYS).agg(
        f.sum("count").alias("count"), f.min("first_seen").alias("first_seen"), f.max("last_seen").alias("last_seen")
    )
    return summed.withColumns({"text_log": _is_one_of("broker", text_logs), "hours": f.lit(1)})


def quarantine_rows(parsed: DataFrame, text_logs: Collection[str]) -> DataFrame:
    """Return rows of ``quarantine``."""
    lines = parsed.where("quarantine is not null").select("quarantine.*")
    return lines.withColumn("text_log", _is_one_of("broker", text_logs))


def _is_one_of(column: str, values: Collection[str]) -> Column:
    return f.coalesce(f.col(column).isin(*values), f.lit(False))  # noqa: FBT003


def file_rows(parsed: DataFrame) -> DataFrame:
    """Return rows of ``evidence_files``, added up."""
    files = parsed.where("evidence_files is not null").select("evidence_files.*")
    sums = [f.sum(name).alias(name) for name in ("read", "rows", "quarantined")]
    return files.groupBy("path", "uri", "broker").agg(
        f.max("size").alias("size"),
        *sums,
        f.max("content").alias("content"),
        f.max("text_log").alias("text_log"),
    )
