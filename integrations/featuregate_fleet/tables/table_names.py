"""How Spark names a table: by its folder, or by its name in a catalog such as Unity, Glue or Hive."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.errors import ConfigError
from featuregate_fleet.files.storage import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

_SCHEMA: Final = re.compile(r"[\w-]+(\.[\w-]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class InFolder:
    """A folder has one of each table."""

    folder: Path

    def exists(self, spark: SparkSession, table: str) -> bool:
        """Return whether there is a table."""
        return self.newest(spark, table) is not None

    def newest(self, spark: SparkSession, table: str) -> int | None:  # noqa: ARG002 - its log says it
        """Return the newest version of a table; None where it does not exist."""
        commits = [path.stem for path in (self.folder / table / "_delta_log").glob("*.json") if path.stem.isdecimal()]
        return max(map(int, commits), default=None)

    def location(self, spark: SparkSession, table: str) -> str:  # noqa: ARG002 - it is in the folder
        """Return the path or URI of the folder with the files of a table that exists, for Hadoop."""
        return self._path(table)

    def read(self, reader: DataFrameReader, table: str) -> DataFrame:
        """Return the rows of a table."""
        return reader.format("delta").load(self._path(table))

    def write(self, writer: DataFrameWriter, table: str) -> None:
        """Write the rows of a table."""
        writer.save(self._path(table))

    def of(self, table: str) -> str:
        """Return the name of a table, for SQL."""
        return f"delta.{_quoted(self._path(table))}"

    def _path(self, table: str) -> str:
        return spark_path(self.folder / table)


@dataclass(frozen=True, slots=True)
class InCatalog:
    """A schema of a catalog has one of each table."""

    schema: str
    """``schema`` or ``catalog.schema``, which exists."""

    def exists(self, spark: SparkSession, table: str) -> bool:
        """Return whether there is a table."""
        return spark.catalog.tableExists(self.of(table))

    def newest(self, spark: SparkSession, table: str) -> int | None:
        """Return the newest version of a table; None where it does not exist."""
        if not self.exists(spark, table):
            return None
        return int(spark.sql(f"DESCRIBE HISTORY {self.of(table)} LIMIT 1").collect()[0]["version"])

    def location(self, spark: SparkSession, table: str) -> str:
        """Return the path or URI of the folder with the files of a table that exists, for Hadoop."""
        return str(spark.sql(f"DESCRIBE DETAIL {self.of(table)}").collect()[0]["location"])

    def read(self, reader: DataFrameReader, table: str) -> DataFrame:
        """Return the rows of a table."""
        return reader.table(self.of(table))

    def write(self, writer: DataFrameWriter, table: str) -> None:
        """Write the rows of a table."""
        writer.saveAsTable(self.of(table))

    def of(self, table: str) -> str:
        """Return the name of a table, for SQL."""
        return ".".join(map(_quoted, (*self.schema.split("."), table)))


TableNames = InFolder | InCatalog
"""Where Spark finds the tables."""


def in_catalog(spark: SparkSession, schema: str) -> InCatalog:
    """Return the names of the tables of a schema.

    Raises
    ------
    ConfigError
        This is not the name of a schema, or there is none of this name.
    """
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError("tables", f"{schema!r} is not the name of a schema, such as main.kafka")
    if not spark.catalog.databaseExists(".".join(map(_quoted, schema.split(".")))):
        raise ConfigError("tables", f"the catalog of Spark has no schema {schema}: create it for this job")
    return InCatalog(schema)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
