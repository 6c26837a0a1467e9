"""The stream from files of logs to tables: each file once, each micro-batch once.

Spark lists the files, and says which are new. It does not read them: its reader ends the query at a damaged file.
"""

from __future__ import annotations

import os
import re
import threading
from functools import partial
from hashlib import sha256
from itertools import islice
from time import time_ns
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.paths import IN_UTC, LogFile, LogTimes, log_file
from featuregate_fleet.files.contents import content_of, text_of, twin_of
from featuregate_fleet.files.formats import BY_GZIP
from featuregate_fleet.files.opening import is_refused, path_of
from featuregate_fleet.files.parsing import FILES, look_at_files
from featuregate_fleet.files.pieces import Piece, as_it_is, pieces_behind
from featuregate_fleet.files.storage import path_in_uri, sizes_below, spark_path
from featuregate_fleet.stream.checkpoints import write_batches
from featuregate_fleet.stream.other_contents import is_output_at_work
from featuregate_fleet.stream.parsed import parse_files, tasks_for, write_parsed
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.tables.failures import cause_of
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from featuregate_fleet.evidence.unread import MissingRequests

_FILES_IN_A_BATCH: Final = (256, 10_000)
"""At least and at most: a micro-batch costs three seconds of processor time in addition to its lines."""
_BYTES_IN_A_BATCH: Final = 2**31
"""Bytes of small files in one micro-batch: a run that is to stop ends its micro-batch first."""
_SAMPLE: Final = 1000
"""Files whose sizes say whether files are small."""
_LISTED: Final = 100_000
"""Files that Spark keeps from one look at the folder for later micro-batches, some hundred bytes each."""
_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")
"""What has a meaning in the patterns of Hadoop's file systems."""


def drain(
    spark: SparkSession,
    logs: Path,
    tables: Tables,
    times: Mapping[str, LogTimes] = IN_UTC,
    stop: Callable[[], bool] = lambda: False,
    kept: KeptLines = KeptLines.NONE,
    files: ReadFiles | None = None,
    report: Callable[[MissingRequests], None] = lambda _: None,
) -> None:
    """Read all files below ``logs`` that were not read before into the tables.

    ``times`` say how brokers write times, as for `featuregate_fleet.evidence.paths.log_file`. ``kept`` says
    what is kept of each line. ``files`` are those that were read, which a caller that goes on keeps from one call to
    the next; by default the tables are asked. ``report`` is called with each file of which no line was understood,
    once its micro-batch is in the tables. The stream ends before the next micro-batch once ``stop()``.

    A run that was killed is finished by the next one: Spark runs its last micro-batch again with the same files, and
    each table takes a micro-batch once.

    Raises
    ------
    TablesBroken
        The stream failed; the tables have whole micro-batches, and the next run continues.
    """
    logs = logs.resolve()
    root = path_in_uri(logs)
    checkpoint = tables.checkpoint("request_logs")

    stopped = threading.Event()

    def parse(found: Sequence[LogFile], pieces: Sequence[Piece], batch: BatchId, looked_at: int) -> None:
        nothing_read = write_parsed(parse_files(spark, pieces, kept), tables, batch, kept)
        read.add_all(batch, found, looked_at)
        for one in nothing_read:
            report(one)

    def write(rows: DataFrame, batch: BatchId) -> None:
        if stop():
            stopped.set()
            raise InterruptedError  # the only way to end a query before the next micro-batch; it runs in the next run
        if read.has_batch(batch):
            return  # it runs again because its commit was lost, and its files may be gone by now
        looked_at = _now()
        new = without_output_at_work(_new_files(_listed(rows, root, times), logs, read, batch), read, logs)
        parse(new, pieces_to_read(new, read, logs), batch, looked_at)

    try:
        read = ReadFiles.of(tables) if files is None else files
        sizes = [size for _, size in islice(sizes_below(logs), _SAMPLE)]
        write_batches(_files(spark, spark_path(logs), files_in_a_batch(sizes)), checkpoint, write)
        missed, refused = read.missed(checkpoint), read.left_out
        looked_at = _now()
        if gone := list(ready(files_back(missed, logs, times, refused), read, logs)):  # one of them may be back
            those = [f"{file.uri} {file.content}" for file in gone]
            parse(gone, pieces_to_read(gone, read, logs), _batch_of("missed", those, read), looked_at)
        read.account_for(checkpoint, sorted(set(missed) - {file.uri for file in gone}))
        looked_at = _now()
        for file in ready(read.replaced(logs, times), read, logs):
            at = read.read_up_to(file, logs)
            batch = _batch_of("replaced", [file.path, str(file.content), str(at)], read)
            parse([file], pieces_behind(file, at), batch, looked_at)
        read.have_looked(checkpoint, looked_at)
    except PySparkException as error:
        if stopped.is_set():
            return
        raise TablesBroken(f"the stream over {logs} failed: {cause_of(error)}") from error


def _now() -> int:
    """Return the time in microseconds since 1970."""
    return time_ns() // 1000


def files_in_a_batch(sizes: Sequence[int]) -> int:
    """Return how many files a micro-batch has, by the sizes of some of them."""
    least, most = _FILES_IN_A_BATCH
    mean = max(sum(sizes), 1) / max(len(sizes), 1)
    return round(min(max(least, _BYTES_IN_A_BATCH / mean), most))


def _listed(rows: DataFrame, root: str, times: Mapping[str, LogTimes]) -> list[LogFile]:
    """Return the files of a micro-batch with their contents, at which executors look."""
    look = ReusedWorkerTask(partial(look_at_files, root=root))
    found = rows.coalesce(tasks_for(rows.sparkSession)).mapInArrow(look, from_arrow_schema(FILES)).collect()
    return [log_file(root, row.uri, row["size"], times)._replace(content=row.content) for row in found]


def _new_files(listed: Sequence[LogFile], logs: Path, read: ReadFiles, batch: BatchId) -> list[LogFile]:
    """Return the files that no other query has read. The run names those behind links, pipes and the like.

    The rows of other queries do not change any more: a micro-batch that runs again leaves out the same files.
    """
    others = [file for file in sorted(listed) if not read.has_of_others(file.uri, batch.query_id)]
    return [file for file in others if not is_refused(logs, file.path)]


def files_back(
    uris: Sequence[str], logs: Path, times: Mapping[str, LogTimes], refused: Container[str] = ()
) -> list[LogFile]:
    """Return the files that vanished after Spark has listed them, with what they are now: some may be back.

    ``refused`` are those of which an earlier look found a link, a pipe or the like: where it is gone, nothing is lost.
    """
    named = [log_file(path_in_uri(logs), uri, 0, times) for uri in uris]
    files = [file for file in named if file.uri not in refused or os.path.lexists(path_of(file))]
    gone = [as_it_is(file) for file in files if not is_refused(logs, file.path)]
    return [file._replace(content=content_of(file)) for file in gone]


def _batch_of(kind: str, what: Sequence[str], read: ReadFiles) -> BatchId:
    """Return the batch of a query that has one.

    A file that was forgotten since has another one: Delta Lake would take its rows for written.
    """
    since = [] if read.shortened is None else [str(read.shortened)]
    return BatchId(f"{kind} {sha256(chr(0).join([*what, *since]).encode()).hexdigest()}", 0)


def without_output_at_work(files: Sequence[LogFile], read: ReadFiles, logs: Path) -> list[LogFile]:
    """Leave out what gzip writes: the end of the run looks at it again."""
    listed = {file.path: file for file in files}

    def is_at_work(file: LogFile) -> bool:
        twin = twin_of(file.path)
        if file.content is None:  # gzip has begun, and nothing can be read of it yet
            return file.path.endswith(BY_GZIP) and (twin in listed or read.has_path(twin))
        return is_output_at_work(file, listed.get(twin) or read.as_it_was(twin, logs))

    return [file for file in files if not is_at_work(file)]


def ready(files: Sequence[LogFile], read: ReadFiles, logs: Path) -> Iterator[LogFile]:
    """Yield the files with which gzip is done, each once those before it are read. The others wait."""
    read.waiting = set()
    for file in files:
        if is_output_at_work(file, read.as_it_was(twin_of(file.path), logs)):
            read.waiting.add(file.path)
        else:
            yield file


def pieces_to_read(files: Sequence[LogFile], read: ReadFiles, logs: Path) -> list[Piece]:
    """Return the pieces of files that were not read: a rotation renames a log, and may compress it.

    A file whose text was read has an empty piece, so that its name is known from then on. Where gzip is at work while
    Spark lists files, both its input and its output are among them.
    """
    plain: dict[tuple[str, str | None], int] = {
        (twin_of(file.path), file.content): file.size for file in files if file.content
    }
    pieces: list[Piece] = []
    for file in files:
        of_twin = plain.get((file.path, text_of(file.content)), 0)
        pieces += pieces_behind(file, max(of_twin, read.read_up_to(file, logs)))
    return pieces


def _files(spark: SparkSession, root: str, in_a_batch: int) -> DataFrame:
    """Return a stream of the files below a folder: their URIs and sizes. Spark takes its path for a pattern."""
    files = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length long, content binary")
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", in_a_batch)
        .option("maxCachedFiles", _LISTED)
        # By default Spark skips a file that is a week older than the newest one it has seen, and says nothing.
        .option("maxFileAge", "36500d")
        .load(_PATTERN.sub(r"\\\g<0>", root))
    )
    return files.select(f.col("_metadata.file_path").alias("uri"), f.col("_metadata.file_size").alias("size"))
