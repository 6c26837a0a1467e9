"""Tables as Delta Lake keeps them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as f

from featuregate_fleet.errors import WrongSpark
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.locks import making_table
from featuregate_fleet.tables.table_names import InFolder, TableNames, in_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_CHECK_RETENTION: Final = "spark.databricks.delta.retentionDurationCheck.enabled"

_STATISTICS: Final = ("delta.dataSkippingStatsColumns", "written_at")
_WRITING: Final = dict([("mergeSchema", "true"), _STATISTICS])
"""A table that an older release has made gets the columns that it lacks. A new table has statistics of one column: by
default Delta's log keeps the least and the greatest principal of each file, also of those that are deleted."""
_PARTITIONS: Final = "cluster"
"""Delta Lake lets two writers commit at a time where each reads and changes files of its own partition alone."""
_INVENTORY: Final = "path string, length long, isDir boolean, modificationTime long"
"""Of files that a vacuum looks at, as Delta Lake takes it."""


EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
"""What Spark must be started with, in ``spark.sql.extensions``."""


class DeltaTables(Tables):
    """Tables with transactions: in the folder, or in ``schema`` of a catalog, with their checkpoints in the folder.

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
        super().__init__(spark, folder, cluster, pseudonyms)
        self._made: set[str] = set()
        self._named: TableNames = InFolder(self._folder) if schema is None else in_catalog(spark, schema)

    def version(self, table: str) -> int | None:
        """Return the version of a table that readers see; None where it does not exist."""
        seen: int | None = self._seen(table)
        return seen

    def _newest(self, table: str) -> int | None:
        return self._named.newest(self._spark, table)

    def name_for_sql(self, table: str) -> str:
        """Return how Spark's SQL names a table."""
        return self._named.of(table)

    def read_all(self, table: str) -> DataFrame:
        """Return the rows of all clusters, of a table that exists, as they are."""
        pin = {} if self._pins is None else {"versionAsOf": self.version(table)}
        return self._named.read(self._spark.read.options(**pin), table)

    def append(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Append the rows of a micro-batch, once: a batch that is run again writes nothing.

        Delta ignores a batch whose number is not above the last one of the same query. A new checkpoint begins at 0
        again, and must not be ignored: so the id of the query is that of the checkpoint.
        """
        whole = self._whole_rows(table, rows, batch).coalesce(1)
        once = {"txnAppId": batch.query_id, "txnVersion": str(batch.batch_id)}
        with self._writer(table, whole) as writer:
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
        name = self._named.of(table)
        (detail,) = self._spark.sql(f"DESCRIBE DETAIL {name}").collect()
        if detail["partitionColumns"] != [_PARTITIONS]:
            # Delta Lake keeps the properties of a table, and refuses statistics of a column that is a partition.
            key, value = _STATISTICS
            self._spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = '{value}')").collect()
            rows = self._named.read(self._spark.read, table)
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            self._named.write(writer.partitionBy(_PARTITIONS), table)

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

    def _rows(self, table: str) -> DataFrame:
        return self.read_all(table).where(f.col("cluster") == self._cluster)


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
