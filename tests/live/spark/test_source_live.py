"""``kafka_features`` in real Spark: a table of real brokers."""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from featuregate.testing import FakeCluster, LocalKafka
from featuregate_spark import KafkaFeatures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "spark.md"
TV = "transaction.version"
BOOTSTRAP = "kafka.bootstrap.servers"
BOUND = 120.0
EOS_V2 = """
SELECT count_if(scope = 'cluster' AND feature = 'TxnOffsetCommit' AND max >= 3) = 1 AND count_if(kind = 'error') = 0
FROM features
"""


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaFeatures)


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka("4.2.0", nodes=3) as cluster:
        yield cluster


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.syspath_prepend(ROOT / "examples" / "spark_job")
    return importlib.import_module


def features(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.read.format("kafka_features").option(BOOTSTRAP, bootstrap).options(**options).load()


def levels(rows: list[Row]) -> list[tuple[int | None, int | None]]:
    return [(row.level, row.reported_level) for row in rows if row.feature == TV and row.scope == "cluster"]


# ---------------------------------------------------------------------- batches


@pytest.mark.proof("spark")
def test_a_table_shows_what_every_real_broker_can_do(spark: SparkSession, kafka: LocalKafka) -> None:
    """The table has served ranges and finalized levels, one row for the cluster and one for each broker."""
    found = features(spark, kafka.bootstrap, feature=f"Produce,{TV}").collect()
    assert {row.cluster_id for row in found} == {kafka.cluster_id}
    assert {(row.scope, row.broker) for row in found} == {
        ("cluster", None),
        ("broker", 1),
        ("broker", 2),
        ("broker", 3),
    }
    assert {(row.api_key, row.min) for row in found if row.kind == "api"} == {(0, 3)}
    assert {(row.min, row.max, row.level) for row in found if row.kind == "feature"} == {(0, 2, 2)}
    assert min(row.epoch for row in found) >= 0
    assert max(row.seen_at.timestamp() for row in found) <= time.time_ns() / 1e9


@pytest.mark.proof("spark")
def test_every_statement_of_the_page_runs(spark: SparkSession, kafka: LocalKafka) -> None:
    """The statements run in the order of the page."""
    statements = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(statements) >= 4
    for statement in statements:
        spark.sql(statement.replace("localhost:9092", kafka.bootstrap)).collect()
    spark.sql("DROP VIEW features")


@pytest.mark.proof("spark")
def test_apps_that_may_switch_are_a_join_with_a_topic(
    spark: SparkSession, kafka: LocalKafka, example: Callable[[str], Any]
) -> None:
    """The levels are enough, too low, and those of a feature that no broker knows."""
    needs = [("a", TV, 2), ("b", TV, 3), ("c", "brand.new.version", 1)]
    records = [(app, json.dumps({"feature": feature, "level": level})) for app, feature, level in needs]
    writing = spark.createDataFrame(records, "key STRING, value STRING").write.format("kafka")
    writing.option(BOOTSTRAP, kafka.bootstrap).option("topic", "needs").save()
    rows = example("features_join").ready(spark, kafka.bootstrap, "needs").collect()
    assert sorted((row.app, row.found, row.ready) for row in rows) == [
        ("a", 2, True),
        ("b", 2, False),
        ("c", None, False),
    ]


def test_one_old_broker_closes_a_gate_in_sql(spark: SparkSession) -> None:
    """KIP-447 needs every broker: 2.4 serves TxnOffsetCommit up to version 2."""
    with FakeCluster(brokers=3, release="3.9") as cluster:
        features(spark, cluster.bootstrap).createOrReplaceTempView("features")
        assert spark.sql(EOS_V2).collect()[0][0]
        cluster.add_broker(release="2.4")
        assert not spark.sql(EOS_V2).collect()[0][0]
        old = spark.sql("SELECT broker, max FROM features WHERE scope = 'broker' AND feature = 'TxnOffsetCommit'")
        assert {row.broker: row.max >= 3 for row in old.collect()} == {1: True, 2: True, 3: True, 4: False}
    spark.sql("DROP VIEW features")


def test_brokers_are_asked_once_when_a_query_is_planned(spark: SparkSession) -> None:
    """Loading, explaining and tasks ask no broker, so that tasks cannot disagree."""
    with FakeCluster() as cluster:
        table = features(spark, cluster.broker(1).address)
        table.explain(extended=True)
        assert not cluster.requests
        spread = table.repartition(4)
        first = spread.collect()
        assert [each.api for each in cluster.requests].count("DescribeCluster") == 1, (
            "one look begins with one of these"
        )
        asked = len(cluster.requests)
        assert spread.collect() == first
        assert len(cluster.requests) == asked, (
            "tasks ask no broker, and a frame keeps the answers that it was planned with"
        )


# ---------------------------------------------------------------------- what goes wrong


def test_a_wrong_option_is_one_clear_line_when_the_table_is_loaded(spark: SparkSession) -> None:
    """The error is raised before any query runs."""
    with pytest.raises(Exception, match="ConfigError: feture: is not an option of kafka_features, which has") as raised:
        spark.read.format("kafka_features").options(**{BOOTSTRAP: "b:9092", "feture": "x"}).load()
    assert "PYTHON_DATA_SOURCE_ERROR" in str(raised.value)


def test_a_cluster_that_does_not_answer_is_an_error_that_names_each_broker(spark: SparkSession) -> None:
    """The query fails once, while it is planned: no task is retried."""
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
        features(spark, "127.0.0.1:1,127.0.0.1:2", timeout="3").collect()
    says = "DiscoveryError: no broker answered: 127.0.0.1:1, 127.0.0.1:2: failed while connecting"
    assert says in str(raised.value)


@pytest.mark.proof("spark")
def test_secrets_are_in_no_plan_no_row_and_no_error(spark: SparkSession) -> None:
    """The password is right, then wrong. The user has no rights but to log in."""
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    users = {"admin": "admin-hush", "alice": "alice-hush"}
    with LocalKafka(
        "4.2.0", security="SASL_PLAINTEXT", sasl_mechanism="PLAIN", users=users, properties=authorizer
    ) as cluster:
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
        options = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
        right = {**options, "kafka.sasl.jaas.config": jaas.format("alice-hush")}
        table = features(spark, cluster.bootstrap, **right)
        said = [str(table.collect()), table._jdf.queryExecution().toString()]
        assert "transaction.version" in said[0]
        assert levels(table.collect()) == [(2, 2)]
        wrong = {**options, "kafka.sasl.jaas.config": jaas.format("wrong-hush"), "timeout": "10"}
        with pytest.raises(Exception, match="authentication with PLAIN failed") as raised:
            features(spark, cluster.bootstrap, **wrong).collect()
        said.append(str(raised.value))
    assert not [text for text in said if "hush" in text]


@pytest.mark.proof("spark")
def test_a_stopped_broker_is_a_row_with_its_error(spark: SparkSession, kafka: LocalKafka) -> None:
    """The cluster lists the broker as fenced, and the other brokers have their rows."""
    kafka.kill(3)
    try:
        found = features(spark, kafka.bootstrap, feature="Fetch").collect()
        assert {(row.scope, row.broker) for row in found} == {("cluster", None), ("broker", 1), ("broker", 2)}
        errors = features(spark, kafka.bootstrap, kind="error").collect()
        assert [(row.broker, row.error) for row in errors] == [(3, "ConnectFailed")]
        assert errors[0].port is not None
        assert errors[0].text == "failed while connecting: Connection refused"
    finally:
        kafka.start(3)
