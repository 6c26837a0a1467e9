"""``kafka_features`` in real Spark: a table of real brokers, and a stream with latched levels and stable replays."""

from __future__ import annotations

import importlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from featuregate.testing import FakeCluster, LocalKafka
from featuregate_spark import KafkaFeatures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "features-as-a-table.md"
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
    """Start three real brokers."""
    with LocalKafka("4.2.0", nodes=3) as cluster:
        yield cluster


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a script of the examples."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "spark_job")
    return importlib.import_module


def features(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.read.format("kafka_features").option(BOOTSTRAP, bootstrap).options(**options).load()


class Query:
    """A stream of features, whose batches a function records."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[Row]] = {}
        self.changed = threading.Condition()
        self.crash_at = -1

    def function(self, df: DataFrame, batch_id: int) -> None:
        rows = df.collect()
        with self.changed:
            self.batches[batch_id] = rows
            self.changed.notify_all()
        if batch_id == self.crash_at:
            raise RuntimeError("crash")

    def start(self, *, once: bool = False, **options: str) -> StreamingQuery:
        source = self.spark.readStream.format("kafka_features").option(BOOTSTRAP, self.bootstrap).options(**options)
        writing = source.load().writeStream.foreachBatch(self.function)
        writing = writing.option("checkpointLocation", str(self.checkpoint))
        return (writing.trigger(availableNow=True) if once else writing).start()

    def wait_for(self, running: StreamingQuery, wanted: list[tuple[int, int]]) -> None:
        """Wait until the newest batch shows these levels."""
        with self.changed:
            there = self.changed.wait_for(
                lambda: self.batches and levels(self.batches[max(self.batches)]) == wanted, BOUND
            )
        assert there, running.exception() or self.batches

    def run(self, **options: str) -> dict[int, list[Row]]:
        """Start or restart, and process what is new; return the batches of this run."""
        self.batches = {}
        query = self.start(once=True, **options)
        try:
            assert query.awaitTermination(BOUND)
        finally:
            query.stop()
        return self.batches


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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "ConfigError: kafka.bootstrap.servers: is missing: the bootstrap brokers, as host:port"),
        ({BOOTSTRAP: "b:9092", "feture": "x"}, "ConfigError: feture: is not an option of kafka_features, which has"),
        ({BOOTSTRAP: "b:9092", "timeout": "soon"}, "ConfigError: timeout: 'soon' is not a number of seconds above 0"),
    ],
    ids=["missing", "unknown", "wrong"],
)
def test_a_wrong_option_is_one_clear_line_when_the_table_is_loaded(
    spark: SparkSession, options: dict[str, str], says: str
) -> None:
    """The error is raised before any query runs, for streams too."""
    for read in (spark.read, spark.readStream):
        with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
            read.format("kafka_features").options(**options).load()
        assert says in str(raised.value)


def test_a_cluster_that_does_not_answer_is_an_error_that_names_each_broker(spark: SparkSession) -> None:
    """The query fails once, while it is planned: no task is retried."""
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
        features(spark, "127.0.0.1:1,127.0.0.1:2", timeout="3").collect()
    says = "DiscoveryError: no broker answered: 127.0.0.1:1, 127.0.0.1:2: failed while connecting"
    assert says in str(raised.value)


@pytest.mark.proof("spark")
def test_secrets_are_in_no_plan_no_row_and_no_error(spark: SparkSession, tmp_path: Path) -> None:
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
        query = Query(spark, cluster.bootstrap, tmp_path)
        assert levels(query.run(**right)[0]) == [(2, 2)]
        said += [file.read_text(errors="replace") for file in query.checkpoint.rglob("*") if file.is_file()]
        running = query.start(**right)
        try:
            said += [str(running.lastProgress), running._jsq.explainInternal(True)]  # noqa: FBT003 - a method of the JVM
        finally:
            running.stop()
        wrong = {**options, "kafka.sasl.jaas.config": jaas.format("wrong-hush"), "timeout": "10"}
        with pytest.raises(Exception, match="authentication with PLAIN failed") as raised:
            features(spark, cluster.bootstrap, **wrong).collect()
        said.append(str(raised.value))
    assert not [text for text in said if "hush" in text]


# ---------------------------------------------------------------------- streams


@pytest.mark.proof("spark")
def test_a_real_downgrade_is_seen_and_levels_stay(
    spark: SparkSession, kafka: LocalKafka, tmp_path: Path, example: Callable[[str], Any]
) -> None:
    """The stream runs, and then restarts; the audit trail of the example starts with the first state."""
    query = Query(spark, kafka.bootstrap, tmp_path)
    running = query.start(interval="0.5")
    try:
        query.wait_for(running, [(2, 2)])
        kafka.downgrade({TV: 1})
        query.wait_for(running, [(2, 1)])
    finally:
        running.stop()
    table, checkpoint = tmp_path / "table", tmp_path / "trail"
    trail = example("features_stream").trail(spark, kafka.bootstrap, str(table), str(checkpoint))
    try:
        trail.processAllAvailable()
    finally:
        trail.stop()
    assert levels_of_trail(spark, table) == [(1, 1)]
    kafka.finalize({TV: 2})
    assert {level for rows in query.run().values() for level, _ in levels(rows)} <= {2}


def levels_of_trail(spark: SparkSession, table: Path) -> list[tuple[int, int]]:
    found = spark.read.parquet(str(table)).where(f"feature = '{TV}'").collect()
    return [(row.level, row.reported_level) for row in found]


def test_a_restart_gives_no_row_and_keeps_the_latch(spark: SparkSession, tmp_path: Path) -> None:
    """The stream continues from Spark's own offset log."""
    with FakeCluster(finalized={TV: 2}) as cluster:
        query = Query(spark, cluster.bootstrap, tmp_path)
        assert [levels(rows) for rows in query.run().values()] == [[(2, 2)]]
        cluster.advance_epoch()
        assert query.run() == {}
        cluster.finalize({TV: 1})
        assert {number: levels(rows) for number, rows in query.run().items()} == {1: [(2, 1)]}
        assert query.run() == {}
        cluster.finalize({"group.version": 1})
        assert {number: levels(rows) for number, rows in query.run().items()} == {2: [(2, 1)]}


def test_a_replay_after_a_crash_gives_exactly_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The cluster has changed meanwhile, and the change is the next batch."""
    with FakeCluster(finalized={TV: 2}) as cluster:
        query = Query(spark, cluster.bootstrap, tmp_path)
        query.run()
        cluster.finalize({TV: 1})
        query.crash_at = 1
        with pytest.raises(Exception, match="crash"):
            query.run()
        before = query.batches[1]
        cluster.finalize({TV: 3})
        cluster.broker(2).stop()
        query.crash_at = -1
        assert query.run(timeout="10") == {1: before}
        assert levels(before) == [(2, 1)]
        after = query.run(timeout="10")
    assert {number: levels(rows) for number, rows in after.items()} == {2: [(3, 3)]}
    assert [row.broker for row in after[2] if row.kind == "error"] == [2]


def test_a_stream_outlives_an_outage(spark: SparkSession, tmp_path: Path) -> None:
    """The rows say that the view is stale while no broker answers, and then what has changed."""
    with FakeCluster(finalized={TV: 2}) as cluster:
        query = Query(spark, cluster.bootstrap, tmp_path)
        running = query.start(interval="0.1", timeout="1")
        try:
            query.wait_for(running, [(2, 2)])
            for broker in cluster.brokers:
                broker.pause()
            query.wait_for(running, [(2, None)])
            assert running.isActive
            cluster.finalize({TV: 3})
            for broker in cluster.brokers:
                broker.resume()
            query.wait_for(running, [(3, 3)])
        finally:
            running.stop()


def test_invariant_9_levels_that_no_broker_reports_become_stale_over_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each run of the query polls once, and Spark's offset log keeps the time from which the levels age."""
    with FakeCluster(finalized={TV: 2}) as cluster:
        query = Query(spark, cluster.bootstrap, tmp_path)
        query.run()
        for broker in cluster.brokers:
            broker.set(epoch=-1)
        shown = [query.run(stale_after="0.5") for _ in range(3)]  # each run takes longer than that
        (newest,) = [rows for batches in shown for rows in batches.values()][-1:]
        assert levels(newest) == [(2, None)]
        assert {row.error for row in newest if row.feature == TV and row.scope == "cluster"} == {"StaleLevels"}
        assert not [row for row in newest if row.kind == "error"]
        cluster.advance_epoch()
        assert [levels(rows) for rows in query.run(stale_after="0.5").values()] == [[(2, 2)]]


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
