"""A report is of the tables at one moment, while a stream goes on to write them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import API_USAGE
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.reader import read_evidence

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
FIVE_REQUESTS = {
    **dict.fromkeys(API_USAGE.names),
    "broker": "1",
    "hour": TEN,
    "outcome": "completed",
    "level": "DEBUG",
    "forwarded": False,
    "client_id": "audit",
    "api_key": 1,
    "version": 16,
    "count": 5,
    "first_seen": TEN,
    "last_seen": TEN,
}


def append(tables: Tables, batch: int) -> None:
    """Write a micro-batch."""
    rows = tables._spark.createDataFrame([FIVE_REQUESTS], from_arrow_schema(API_USAGE))
    tables.append("api_usage", rows, BatchId("test", batch))


class _WrittenDelta(Tables):
    """Tables to which a stream appends before each read."""

    def read(self, table: str) -> DataFrame:
        append(self, 1 + (self._named.newest(self._spark, "api_usage") or 0))
        return super().read(table)


@pytest.mark.usefixtures("jvm")
def test_a_report_has_the_versions_that_it_has_read(tmp_path: Path) -> None:
    """Each part of it is of the same rows. A kept report shows the same evidence again by these versions."""
    with local_session() as spark:
        tables = _WrittenDelta(spark, tmp_path, "c")
        append(tables, 0)
        evidence = read_evidence(tables)
        assert tables.pinned().version("api_usage") != 0, "the stream went on"
    assert evidence.versions["api_usage"] == 0
    assert [used.count for used in evidence.usage] == [5]
    assert evidence.hourly == {"1": {TEN: 5}}
    assert [used.requests for used in evidence.over_time] == [5]
    assert evidence.versions["brokers"] is None
