"""The tables of a folder or of a catalog's schema, as Delta Lake keeps them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import WrongSpark
from featuregate_fleet.evidence.hidden_names import WITH_NAMES, hide_names
from featuregate_fleet.evidence.reasons import OF_FILES
from featuregate_fleet.tables.locks import making_table
from featuregate_fleet.tables.schemas import ENDS, TABLES, migrated, whole
from featuregate_fleet.tables.table_names import InFolder, TableNames, in_catalog
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.evidence.unread import UnreadFile

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
"""What Spark must be started with, in ``spark.sql.extensions``."""
_CHECKPOINTS: Final = "_checkpoints"
_CHECK_RETENTION: Final = "spark.databricks.delta.retentionDurationCheck.enabled"

_STATISTICS: Final = ("delta.dataSkippingStatsColumns", "written_at")
_LOG: Final = ("delta.logRetentionDuration", "interval 7 days")
_WRITING: Final = dict([("mergeSchema", "true"), _STATISTICS, _LOG])
"""A table that an older release has made gets the columns that it lacks. A new table has statistics of one column: by
default Delta's log keeps the least and the greatest principal of each file, also of those that are deleted. And its log
goes back as far as its deleted files: by default 30 days, and each run lists some thousand files of the log."""
_PARTITIONS: Final = "cluster"
"""Delta Lake lets two writers commit at a time where each reads and changes files of its own partition alone."""
_INVENTORY: Final = "path string, length long, isDir boolean, modificationTime long"
"""Columns of the files that a vacuum looks at, as Delta Lake takes them."""


class BatchId(NamedTuple):
    """Which stream writes, and which of its micro-batches."""

    query_id: str
    """The id of the checkpoint: a new checkpoint has a new one."""
    batch_id: int


_NO_BATCH: Final = BatchId("", -1)


class Tables:
    """The tables of one folder, each with the rows of any number of clusters; this object shows those of one.

    The name of the cluster consists of letters, digits, ``-``, ``_`` and ``.``. With ``pseudonyms``, principals and
    addresses are hashed in all rows that are written. With ``schema`` the tables are in that schema of a catalog, and
    the folder has their checkpoints.

    Raises
    ------
    ConfigError
        There is no such schema.
    WrongSpark
        The Spark of this program, or of ``spark-submit``, was started without Delta Lake.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        cluster: str,
        pseudonyms: Pseudonyms | None = None,
        schema: str | None = None,
    ) -> None:
        _require_delta_lake(spark)
        self._spark = spark
        self._folder = folder.resolve()
        self._cluster = cluster
        self._pseudonyms = pseudonyms
        self._since: datetime | None = None
        self._pins: Mapping[str, int | None] | None = None
        self._made: set[str] = set()
        self._named: TableNames = InFolder(self._folder) if schema is None else in_catalog(spark, schema)

    def pinned(self) -> Self:
        """Return the same tables as they are now: readers see nothing that a stream writes later.

        A stream writes last what says that a micro-batch is done. That is pinned first, with the rows that it counts.
        """
        fixed = copy(self)
        fixed._pins = {table: self.version(table) for table in reversed(TABLES)}  # noqa: SLF001 - of this class
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
            return self._spark.createDataFrame([], from_arrow_schema(whole(table))).limit(0)  # runs no job
        rows = migrated(table, self.read_all(table).where(f.col("cluster") == self._cluster))
        if self._since is not None and table in ENDS:
            rows = rows.where(f.expr(ENDS[table]) > f.lit(self._since))
        return rows

    def read_all(self, table: str) -> DataFrame:
        """Return the rows of all clusters, of a table that exists, as they are."""
        pin = {} if self._pins is None else {"versionAsOf": self.version(table)}
        return self._named.read(self._spark.read.options(**pin), table)

    @staticmethod
    def known() -> list[str]:
        """Return the names of all tables that there may be."""
        return [*TABLES]

    def names(self) -> list[str]:
        """Return the names of the tables that exist."""
        return [name for name in TABLES if self.version(name) is not None]

    def version(self, table: str) -> int | None:
        """Return the version of a table that readers see, by default the newest one; None where it does not exist."""
        return self._named.newest(self._spark, table) if self._pins is None else self._pins[table]

    def name_for_sql(self, table: str) -> str:
        """Return how Spark's SQL names a table."""
        return self._named.of(table)

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

    def files_in_quarantine(self) -> set[str]:
        """Return the paths of the files that could not be read, or not to their end."""
        rows = self.read("quarantine").where(f.col("reason").isin(*OF_FILES)).select("path").distinct()
        return {row["path"] for row in rows.collect()}

    def append(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Append the rows of a micro-batch, once: a batch that is run again writes nothing.

        Delta ignores a batch whose number is not above the last one of the same query. A new checkpoint begins at 0
        again, and must not be ignored: so the id of the query is that of the checkpoint.
        """
        found = self._whole_rows(table, rows, batch).coalesce(1)
        once = {"txnAppId": batch.query_id, "txnVersion": str(batch.batch_id)}
        with self._writer(table, found) as writer:
            self._named.write(writer.mode("append").options(**once), table)

    def append_anew(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Append the rows of a query that has one batch, in place of those that a killed run of it has appended."""
        self._overwrite(table, self._whole_rows(table, rows, batch), f" and query_id = '{batch.query_id}'")

    def rewrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of this cluster by rows that were read from the table."""
        self._overwrite(table, rows)

    def rewrite_where(self, table: str, rows: DataFrame, condition: str) -> None:
        """Replace the rows of this cluster that meet a condition by others that meet it, with a file of each task."""
        where = f"{_PARTITIONS} = '{self._cluster}' and {condition}"
        writer = rows.write.format("delta").mode("overwrite").options(replaceWhere=where, **_WRITING)
        self._named.write(writer, table)

    def replace(self, table: str, kept: DataFrame, added: DataFrame, batch: BatchId) -> None:
        """Replace all rows of this cluster at once: by some that were read from the table, and by those of a batch."""
        self._overwrite(table, kept.unionByName(self._whole_rows(table, added, batch)))

    def partition(self, table: str) -> None:
        """Give a table that an older release has made a partition for each cluster. A writer that is at work fails."""
        if not self._is_partitioned(table):
            name = self._named.of(table)
            # Delta Lake keeps the properties of a table, and refuses statistics of a column that is a partition.
            key, value = _STATISTICS
            self._spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = '{value}')").collect()
            rows = self._named.read(self._spark.read, table)
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            self._named.write(writer.partitionBy(_PARTITIONS), table)

    def _is_partitioned(self, table: str) -> bool:
        (detail,) = self._spark.sql(f"DESCRIBE DETAIL {self._named.of(table)}").collect()
        return bool(detail["partitionColumns"] == [_PARTITIONS])

    def join_files(self, table: str) -> None:
        """Join the files of this cluster in a table, unless a release that had no partitions has made it."""
        if self._is_partitioned(table):
            self.compact(table)

    def compact(self, table: str) -> None:
        """Join the files of this cluster in a table. Others may write those of theirs."""
        self._spark.sql(f"OPTIMIZE {self._named.of(table)} WHERE {_PARTITIONS} = '{self._cluster}'").collect()

    def vacuum(self, table: str) -> None:
        """Delete the files of this cluster in earlier versions of a table. No process may write its rows meanwhile.

        Files of other clusters stay: their writers may have begun some that they have not committed.
        """
        self._spark.conf.set(_CHECK_RETENTION, "false")  # which guards writers that are at work
        view = f"featuregate_files_{uuid4().hex}"
        self._spark.createDataFrame(self._files(table), _INVENTORY).createOrReplaceTempView(view)
        try:
            candidates = f"SELECT * FROM {view}"  # noqa: S608 - a name of our own
            name = self._named.of(table)
            self._spark.sql(f"VACUUM {name} USING INVENTORY ({candidates}) RETAIN 0 HOURS").collect()
        finally:
            self._spark.catalog.dropTempView(view)

    def _known(self, table: str) -> set[tuple[Any, ...]]:
        """Return the rows of a table of what is there now."""
        names = TABLES[table].names
        return {tuple(row[name] for name in names) for row in self.read(table).collect()}

    def _keep(self, table: str, known: AbstractSet[tuple[Any, ...]], wanted: AbstractSet[tuple[Any, ...]]) -> None:
        """Replace these rows, unless they are the same."""
        if wanted != known:
            rows = self._spark.createDataFrame(sorted(wanted), from_arrow_schema(TABLES[table]))
            self._overwrite(table, self._whole_rows(table, rows, _NO_BATCH))

    def _files(self, table: str) -> list[tuple[str, int, bool, int]]:
        """Return the files with rows of this cluster, and those that an older release wrote for all clusters."""
        spark: Any = self._spark
        java: Any = spark._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001 - PySpark has no public access to the JVM
        root = java(self._named.location(spark, table))
        system = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - likewise
        own = java(root, f"{_PARTITIONS}={self._cluster}")
        folders = [root, *([own] if system.exists(own) else [])]
        found = [status for folder in folders for status in system.listStatus(folder) if status.isFile()]
        return [(file.getPath().toString(), file.getLen(), False, file.getModificationTime()) for file in found]

    def _overwrite(self, table: str, rows: DataFrame, and_only: str = "") -> None:
        where = {"replaceWhere": f"{_PARTITIONS} = '{self._cluster}'{and_only}"}
        with self._writer(table, rows.coalesce(1)) as writer:
            only = where if self._exists(table) else {}
            self._named.write(writer.mode("overwrite").options(**only), table)

    @contextmanager
    def _writer(self, table: str, rows: DataFrame) -> Iterator[DataFrameWriter]:
        """Write rows. The first ones of a table make it, and those of one cluster at a time."""
        writer = rows.write.format("delta").options(**_WRITING)
        if self._exists(table):
            yield writer
            return
        with making_table(self._folder, table):
            yield writer if self._exists(table) else writer.partitionBy(_PARTITIONS)

    def _exists(self, table: str) -> bool:
        """Return whether there is a table; one that was there is not looked for again, because its log grows."""
        if table not in self._made and self._named.exists(self._spark, table):
            self._made.add(table)
        return table in self._made

    def _whole_rows(self, table: str, rows: DataFrame, batch: BatchId) -> DataFrame:
        origin = {
            "cluster": f.lit(self._cluster),
            "query_id": f.lit(batch.query_id),
            "batch_id": f.lit(batch.batch_id),
            "written_at": f.current_timestamp(),
        }
        schema = from_arrow_schema(whole(table))
        found = rows.withColumns(origin).select([f.col(field.name).cast(field.dataType) for field in schema])
        if self._pseudonyms is None or table not in WITH_NAMES:
            return found
        hide = ReusedWorkerTask(partial(hide_names, table=table, pseudonyms=self._pseudonyms))
        return found.mapInArrow(hide, schema)


def _require_delta_lake(spark: SparkSession) -> None:
    """Raise `WrongSpark` before Spark would, which names a class. Spark itself starts where an extension is missing."""
    if EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise WrongSpark(_missing(f"spark.sql.extensions does not name {EXTENSION}"))
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
    try:
        java.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(EXTENSION)
    except Py4JJavaError:
        raise WrongSpark(_missing("its jars are not there")) from None


def _missing(what: str) -> str:
    return (
        f"the Spark that runs here was started without Delta Lake, which keeps the tables: {what}. Start Spark with it"
    )
