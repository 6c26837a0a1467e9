"""Writes what brokers answered, and the levels of their request logs, into tables: once in each run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import CLUSTER_VIEWS, COVERAGE, FEATURE_LEVELS
from featuregate_fleet.evidence.level_rows import level_rows
from featuregate_fleet.tables.folder import BatchId, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate.admin.loggers import BrokerLogLevel
    from featuregate.view.cluster_view import View


def keep_view(spark: SparkSession, view: View, tables: Tables) -> None:
    """Append a view and the levels in it. The view is last, because readers take the levels from it."""
    taken_at = datetime.fromtimestamp(view.seen_at, UTC)
    batch = BatchId(f"view {taken_at.isoformat()}", 0)
    levels = spark.createDataFrame(list(level_rows(view, taken_at)), from_arrow_schema(FEATURE_LEVELS))
    tables.append("feature_levels", levels, batch)
    one = [(taken_at, view.cluster_id, view.epoch, view.to_json())]
    tables.append("cluster_views", spark.createDataFrame(one, from_arrow_schema(CLUSTER_VIEWS)), batch)


def keep_log_levels(spark: SparkSession, levels: Iterable[BrokerLogLevel], tables: Tables) -> list[str]:
    """Append the level of each broker; return the brokers that did not report it."""
    rows = [
        (datetime.now(UTC), str(one.broker), one.level, str(one.failure) if one.failure else None) for one in levels
    ]
    batch = BatchId(f"log levels {rows[0][0].isoformat()}", 0)
    tables.append("coverage", spark.createDataFrame(rows, from_arrow_schema(COVERAGE)), batch)
    return [broker for _, broker, level, _ in rows if level is None]
