"""The tables in a folder, whatever keeps them: what readers and streams use of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence import columns
from featuregate_fleet.evidence.hidden_names import WITH_NAMES, hide_names
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime
    from pathlib import Path

    import pyarrow as pa

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.evidence.unread import UnreadFile

_TABLES: Final = {
    "log_lines": columns.LOG_LINES,
    "api_usage": columns.API_USAGE,
    "quarantine": columns.QUARANTINE,
    "evidence_files": columns.EVIDENCE_FILES,
    "brokers": columns.BROKERS,
    "unread_files": columns.UNREAD_FILES,
    "coverage": columns.COVERAGE,
    "coordinator_records": columns.COORDINATOR_RECORDS,
    "coordinator_topics": columns.COORDINATOR_TOPICS,
    "cluster_views": columns.CLUSTER_VIEWS,
    "feature_levels": columns.FEATURE_LEVELS,
    "feature_usage": columns.FEATURE_USAGE,
    "usage_topics": columns.USAGE_TOPICS,
    "readiness": columns.READINESS,
}
_CHECKPOINTS: Final = "_checkpoints"

_BEFORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "api_usage": {"text_log": False, "hours": 1},
    "quarantine": {"time_zone": "UTC", "layout": "", "whole": False, "parser": 0, "lines": 1, "text_log": False},
}
"""What the rows of an older release mean where they lack a column; otherwise that is null."""

_ENDS: Final = {"api_usage": "hour + make_interval(0, 0, 0, 0, hours)", "coverage": "taken_at + interval 1 microsecond"}
"""The tables of what happened in some hours, and not of what is there now, and when that ended."""


class BatchId(NamedTuple):
    """Which stream writes, and which of its micro-batches."""

    query_id: str
    """The id of the checkpoint: a new checkpoint has a new one."""
    batch_id: int


_NO_BATCH: Final = BatchId("", -1)


class Tables(ABC):
    """The tables of one folder, each with the rows of any number of clusters; this object shows those of one.

    The name of the cluster consists of letters, digits, ``-``, ``_`` and ``.``. With ``pseudonyms``, principals and
    addresses are hashed in all rows that are written.
    """

    def __init__(self, spark: SparkSession, folder: Path, cluster: str, pseudonyms: Pseudonyms | None = None) -> None:
        self._spark = spark
        self._folder = folder.resolve()
        self._cluster = cluster
        self._pseudonyms = pseudonyms
        self._since: datetime | None = None
        self._pins: Mapping[str, Any] | None = None

    def pinned(self) -> Self:
        """Return the same tables as they are now: readers see nothing that a stream writes later.

        A stream writes last what says that a micro-batch is done. That is pinned first, with the rows that it counts.
        """
        fixed = copy(self)
        fixed._pins = {table: self._newest(table) for table in reversed(_TABLES)}  # noqa: SLF001 - of this class
        return fixed

    def since(self, hour: datetime) -> Self:
        """Return the same tables with what happened from an hour on: readers see no requests from before.

        Where the rows of that time are daily, they see the whole day: a client that was seen later must not be missed.
        """
        later = copy(self)
        later._since = hour  # noqa: SLF001 - of this class
        return later

    def checkpoint(self, stream: str) -> Path:
        """Return the folder of the checkpoint of one stream of this cluster."""
        return self._folder / _CHECKPOINTS / self._cluster / stream

    def read(self, table: str) -> DataFrame:
        """Return the rows of this cluster; none where the table does not exist yet."""
        if self.version(table) is None:
            return self._spark.createDataFrame([], from_arrow_schema(_whole(table))).limit(0)  # runs no job
        rows = _migrated(table, self._rows(table))
        if self._since is not None and table in _ENDS:
            rows = rows.where(f.expr(_ENDS[table]) > f.lit(self._since))
        return rows

    @staticmethod
    def known() -> list[str]:
        """Return the names of all tables that there may be."""
        return [*_TABLES]

    def names(self) -> list[str]:
        """Return the names of the tables that exist."""
        return [name for name in _TABLES if self.version(name) is not None]

    def expect(self, folders: Collection[str], listed: Collection[str] | None) -> None:
        """Replace the brokers that evidence is expected from: those with a folder, and those that the cluster listed.

        ``listed`` is None where the cluster was not asked: then the last list still counts.
        """
        known = self._known("brokers")
        last = {broker for broker, source in known if source == "cluster"}
        wanted = {(broker, "folder") for broker in folders}
        wanted |= {(broker, "cluster") for broker in (last if listed is None else listed)}
        self._keep("brokers", known, wanted)

    def leave_unread(self, files: Collection[UnreadFile]) -> None:
        """Replace the files that the last run left unread."""
        self._keep("unread_files", self._known("unread_files"), set(files))

    def _known(self, table: str) -> set[tuple[Any, ...]]:
        """Return the rows of a table of what is there now."""
        names = _TABLES[table].names
        return {tuple(row[name] for name in names) for row in self.read(table).collect()}

    def _keep(self, table: str, known: AbstractSet[tuple[Any, ...]], wanted: AbstractSet[tuple[Any, ...]]) -> None:
        """Replace these rows, unless they are the same."""
        if wanted != known:
            rows = self._spark.createDataFrame(sorted(wanted), from_arrow_schema(_TABLES[table]))
            self._overwrite(table, self._whole_rows(table, rows, _NO_BATCH))

    @abstractmethod
    def version(self, table: str) -> int | None:
        """Return the version of a table that readers see, by default the newest one; None where it does not exist."""

    @abstractmethod
    def append(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Append the rows of a micro-batch, once: a batch that is run again writes nothing."""

    def _seen(self, table: str) -> Any:
        """Return what `_newest` returned when the tables were pinned, and what it returns now if they are not."""
        return self._newest(table) if self._pins is None else self._pins[table]

    @abstractmethod
    def _newest(self, table: str) -> Any:
        """Return the version of a table, or its files, as they are now: the rows that are written later have others."""

    @abstractmethod
    def _overwrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of this cluster."""

    @abstractmethod
    def _rows(self, table: str) -> DataFrame:
        """Return the rows of this cluster, of a table that exists, as they are."""

    def _whole_rows(self, table: str, rows: DataFrame, batch: BatchId) -> DataFrame:
        origin = {
            "cluster": f.lit(self._cluster),
            "query_id": f.lit(batch.query_id),
            "batch_id": f.lit(batch.batch_id),
            "written_at": f.current_timestamp(),
        }
        schema = from_arrow_schema(_whole(table))
        whole = rows.withColumns(origin).select([f.col(field.name).cast(field.dataType) for field in schema])
        if self._pseudonyms is None or table not in WITH_NAMES:
            return whole
        hide = ReusedWorkerTask(partial(hide_names, table=table, pseudonyms=self._pseudonyms))
        return whole.mapInArrow(hide, schema)


def _migrated(table: str, rows: DataFrame) -> DataFrame:
    """Return the rows with all columns of this release, and with those of a newer one left out."""
    before = _BEFORE.get(table, {})
    columns_now = []
    for field in from_arrow_schema(_whole(table)):
        found = f.col(field.name) if field.name in rows.columns else f.lit(None)
        known = f.coalesce(found, f.lit(before[field.name])) if field.name in before else found
        columns_now.append(known.cast(field.dataType).alias(field.name))
    return rows.select(columns_now)


def _whole(table: str) -> pa.Schema:
    schema = _TABLES[table]
    for field in columns.ORIGIN:
        schema = schema.append(field)
    return schema
