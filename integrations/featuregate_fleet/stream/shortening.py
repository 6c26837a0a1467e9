"""Which files may leave the list of those that were read: nothing asks for them, and they are not there any more."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, Window
from pyspark.sql import functions as f

from featuregate.errors import ConfigError
from featuregate_fleet.evidence.paths import log_file
from featuregate_fleet.evidence.reasons import OF_FILES
from featuregate_fleet.files.contents import content_of, text_of
from featuregate_fleet.files.storage import is_local, path_in_uri, sizes_below, uri_of
from featuregate_fleet.stream.accounted_files import AccountedFiles
from featuregate_fleet.stream.read_files import ReadFiles, path_of_uri

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables

_OF_ONE_BATCH: Final = "^(missed|replaced|replay) "
"""Queries of which Spark runs no batch again."""


class _Needed(NamedTuple):
    """What keeps a file in the list."""

    root: str
    paths: frozenset[str]
    """Paths of files that are there, or that a replay will try again."""
    texts: frozenset[str | None]
    """Hashes of the texts of files that were not read yet: one of them may be a renamed file."""


def old_parts() -> Column:
    """Return whether a row is of a partition of a topic, and a later row says how far it was read."""
    newest = f.max("batch_id").over(Window.partitionBy("query_id", "uri"))
    return f.col("uri").startswith("kafka:") & (f.col("batch_id") < newest)


def gone_files(tables: Tables, logs: Path) -> Column:
    """Return whether a row is of a file that is not below ``logs`` any more, under no name.

    If a file gets its name later, the run finds it by Spark's list, which keeps all names. The newest micro-batch of a
    query stays, because Spark may run it again.

    Raises
    ------
    ConfigError
        ``logs`` is not there, or no run of this release was over these files.
    """
    if is_local(logs) and not logs.is_dir():
        raise ConfigError("logs", f"{logs} is not a folder, so that all files would count as gone")
    if AccountedFiles.kept_in(tables.checkpoint("request_logs")) is None:
        raise ConfigError(
            "logs", "no run of this release has read files into these tables: run 'fleet run --once' first"
        )
    is_gone = f.udf(partial(_is_gone, needed=_needed(tables, logs.resolve())), "boolean")
    newest = f.max("batch_id").over(Window.partitionBy("query_id"))
    may_come_again = ~f.col("query_id").rlike(_OF_ONE_BATCH) & (f.col("batch_id") == newest)
    return ~f.col("uri").startswith("kafka:") & ~may_come_again & is_gone("uri", "path", "content")


def _needed(tables: Tables, logs: Path) -> _Needed:
    read, there, root = ReadFiles.of(tables), dict(sizes_below(logs)), path_in_uri(logs)
    new = [log_file(root, uri_of(logs / path), size) for path, size in there.items() if not read.has_path(path)]
    again = tables.read("quarantine").where(f.col("reason").isin(*OF_FILES)).select("path").distinct().collect()
    paths = frozenset({*there, *(row["path"] for row in again)})
    return _Needed(root, paths, frozenset(text_of(content_of(file)) for file in new) - {None})


def _is_gone(uri: str, path: str, content: str | None, needed: _Needed) -> bool:
    """Return whether nothing needs a file. One that was read from another folder stays in the list."""
    is_below = path_of_uri(uri) == path_of_uri(f"{needed.root.rstrip('/')}/{path}")
    return is_below and path not in needed.paths and text_of(content) not in needed.texts
