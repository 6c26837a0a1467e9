"""What the page draws over time, read from tables by Spark."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import API_USAGE, COVERAGE, FEATURE_LEVELS
from featuregate_fleet.readiness.evidence import LevelAt, UsageAt
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.coverage_reader import log_levels, logged_requests
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.over_time_reader import levels_over_time, usage_by_time, usage_over_time

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
FETCH = 1


def used(at: datetime, version: int, software: str | None, client: str, **changed: Any) -> dict[str, Any]:
    """Return a row of requests."""
    made = {"broker": "1", "hour": at, "outcome": "completed", "level": "DEBUG", "forwarded": False}
    who = {"principal": "User:a", "client_id": client, "software_name": software, "api_key": FETCH, "version": version}
    return made | who | {"count": 5, "first_seen": at, "last_seen": at} | changed


@pytest.mark.usefixtures("jvm")
def test_what_changes_is_read_and_what_stays_is_left_out(tmp_path: Path) -> None:
    """A run that goes on asks each minute, for months: its answers must not grow without a bound."""
    day = TEN.replace(hour=0) - timedelta(days=9)
    usage = [
        used(TEN, 0, "sarama", "old"),
        used(TEN, 0, None, "old", level="INFO"),  # the same client, on another connection
        used(TEN, 16, None, "silent"),
        used(TEN, 16, "a", "two"),
        used(TEN, 16, "b", "two"),
        used(TEN, 16, None, "two"),
        used(TEN, 99, "sarama", "old", outcome="refused"),
        used(TEN, 0, "sarama", "old", forwarded=True),
        used(day + timedelta(hours=3), 0, "sarama", "old"),
        used(day - timedelta(days=40), 0, "sarama", "old"),
    ]
    told = [(TEN + number * MINUTE, "1", "DEBUG" if number < 50 else "WARN", None) for number in range(60)]
    seen = [
        {"taken_at": TEN + number * MINUTE, "feature": "group.version", "level": number // 30, "broker": broker}
        for number in range(60)
        for broker in ("1", "2")
    ]
    kinds = list(product(("completed", "refused"), (None, False, True), (False, True)))
    of_kinds = [
        used(TEN, 16, "kgo", "app", outcome=outcome, forwarded=forwarded, text_log=text_log)
        for outcome, forwarded, text_log in kinds
    ]
    with local_session() as spark:
        tables = Tables(spark, tmp_path, "orders")

        def append(table: str, rows: list[Any], schema: pa.Schema) -> None:
            tables.append(table, spark.createDataFrame(rows, from_arrow_schema(schema)), BatchId("test", 0))

        def over_time_of_now() -> tuple[UsageAt, ...]:
            return usage_over_time(usage_by_time(tables, logged_requests(tables)))

        assert (over_time_of_now(), levels_over_time(tables), log_levels(tables)) == ((), (), ())
        append("api_usage", [{name: row.get(name) for name in API_USAGE.names} for row in usage], API_USAGE)
        append("coverage", told, COVERAGE)
        append(
            "feature_levels", [{name: row.get(name) for name in FEATURE_LEVELS.names} for row in seen], FEATURE_LEVELS
        )
        short = Tables(spark, tmp_path, "short")
        of_hours = [used(TEN + number * HOUR, 16, "kgo", "app") for number in range(2)]
        rows = [{name: row.get(name) for name in API_USAGE.names} for row in of_hours]
        short.append("api_usage", spark.createDataFrame(rows, from_arrow_schema(API_USAGE)), BatchId("short", 0))
        by_hour = usage_over_time(usage_by_time(short, logged_requests(short)))
        mixed = Tables(spark, tmp_path, "mixed")
        rows = [{name: row.get(name) for name in API_USAGE.names} for row in of_kinds]
        mixed.append("api_usage", spark.createDataFrame(rows, from_arrow_schema(API_USAGE)), BatchId("mixed", 0))
        found = usage_by_time(mixed, logged_requests(mixed)).select("outcome", "forwarded", "text_log", "count")
        assert Counter(found.collect()) == Counter((*kind, 5) for kind in kinds), "each kind is counted apart"
        over_time, levels, answers = over_time_of_now(), levels_over_time(tables), log_levels(tables)
        logged = logged_requests(tables)
    assert sorted(one.at for one in by_hour) == [TEN, TEN + HOUR], "few days are counted by the hour"
    today = TEN.replace(hour=0)
    assert {(one.software, one.version, one.at): one.requests for one in over_time} == {
        ("sarama", 0, today): 10,
        ("sarama", 0, day): 5,
        ("", 16, today): 10,
        ("a", 16, today): 5,
        ("b", 16, today): 5,
    }
    assert levels == (LevelAt("group.version", 0, TEN), LevelAt("group.version", 1, TEN + 30 * MINUTE))
    assert [(one.level, one.taken_at.minute) for one in answers] == [
        ("DEBUG", 30),
        ("DEBUG", 49),
        ("WARN", 50),
        ("WARN", 59),
    ]
    assert logged.deprecated == {"1": {TEN: 5}}
    assert logged.hourly["1"][TEN] == 30
    assert logged.brokers["1"].requests == 40
    assert logged.brokers["1"].hours == 3
