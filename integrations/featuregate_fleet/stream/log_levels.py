"""Writes the levels of the request logs into a table, once in each run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import COVERAGE
from featuregate_fleet.tables.folder import BatchId, Tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from featuregate.admin.loggers import BrokerLogLevel


def keep_log_levels(spark: SparkSession, levels: Iterable[BrokerLogLevel], tables: Tables) -> list[str]:
    """Append the level of each broker; return the brokers that did not report it."""
    rows = [
        (datetime.now(UTC), str(one.broker), one.level, str(one.failure) if one.failure else None) for one in levels
    ]
    batch = BatchId(f"log levels {rows[0][0].isoformat()}", 0)
    tables.append("coverage", spark.createDataFrame(rows, from_arrow_schema(COVERAGE)), batch)
    return [broker for _, broker, level, _ in rows if level is None]
