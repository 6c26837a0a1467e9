"""How Spark names the table of a cluster: by its folder, or by its name in a catalog such as Unity, Glue or Hive."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.errors import ConfigError
from featuregate_fleet.files.storage import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

CATALOG: Final = "catalog:"
"""Stands before the name of a schema, in place of a folder."""
_SCHEMA: Final = re.compile(r"[\w-]+(\.[\w-]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class InFolder:
    """A folder has the table in a folder of its own."""

    folder: Path

    @property
    def for_sql(self) -> str:
        """The name of the table, for SQL."""
        return f"delta.{_quoted(spark_path(self.folder))}"

    def newest(self, spark: SparkSession) -> int | None:  # noqa: ARG002 - its log says it
        """Return the newest version of the table; None where it does not exist."""
        commits = [path.stem for path in (self.folder / "_delta_log").glob("*.json") if path.stem.isdecimal()]
        return max(map(int, commits), default=None)

    def read(self, reader: DataFrameReader) -> DataFrame:
        """Return the rows of the table."""
        return reader.format("delta").load(spark_path(self.folder))

    def write(self, writer: DataFrameWriter) -> None:
        """Write rows."""
        writer.save(spark_path(self.folder))


@dataclass(frozen=True, slots=True)
class InCatalog:
    """A schema of a catalog has the table by its name."""

    schema: str
    """``schema`` or ``catalog.schema``, which exists."""
    table: str

    @property
    def for_sql(self) -> str:
        """The name of the table, for SQL."""
        return ".".join(map(_quoted, (*self.schema.split("."), self.table)))

    def newest(self, spark: SparkSession) -> int | None:
        """Return the newest version of the table; None where it does not exist."""
        if not spark.catalog.tableExists(self.for_sql):
            return None
        return int(spark.sql(f"DESCRIBE HISTORY {self.for_sql} LIMIT 1").collect()[0]["version"])

    def read(self, reader: DataFrameReader) -> DataFrame:
        """Return the rows of the table."""
        return reader.table(self.for_sql)

    def write(self, writer: DataFrameWriter) -> None:
        """Write rows."""
        writer.saveAsTable(self.for_sql)


TableName = InFolder | InCatalog
"""Where Spark finds the table of a cluster."""


def table_name(spark: SparkSession, place: Path | str, cluster: str) -> TableName:
    """Return where the table of a cluster is: in a folder, or in the schema that is named behind `CATALOG`.

    Raises
    ------
    ConfigError
        This is not the name of a schema, or there is none of this name.
    """
    if isinstance(place, str) and place.startswith(CATALOG):
        return InCatalog(_schema(spark, place.removeprefix(CATALOG)), cluster)
    folder = Path(place) if isinstance(place, str) else place
    return InFolder(folder.resolve() / cluster)  # the JVM may be in another folder than this process


def names_in_schema(spark: SparkSession, schema: str, columns: frozenset[str]) -> list[str]:
    """Return the names of the tables in a schema that have some columns.

    Raises
    ------
    ConfigError
        There is no such schema.
    """
    quoted = ".".join(map(_quoted, _schema(spark, schema).split(".")))
    tables = [row["tableName"] for row in spark.sql(f"SHOW TABLES IN {quoted}").collect() if not row["isTemporary"]]
    return [name for name in tables if columns <= {*spark.table(f"{quoted}.{_quoted(name)}").columns}]


def _schema(spark: SparkSession, schema: str) -> str:
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError("tables", f"{schema!r} is not the name of a schema, such as {CATALOG}main.kafka")
    if not spark.catalog.databaseExists(".".join(map(_quoted, schema.split(".")))):
        raise ConfigError("tables", f"the catalog of Spark has no schema {schema}: create it for this job")
    return schema


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
