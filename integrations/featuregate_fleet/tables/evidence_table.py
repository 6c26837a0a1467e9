"""The table of one cluster, as Delta Lake keeps it: rows of all kinds, and one commit for each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate.errors import ConfigError
from featuregate_fleet.errors import BatchTaken, WrongSpark
from featuregate_fleet.evidence.columns import KINDS, ORIGIN, ROWS, SOURCE
from featuregate_fleet.files.storage import reached
from featuregate_fleet.tables.failures import read_steadily
from featuregate_fleet.tables.table_names import CATALOG, check_cluster_name, names_in_schema, table_name
from featuregate_spark.arrow_tables import from_arrow, to_arrow

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
"""What Spark must be started with, in ``spark.sql.extensions``."""
_WRITING: Final = {
    # By default Delta's log keeps the least and the greatest principal of each file, also of those that are deleted.
    "delta.dataSkippingStatsColumns": "batch",
    # By default 30 days, and each run lists some thousand files of the log.
    "delta.logRetentionDuration": "interval 7 days",
}
ENDS: Final = {
    "usage": "usage.last_seen",
    "hour": "hour.last_seen",
    "requests": "requests.last_seen",
    "software": "software.hour",
    "target": "target.until",
}
"""The kinds of what happened at some time, and when it ended."""
_TAKEN: Final = ("Concurrent", "MetadataChanged", "ProtocolChanged")
"""In the names of Delta's exceptions where another writer was first."""
_HEAD: Final = 400
"""Characters of an error, which has the names of exceptions at its beginning."""
_APP: Final = "featuregate"
"""To Delta Lake the writer of the table, which has one batch of each number."""
_SMALL: Final = 2 * 2**20
"""Bytes of a table that one core reads in the time of a few tasks: of days that are alike, three million rows."""
_TRIES: Final = 20
"""How often a change is tried, while batches are appended."""
_RETENTION: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


class EvidenceTable:
    """All evidence of one cluster, in one table of a folder or of a schema of a catalog.

    ``place`` is the folder, or the name of the schema behind ``catalog:``. The name of the cluster, which is that of
    the table, consists of letters, digits, ``-``, ``_`` and ``.``. Raises ConfigError, WrongSpark.
    """

    def __init__(self, spark: SparkSession, place: Path | str, cluster: str) -> None:
        _require_delta_lake(spark)
        self._spark = spark
        self._named = table_name(spark, place, cluster)
        self._since: datetime | None = None
        self._pin: int | None = None
        self._pinned: DataFrame | None = None

    @property
    def name(self) -> str:
        """How Spark's SQL names the table."""
        return self._named.for_sql

    def version(self) -> int | None:
        """Return the newest version, or the one that is pinned; None where no batch was committed yet."""
        return self._named.newest(self._spark) if self._pin is None else self._pin

    def pinned(self) -> Self:
        """Return the same table as it is now: readers see nothing that is committed later."""
        if (pin := self.version()) is None:
            return self._with()
        rows = self._named.read(self._spark.read.options(versionAsOf=pin))  # Spark looks the version up once
        is_small = self.size()[1] < _SMALL
        return self._with(_pin=pin, _pinned=rows.coalesce(1) if is_small else rows)  # then no query has to shuffle

    def since(self, hour: datetime) -> Self:
        """Return the same table with what happened from an hour on: readers see no requests that ended before."""
        return self._with(_since=hour)

    def _with(self, **changed: object) -> Self:
        other = copy(self)
        vars(other).update(changed)
        return other

    def rows(self, kind: str) -> DataFrame:
        """Return the rows of one kind with its columns and those of `ORIGIN`; none where there is no table yet."""
        if self.version() is None:
            columns = from_arrow_schema(KINDS[kind]), from_arrow_schema(ORIGIN)
            return self._spark.createDataFrame([], type(columns[0])([*columns[0], *columns[1]])).limit(0)  # no job
        found = self.all_rows().where(f.col("kind") == kind)
        if self._since is not None and kind in ENDS:
            found = found.where(f.col(ENDS[kind]) >= f.lit(self._since))
        return found.select(*(f"{kind}.{name}" for name in KINDS[kind].names), *ORIGIN.names)

    def all_rows(self) -> DataFrame:
        """Return the rows of all kinds of a table that exists, as they are."""
        return self._named.read(self._spark.read) if self._pinned is None else self._pinned

    def append(self, rows: DataFrame, number: int) -> pa.Table:
        """Append rows of `featuregate_fleet.evidence.columns.ROWS`, one of them of a run, as the batch of a number.

        That is one commit. Return the rows of kind ``source`` in it. Raises BatchTaken (another process has committed a
        batch of this number. Nothing of this one is in the table).
        """
        run_id = uuid4().hex
        origin = {"batch": f.lit(number).cast("long"), "run_id": f.lit(run_id), "written_at": f.current_timestamp()}
        writer = rows.withColumns(origin).write.format("delta").mode("append").partitionBy("kind").options(**_WRITING)
        try:
            self._named.write(writer.options(txnAppId=_APP, txnVersion=str(number)))
        except (Py4JJavaError, PySparkException) as error:
            if _was_taken(error):
                raise BatchTaken(number) from error
            raise
        # Of two that commit a number, Delta Lake refuses the later one, or leaves it out without a word.
        which = f"kind in ('source', 'run') and batch = {number}"
        columns = ("kind", "run_id", "source.*")
        found = read_steadily(lambda: to_arrow(self._named.read(self._spark.read).where(which).select(*columns)))
        if set(found["run_id"].to_pylist()) != {run_id}:
            raise BatchTaken(number)
        return found.filter(pc.equal(found["kind"], "source")).select(SOURCE.names)

    def delete(self, condition: str) -> None:
        """Delete the rows that meet a condition of SQL, in one commit. The log of Delta Lake keeps the condition."""
        self._change(f"DELETE FROM {self.name} WHERE {condition}")  # noqa: S608 - conditions are ours

    def merge(self, source: Callable[[], DataFrame], on: str, then: str) -> None:
        """Change the rows ``t`` that meet a condition with a row ``s`` of ``source``, in one commit."""
        view = f"merged_{uuid4().hex}"
        source().createOrReplaceTempView(view)
        try:
            self._change(f"MERGE INTO {self.name} AS t USING {view} AS s ON {on} {then}")
        finally:
            self._spark.catalog.dropTempView(view)

    def replace(self, kind: str, rows: Callable[[], DataFrame]) -> None:
        """Put others in place of the rows of a kind, in one commit. Rows that are appended meanwhile stay."""

        def write() -> None:
            columns = f.struct(*KINDS[kind].names).alias(kind)
            packed = rows().select(f.lit(kind).alias("kind"), columns, *ORIGIN.names)
            self._named.write(packed.write.format("delta").mode("overwrite").option("replaceWhere", f"kind = '{kind}'"))

        _changed(write)

    def as_rows(self, rows: pa.Table) -> DataFrame:
        """Return values as a DataFrame in the session of the table, to be joined or merged with its rows."""
        return from_arrow(self._spark, rows)

    def join_files(self) -> None:
        """Join the small files of all kinds, in one commit. Batches may be appended meanwhile."""
        self._change(f"OPTIMIZE {self.name}")

    def _change(self, statement: str) -> None:
        _changed(lambda: self._spark.sql(statement).collect())

    def size(self) -> tuple[int, int]:
        """Return how many files have the rows, and how many bytes they have."""
        detail = self._spark.sql(f"DESCRIBE DETAIL {self.name}").collect()[0]
        return int(detail["numFiles"]), int(detail["sizeInBytes"])

    def files(self) -> frozenset[str]:
        """Return the files that have the rows."""
        return frozenset(self.all_rows().inputFiles())

    def delete_files(self, files: Iterable[str]) -> None:
        """Delete files that had rows before, and those of a day ago that no commit has: a batch may write others."""
        java: Any = self._spark._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
        configuration = self._spark._jsc.hadoopConfiguration()  # noqa: SLF001 - likewise
        for file in files:
            path = java.org.apache.hadoop.fs.Path(file)
            path.getFileSystem(configuration).delete(path, False)  # noqa: FBT003 - of Java
        self._spark.conf.set(_RETENTION, "false")
        self._spark.sql(f"VACUUM {self.name} RETAIN 24 HOURS").collect()


def _changed(change: Callable[[], object]) -> None:
    """Change the table. Where another writer was first, it is tried again, on what there is then."""
    read_steadily(change, _TRIES, _was_taken)


def _was_taken(error: Exception) -> bool:
    return any(name in type(error).__name__ or name in str(error)[:_HEAD] for name in _TAKEN)


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


_SHOWN: Final = 5
"""Names of clusters in an error."""


def clusters(spark: SparkSession, place: Path | str) -> list[str]:
    """Return the names of the clusters that have a table in a folder, or in the schema behind ``catalog:``."""
    if isinstance(place, str):
        found = names_in_schema(spark, place.removeprefix(CATALOG), frozenset(ROWS.names))
        return sorted(found)
    folder = reached("tables", place)
    if not folder.is_dir():
        return []
    return sorted(each.name for each in folder.iterdir() if (each / "_delta_log").is_dir())


def existing_table(spark: SparkSession, place: Path | str, cluster: str) -> EvidenceTable:
    """Return the table of a cluster. Raises ConfigError."""
    table = EvidenceTable(spark, place, check_cluster_name(cluster))
    if table.version() is None:
        raise ConfigError("cluster", _not_there(cluster, place, clusters(spark, place)))
    return table


def check_cluster_there(spark: SparkSession, place: Path | str, cluster: str) -> None:
    """Raise ConfigError for a cluster that the tables do not have, where they have others: its name is misspelled."""
    if (found := clusters(spark, place)) and cluster not in found:
        raise ConfigError("cluster", _not_there(cluster, place, found))


def _not_there(cluster: str, place: Path | str, there: Sequence[str]) -> str:
    near = get_close_matches(cluster, there, _SHOWN) or there[:_SHOWN]
    they = (
        f"they have {', '.join(near)}{', and others' if len(near) < len(there) else ''}" if there else "read logs first"
    )
    return f"the tables {place} have no cluster {cluster}: {they}"
