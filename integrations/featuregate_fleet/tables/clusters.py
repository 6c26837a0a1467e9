"""Which clusters the tables have."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from featuregate.errors import ConfigError
from featuregate_fleet.evidence.columns import ROWS
from featuregate_fleet.files.storage import reached
from featuregate_fleet.tables.cluster_names import check_cluster_name
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.table_names import CATALOG, names_in_schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

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
    """Return the table of a cluster.

    Raises
    ------
    ConfigError
        There is none of that name. The error has the names that are alike.
    """
    table = EvidenceTable(spark, place, check_cluster_name(cluster))
    if table.version() is None:
        raise ConfigError("cluster", _not_there(cluster, place, clusters(spark, place)))
    return table


def check_cluster_there(spark: SparkSession, place: Path | str, cluster: str) -> None:
    """Refuse a cluster that the tables do not have, where they have others: its name is misspelled.

    Raises
    ------
    ConfigError
        As `existing_table`.
    """
    if (found := clusters(spark, place)) and cluster not in found:
        raise ConfigError("cluster", _not_there(cluster, place, found))


def _not_there(cluster: str, place: Path | str, there: Sequence[str]) -> str:
    near = get_close_matches(cluster, there, _SHOWN) or there[:_SHOWN]
    they = (
        f"they have {', '.join(near)}{', and others' if len(near) < len(there) else ''}" if there else "read logs first"
    )
    return f"the tables {place} have no cluster {cluster}: {they}"
