"""The pipeline in a program that has a Spark: logs of a real broker, a cluster, and DataFrames of the tables."""

import importlib
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from featuregate.errors import ConfigError
from featuregate.testing import LocalKafka
from featuregate_fleet import Fleet, NotReady

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("jvm")
def test_a_notebook_reads_logs_and_asks(
    broker_log: Path,
    kafka: LocalKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A second run, the one of the page, adds nothing; the session of the program keeps its settings."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "spark_job")
    check_move = importlib.import_module("fleet_from_python").check_move
    spark = SparkSession.builder.getOrCreate()
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        (tmp_path / "logs" / "1").mkdir(parents=True)
        shutil.copy(broker_log, tmp_path / "logs" / "1" / "server.log.1")
        fleet = Fleet(spark, tables=tmp_path / "tables", cluster="orders")
        counts = fleet.ingest(logs=tmp_path / "logs", bootstrap=kafka.bootstrap)
        assert counts.read == len(broker_log.read_text().splitlines()) == counts.rows + counts.quarantined
        assert (counts.missing, counts.totals) == ((), counts[1:4])
        again = fleet.ingest(logs=tmp_path / "logs", bootstrap=kafka.bootstrap)
        assert (again.read, again.totals) == (0, counts.totals)
        with pytest.raises(NotReady, match=r"^orders to Kafka 4\.2: block\. .*ListOffsets"):
            check_move(spark, str(tmp_path / "logs"), str(tmp_path / "tables"), kafka.bootstrap)
        said = capsys.readouterr().out
        assert "0 of 0 new lines are evidence" in said
        assert "orders to Kafka 4.2: block\nblock: client 'ancient'" in said

        report = fleet.readiness(to="4.2")
        assert report.verdict == "block"
        findings = report.to_df().where("verdict = 'block'").select("client_id", "api").collect()
        assert [tuple(row) for row in findings] == [("ancient", "ListOffsets")]
        assert fleet.table("source").where("input = 'logs'").count() == 1
        with pytest.raises(ConfigError, match=r"the tables .* have no cluster order: they have orders"):
            Fleet(spark, tables=tmp_path / "tables", cluster="order").readiness(to="4.2")

        usage = fleet.usage()
        refused = usage.where("outcome = 'refused'").select("api", "version", "count").collect()
        assert [tuple(row) for row in refused] == [("Metadata", 99, 1)]
        clients = usage.where("api = 'ListOffsets'").groupBy("client_id").count().collect()
        assert "ancient" in {row.client_id for row in clients}
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


@pytest.mark.usefixtures("jvm")
def test_a_cluster_that_fails_stops_no_other(broker_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of the page: the cluster without logs has a row that says so, and the others have pages."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "spark_job")
    judge_clusters = importlib.import_module("judge_clusters").judge_clusters
    for name in ("orders", "payments"):
        (tmp_path / "logs" / name / "1").mkdir(parents=True)
        shutil.copy(broker_log, tmp_path / "logs" / name / "1" / "server.log.1")
    verdicts = dict(judge_clusters(SparkSession.builder.getOrCreate(), tmp_path, ["orders", "gone", "payments"]))
    assert {name: verdict.partition(":")[0] for name, verdict in verdicts.items()} == {
        "orders": "block",
        "gone": "failed",
        "payments": "block",
    }
    assert str(tmp_path / "logs" / "gone") in verdicts["gone"]
    assert {page.name for page in tmp_path.glob("*.html")} == {"orders.html", "payments.html"}
