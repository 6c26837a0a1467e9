"""Which format the tables of a folder have: Delta Lake, or plain Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.tables.delta import DeltaTables
from featuregate_fleet.tables.parquet import ParquetTables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.tables.folder import Tables

DELTA: Final = "delta"
PARQUET: Final = "parquet"
_CLASSES: Final[dict[str, type[Tables]]] = {DELTA: DeltaTables, PARQUET: ParquetTables}
_SIGNS: Final = {DELTA: "*/_delta_log", PARQUET: "*/*/*/_SUCCESS"}


def tables_in(
    spark: SparkSession, folder: Path, cluster: str, pseudonyms: Pseudonyms | None = None, wanted: str | None = None
) -> Tables:
    """Return the tables of one cluster in the format that the folder has, or begins with: by default `DELTA`.

    Raises
    ------
    TablesBroken
        The folder has tables of another format than ``wanted``.
    WrongSpark
        They are of Delta Lake, and this Spark was started without it.
    """
    found = _found(folder)
    if wanted and found and wanted != found:
        raise TablesBroken(f"{folder} has tables of the format {found}: take another folder for {wanted}")
    return _CLASSES[wanted or found or DELTA](spark, folder, cluster, pseudonyms)


def changeable_tables(
    spark: SparkSession, folder: Path, cluster: str, pseudonyms: Pseudonyms | None = None
) -> DeltaTables:
    """Return the tables of one cluster, to change their rows.

    Raises
    ------
    TablesBroken
        They are plain Parquet, whose rows cannot be changed at once.
    WrongSpark
        This Spark was started without Delta Lake.
    """
    if _found(folder) == PARQUET:
        raise TablesBroken(f"{folder} has tables of plain Parquet, and only those of Delta Lake can be changed")
    return DeltaTables(spark, folder, cluster, pseudonyms)


def _found(folder: Path) -> str | None:
    return next((name for name, sign in _SIGNS.items() if any(folder.glob(sign))), None)
