"""The tables in a folder, as Delta Lake keeps them: one folder for each table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence import columns

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BatchId", "DeltaTables"]

_TABLES: Final = {
    "api_usage": columns.API_USAGE,
    "quarantine": columns.QUARANTINE,
    "evidence_files": columns.EVIDENCE_FILES,
    "brokers": columns.BROKERS,
    "coverage": columns.COVERAGE,
    "coordinator_records": columns.COORDINATOR_RECORDS,
    "coordinator_topics": columns.COORDINATOR_TOPICS,
    "cluster_views": columns.CLUSTER_VIEWS,
    "feature_levels": columns.FEATURE_LEVELS,
    "feature_usage": columns.FEATURE_USAGE,
    "usage_topics": columns.USAGE_TOPICS,
}
_CHECKPOINTS: Final = "_checkpoints"
_CHECK_RETENTION: Final = "spark.databricks.delta.retentionDurationCheck.enabled"

_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_NEW_COLUMNS: Final = {"mergeSchema": "true"}
"""A table that an older release has made gets the columns that it lacks."""

_BEFORE: Final = {"quarantine": {"time_zone": "UTC", "whole": False, "parser": 0}}
"""What the rows of an older release mean where they lack a column; otherwise that is null."""


class BatchId(NamedTuple):
    """Which stream writes, and which of its micro-batches."""

    query_id: str
    """The id of the checkpoint: a new checkpoint has a new one."""
    batch_id: int


_NO_BATCH: Final = BatchId("", -1)


class DeltaTables:
    """The tables of one folder, each with the rows of any number of clusters; this object shows those of one.

    The name of the cluster consists of letters, digits, ``-``, ``_`` and ``.``.
    """

    def __init__(self, spark: SparkSession, folder: Path, cluster: str) -> None:
        self._spark = spark
        self._folder = folder.resolve()
        self._cluster = cluster

    def checkpoint(self, stream: str) -> Path:
        """Return the folder of the checkpoint of one stream of this cluster."""
        return self._folder / _CHECKPOINTS / self._cluster / stream

    def read(self, table: str) -> DataFrame:
        """Return the rows of this cluster; none where the table does not exist yet."""
        if self.version(table) is None:
            return self._spark.createDataFrame([], from_arrow_schema(_whole(table)))
        rows = self._spark.read.format("delta").load(self._path(table))
        return _migrated(table, rows.where(f.col("cluster") == self._cluster))

    def version(self, table: str) -> int | None:
        """Return the newest version of a table; None where it does not exist."""
        commits = [path.stem for path in (self._folder / table / "_delta_log").glob("*.json") if path.stem.isdecimal()]
        return max(map(int, commits), default=None)

    def append(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Append the rows of a micro-batch, once: a batch that is run again writes nothing.

        Delta ignores a batch whose number is not above the last one of the same query. A new checkpoint begins at 0
        again, and must not be ignored: so the id of the query is that of the checkpoint.
        """
        whole = self._whole_rows(table, rows, batch).coalesce(1)
        once = {"txnAppId": batch.query_id, "txnVersion": str(batch.batch_id), **_NEW_COLUMNS}
        whole.write.format("delta").mode("append").options(**once).save(self._path(table))

    def expect(self, folders: Collection[str], listed: Collection[str] | None) -> None:
        """Replace the brokers that evidence is expected from: those with a folder, and those that the cluster listed.

        ``listed`` is None where the cluster was not asked: then the last list still counts.
        """
        known = {(row["broker"], row["source"]) for row in self.read("brokers").collect()}
        last = {broker for broker, source in known if source == "cluster"}
        wanted = {(broker, "folder") for broker in folders}
        wanted |= {(broker, "cluster") for broker in (last if listed is None else listed)}
        if wanted == known:
            return
        rows = self._spark.createDataFrame(sorted(wanted), from_arrow_schema(columns.BROKERS))
        self._overwrite("brokers", self._whole_rows("brokers", rows, _NO_BATCH))

    def replace(self, table: str, kept: DataFrame, added: DataFrame, batch: BatchId) -> None:
        """Replace all rows of this cluster at once: by some that were read from the table, and by those of a batch."""
        self._overwrite(table, kept.unionByName(self._whole_rows(table, added, batch)))

    def names(self) -> list[str]:
        """Return the names of the tables that exist."""
        return [name for name in _TABLES if self.version(name) is not None]

    def rewrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of this cluster by rows that were read from the table."""
        self._overwrite(table, rows)

    def compact(self, table: str) -> None:
        """Join the files of a table, those of all clusters."""
        self._spark.sql(f"OPTIMIZE {self._quoted(table)}").collect()

    def vacuum(self, table: str) -> None:
        """Delete the files of earlier versions. Nobody may write a table meanwhile, of whichever cluster."""
        self._spark.conf.set(_CHECK_RETENTION, "false")  # which guards writers that are at work
        self._spark.conf.set(_LISTING, "2")  # tasks that list the one folder of a table; 10,000 by default
        self._spark.sql(f"VACUUM {self._quoted(table)} RETAIN 0 HOURS").collect()

    def _quoted(self, table: str) -> str:
        return f"delta.`{self._path(table).replace('`', '``')}`"

    def _overwrite(self, table: str, rows: DataFrame) -> None:
        only = {"replaceWhere": f"cluster = '{self._cluster}'"} if self.version(table) is not None else {}
        rows.coalesce(1).write.format("delta").mode("overwrite").options(**only, **_NEW_COLUMNS).save(self._path(table))

    def _whole_rows(self, table: str, rows: DataFrame, batch: BatchId) -> DataFrame:
        origin = {"cluster": f.lit(self._cluster), "query_id": f.lit(batch.query_id), "batch_id": f.lit(batch.batch_id)}
        schema = from_arrow_schema(_whole(table))
        return rows.withColumns(origin).select([f.col(field.name).cast(field.dataType) for field in schema])

    def _path(self, table: str) -> str:
        return str(self._folder / table)  # Spark takes a path as it is, and would not decode a URI


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
