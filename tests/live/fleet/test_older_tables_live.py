"""Tables of an older release are read, and get the columns that they lack."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate.cli import main
from featuregate_fleet.evidence.columns import BROKERS, EVIDENCE_FILES, ORIGIN, QUARANTINE
from featuregate_fleet.evidence.lines.one_line import read_line
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.evidence.unread import CHANGED, unread_file
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.stream.upkeep import compact
from featuregate_fleet.tables.folder import Tables

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

LACKING = ("time_zone", "parser", "lines", "text_log")
"""Columns that the first release did not have."""


@pytest.mark.usefixtures("jvm")
def test_an_older_quarantine_is_read_and_replayed(tmp_path: Path, broker_log: Path) -> None:
    """A line that its parser did not understand becomes a request, and new lines have all columns."""
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    line = next(each for each in broker_log.read_text().splitlines() if isinstance(read_line(each), LoggedRequest))
    origin = {"cluster": "c", "query_id": "old", "batch_id": 0}
    kept = {"path": "1/a", "uri": "file:/gone/1/a", "broker": "1", "at": 0, "reason": "cut", "raw": line, "whole": True}
    counted = {"path": "1/a", "uri": "file:/gone/1/a", "broker": "1", "size": 9, "read": 1, "rows": 0, "quarantined": 1}
    with local_session() as spark:
        for name, schema, row in (("quarantine", QUARANTINE, kept), ("evidence_files", EVIDENCE_FILES, counted)):
            whole = from_arrow_schema(schema)
            for field in from_arrow_schema(ORIGIN):
                whole = whole.add(field)
            rows = spark.createDataFrame([{**dict.fromkeys(LACKING), **row, **origin}], whole)
            older = rows.drop(*LACKING)
            older.write.format("delta").save(str(tmp_path / "tables" / name))
        (read,) = Tables(spark, tmp_path / "tables", "c").read("quarantine").collect()
        assert (read.time_zone, read.parser, read.raw, read.lines, read.text_log) == ("UTC", 0, line, 1, False)
    (tmp_path / "logs" / "1").mkdir(parents=True)
    (tmp_path / "logs" / "1" / "b").write_text("garbage\n")
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]) == 0
    assert main(["fleet", "replay", *place]) == 0
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        assert [row["count"] for row in tables.read("api_usage").collect()] == [1]
        (left,) = tables.read("quarantine").collect()
        assert (left.raw, left.time_zone, left.parser > 0) == ("garbage", "UTC", True)
        sums = [f.sum(name).alias(name) for name in ("read", "rows", "quarantined")]
        assert tuple(tables.read("evidence_files").agg(*sums).collect()[0]) == (2, 1, 1)


@pytest.mark.usefixtures("jvm")
def test_an_older_table_gets_partitions_when_it_is_compacted(tmp_path: Path) -> None:
    """The last release had statistics of the column of clusters, which Delta Lake refuses for a partition."""
    place = tmp_path / "brokers"
    with local_session() as spark:
        schema = from_arrow_schema(BROKERS)
        for field in from_arrow_schema(ORIGIN):
            schema = schema.add(field)
        for cluster in ("a", "b"):
            row = {"broker": "1", "source": "folder", "cluster": cluster, "query_id": "", "batch_id": -1}
            written = spark.createDataFrame([dict.fromkeys(schema.names) | row], schema).write.format("delta")
            written.mode("append").option("delta.dataSkippingStatsColumns", "cluster").save(str(place))
        tables = {cluster: Tables(spark, tmp_path, cluster) for cluster in ("a", "b")}
        compact(tables["a"], datetime.now(UTC))
        (detail,) = spark.sql(f"DESCRIBE DETAIL {tables['a'].name_for_sql('brokers')}").collect()
        assert detail["partitionColumns"] == ["cluster"]
        assert detail["properties"]["delta.dataSkippingStatsColumns"] == "written_at"
        assert {name: each.read("brokers").count() for name, each in tables.items()} == {"a": 1, "b": 1}
        assert not list(place.glob("*.parquet")), "the files of the older table are deleted"
        tables["a"].leave_unread({unread_file("1/log", CHANGED)})
        (new,) = spark.sql(f"DESCRIBE DETAIL {tables['a'].name_for_sql('unread_files')}").collect()
        assert new["properties"]["delta.logRetentionDuration"] == "interval 7 days", "each run lists the log"
