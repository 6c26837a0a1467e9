"""Tables as Delta Lake keeps them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate_fleet.errors import WrongSpark
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.locks import making_table
from featuregate_fleet.tables.table_names import InFolder, TableNames, in_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_CHECK_RETENTION: Final = "spark.databricks.delta.retentionDurationCheck.enabled"

_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_WRITING: Final = {"mergeSchema": "true", "delta.dataSkippingStatsColumns": "cluster"}
"""A table that an older release has made gets the columns that it lacks. A new table has statistics of one column: by
default Delta's log keeps the least and the greatest principal of each file, also of those that are deleted."""


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
        once = {"txnAppId": batch.query_id, "txnVersion": str(batch.batch_id), **_WRITING}
        with self._making(table):
            self._named.write(whole.write.format("delta").mode("append").options(**once), table)

    def append_anew(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Append the rows of a query that has one batch, in place of those that a killed run of it has appended."""
        self._overwrite(table, self._whole_rows(table, rows, batch), f" and query_id = '{batch.query_id}'")

    def rewrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of this cluster by rows that were read from the table."""
        self._overwrite(table, rows)

    def replace(self, table: str, kept: DataFrame, added: DataFrame, batch: BatchId) -> None:
        """Replace all rows of this cluster at once: by some that were read from the table, and by those of a batch."""
        self._overwrite(table, kept.unionByName(self._whole_rows(table, added, batch)))

    def compact(self, table: str) -> None:
        """Join the files of a table, those of all clusters."""
        self._spark.sql(f"OPTIMIZE {self._named.of(table)}").collect()

    def vacuum(self, table: str) -> None:
        """Delete the files of earlier versions. No process may write a table meanwhile, of any cluster."""
        self._spark.conf.set(_CHECK_RETENTION, "false")  # which guards writers that are at work
        self._spark.conf.set(_LISTING, "2")  # tasks that list the one folder of a table; 10,000 by default
        self._spark.sql(f"VACUUM {self._named.of(table)} RETAIN 0 HOURS").collect()

    def _overwrite(self, table: str, rows: DataFrame, and_only: str = "") -> None:
        where = {"replaceWhere": f"cluster = '{self._cluster}'{and_only}"}
        with self._making(table):
            only = where if self._exists(table) else {}
            writer = rows.coalesce(1).write.format("delta").mode("overwrite").options(**only, **_WRITING)
            self._named.write(writer, table)

    def _making(self, table: str) -> AbstractContextManager[None]:
        """Hold the turn to make a table, where it does not exist."""
        return nullcontext() if self._exists(table) else making_table(self._folder, table)

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
