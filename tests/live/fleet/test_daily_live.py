"""Hourly rows become daily ones, and verdicts stay the same."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet import Fleet
from featuregate_fleet.evidence.columns import API_USAGE, KEYS
from featuregate_fleet.readiness.evidence import Evidence
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.stream.upkeep import compact
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.reader import read_evidence

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

NOW = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def rows(hours: range) -> list[dict[str, Any]]:
    """Return two clients of two brokers in some hours before now; one client pauses in some of them."""
    made = []
    for back in hours:
        at = NOW.replace(minute=0) - back * HOUR
        for broker in ("1", "2"):
            for client, version in (("steady", 12), ("paused", 0)):
                if client == "steady" or back % 7:
                    made.append(
                        dict.fromkeys(API_USAGE.names)
                        | {"broker": broker, "hour": at, "outcome": "completed", "level": "DEBUG", "forwarded": False}
                        | {"principal": "User:a", "client_id": client, "api_key": 1, "version": version, "count": 5}
                        | {"first_seen": at + MINUTE, "last_seen": at + 50 * MINUTE}
                    )
    return made


def append(tables: Tables, hours: range, batch: int) -> None:
    """Write what a query has read that has one batch, as those over files with a new name have."""
    tables.append("api_usage", usage(tables, hours), BatchId(f"replaced {batch}", 0))


def usage(tables: Tables, hours: range) -> DataFrame:
    """Return rows of the table."""
    return tables._spark.createDataFrame(rows(hours), from_arrow_schema(API_USAGE))


def as_read(tables: Tables) -> Evidence:
    """Return the evidence, in an order of its own and without the versions of tables."""
    found = read_evidence(tables)
    return replace(
        found,
        usage=tuple(sorted(found.usage, key=str)),
        over_time=tuple(sorted(found.over_time)),
        hourly={broker: dict(hours) for broker, hours in found.hourly.items()},
        versions={},
    )


@pytest.mark.usefixtures("jvm")
def test_daily_rows_are_the_same_evidence(tmp_path: Path) -> None:
    """Also when lines of old hours come late, and for a time from which requests count."""
    days = 20
    with local_session() as spark:
        tables, others = (Tables(spark, tmp_path, name) for name in ("a", "b"))
        append(tables, range(days * 24), 0)
        append(others, range(days * 24), 0)
        before, of_others = as_read(tables), as_read(others)
        hourly = tables.read("api_usage").count()
        compact(tables, NOW)
        assert as_read(tables) == before
        assert as_read(others) == of_others
        assert others.read("api_usage").where("hours <> 1").isEmpty()
        kept = tables.read("api_usage").where("hours = 1 and outcome <> 'all'")
        assert kept.where("hour < timestamp'2026-11-15 00:00:00Z'").isEmpty(), "a week stays hourly"
        assert not kept.where("hour = timestamp'2026-11-15 00:00:00Z'").isEmpty()
        assert tables.read("api_usage").where("outcome <> 'all'").count() < hourly / 2

        files = {*tables.read("api_usage").inputFiles()}
        compact(tables, NOW)
        assert {*tables.read("api_usage").inputFiles()} == files, "there is nothing to do again"

        append(tables, range(days * 24, days * 24 + 50), 1)
        append(tables, range(days * 24 - 30, days * 24), 2)
        late = as_read(tables)
        assert sum(used.count for used in late.usage) > sum(used.count for used in before.usage)
        compact(tables, NOW)
        assert as_read(tables) == late
        daily = tables.read("api_usage").where("hours = 24")
        assert daily.groupBy(*KEYS).count().where("count > 1").isEmpty(), "the queries of a day have one row"

        total = sum(row["count"] for row in Fleet(spark, tmp_path, "a").usage().select("count").collect())
        assert total == sum(used.count for used in late.usage)
        noon = datetime(2026, 11, 10, 12, tzinfo=UTC)
        seen = read_evidence(tables.since(noon))
        assert min(seen.hourly["1"]) == noon, "each hour still has its requests"
        assert min(used.first_seen for used in seen.usage) == noon.replace(hour=0) + MINUTE, "the whole day counts"


@pytest.mark.usefixtures("jvm")
def test_a_replay_that_was_killed_still_finds_its_rows(tmp_path: Path) -> None:
    """The next one replaces them, also when they became daily in between."""
    batch = BatchId("replay 1 2", 0)
    with local_session() as spark:
        tables = Tables(spark, tmp_path, "c")
        append(tables, range(480, 490), 0)
        tables.append_anew("api_usage", usage(tables, range(480, 490)), batch)
        once = as_read(tables)
        compact(tables, NOW)
        assert tables.read("api_usage").where("hours = 1 and outcome <> 'all'").isEmpty()
        tables.append_anew("api_usage", usage(tables, range(480, 490)), batch)
        again = as_read(tables)
        assert (again.usage, again.hourly) == (once.usage, once.hourly)
