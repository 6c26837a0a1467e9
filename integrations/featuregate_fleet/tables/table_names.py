"""How Spark names the table of a cluster: by its folder, or by its name in a catalog such as Unity, Glue or Hive."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.errors import ConfigError
from featuregate_fleet.files.storage import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
CATALOG: Final = "catalog:"
"""Stands before the name of a schema, in place of a folder."""
_SCHEMA: Final = re.compile(r"[\w-]+(\.[\w-]+)?", re.ASCII)


def check_cluster_name(text: str) -> str:
    """Return the name of a cluster, and of its table and its folder, or raise `ConfigError` where it cannot be one."""
    if not _NAME.fullmatch(text):
        raise ConfigError("cluster", f"{text!r} is not a name: use letters, digits, '-', '_' and '.'")
    return text


class TableName(NamedTuple):
    """Where Spark finds the table of a cluster."""

    for_sql: str
    """Its name, for SQL."""
    folder: Path | None
    """The folder of its own; None for a table that a schema of a catalog has by its name."""

    def newest(self, spark: SparkSession) -> int | None:
        """Return the newest version of the table; None where it does not exist."""
        if self.folder is not None:
            commits = [path.stem for path in (self.folder / "_delta_log").glob("*.json") if path.stem.isdecimal()]
            return max(map(int, commits), default=None)
        if not spark.catalog.tableExists(self.for_sql):
            return None
        return int(spark.sql(f"DESCRIBE HISTORY {self.for_sql} LIMIT 1").collect()[0]["version"])

    def read(self, reader: DataFrameReader) -> DataFrame:
        """Return the rows of the table."""
        if self.folder is None:
            return reader.table(self.for_sql)
        return reader.format("delta").load(spark_path(self.folder))

    def write(self, writer: DataFrameWriter) -> None:
        """Write rows."""
        if self.folder is None:
            writer.saveAsTable(self.for_sql)
        else:
            writer.save(spark_path(self.folder))


def table_name(spark: SparkSession, place: Path | str, cluster: str) -> TableName:
    """Return where the table of a cluster is: in a folder, or in the schema that is named behind `CATALOG`.

    Raises ConfigError (this is not the name of a schema, or there is none of this name).
    """
    if isinstance(place, str) and place.startswith(CATALOG):
        return TableName(f"{_schema(spark, place.removeprefix(CATALOG))}.{_quoted(cluster)}", None)
    folder = Path(place) if isinstance(place, str) else place
    own = folder.resolve() / cluster  # the JVM may be in another folder than this process
    return TableName(f"delta.{_quoted(spark_path(own))}", own)


def names_in_schema(spark: SparkSession, schema: str, columns: frozenset[str]) -> list[str]:
    """Return the names of the tables in a schema that have some columns. Raises ConfigError."""
    quoted = _schema(spark, schema)
    tables = [row["tableName"] for row in spark.sql(f"SHOW TABLES IN {quoted}").collect() if not row["isTemporary"]]
    return [name for name in tables if columns <= {*spark.table(f"{quoted}.{_quoted(name)}").columns}]


def _schema(spark: SparkSession, schema: str) -> str:
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError("tables", f"{schema!r} is not the name of a schema, such as {CATALOG}main.kafka")
    quoted = ".".join(map(_quoted, schema.split(".")))
    if not spark.catalog.databaseExists(quoted):
        raise ConfigError("tables", f"the catalog of Spark has no schema {schema}: create it for this job")
    return quoted


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
