"""The PySpark side: the exactly-once sink beside Spark's own, pins, guarded functions, and the table of features."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from fakes import running
from live import KAFKA
from measuring import Row, Sample, Section, announce, beside, each, take_turns
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from featuregate import presets
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.jars import spark_connector
from featuregate_spark import FeatureSession, KafkaFeatures
from featuregate_spark.events import Pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

__all__ = ["run"]

CONNECTOR = "4.0.0"
ROWS = 200_000
VALUE = 100
"""Bytes of a row."""
PARTITIONS = 4
CORES = (1, 2)
UDF_ROWS = 1_000_000
PINS = 12
SECONDS = 60.0
BROKERS = (3, 100)


@contextmanager
def local_spark(cores: int) -> Iterator[SparkSession]:
    """Begin a Spark with so many cores, and end it with its JVM."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.extraClassPath": f"{spark_connector(CONNECTOR)}/*",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("featuregate benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
        gateway = SparkContext._gateway  # noqa: SLF001 - PySpark would keep the JVM, with its settings
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkSession.builder._options.clear()  # noqa: SLF001
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS)


def run(rounds: int) -> Section:
    rows: list[Row] = []
    announce(f"  starting one Kafka {KAFKA} node")
    with LocalKafka(KAFKA) as kafka:
        for cores in CORES:
            announce(f"  Spark with {cores} core{'s' if cores > 1 else ''}")
            with local_spark(cores) as spark, FeatureSession(spark, kafka.bootstrap) as features:
                rows += sinks(spark, features, kafka.bootstrap, rounds, cores)
                if cores == max(CORES):
                    rows += [pins(spark, kafka.bootstrap), *guards(spark, features, 4 * rounds), *tables(spark, rounds)]
    return Section(name="spark", title="PySpark", rows=tuple(rows), notes=NOTES)


# ---------------------------------------------------------------- the sink


def sinks(spark: SparkSession, features: FeatureSession, bootstrap: str, rounds: int, cores: int) -> list[Row]:
    topics = {name: f"{name}-{cores}-{uuid.uuid4().hex[:8]}" for name in ("featuregate", "spark")}
    create(bootstrap, list(topics.values()))
    sink = features.kafka_sink(topics["featuregate"], topics["featuregate"], producer={"compression.type": "none"})
    many = made(spark, ROWS, cores)
    few = made(spark, 1, 1)
    batch = iter(range(sys.maxsize))

    def exactly_once(df: DataFrame) -> float:
        began = time.perf_counter()
        sink(df, next(batch))
        return time.perf_counter() - began

    def at_least_once(df: DataFrame) -> float:
        began = time.perf_counter()
        writing = df.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        writing.option("topic", topics["spark"]).save()
        return time.perf_counter() - began

    for warm in (exactly_once, at_least_once):
        warm(many)
        warm(many)
    words = f"{cores} core{'s' if cores > 1 else ''}"
    took = take_turns(
        f"sink, {words}",
        rounds,
        {"featuregate": lambda: exactly_once(many), "Spark's own sink": lambda: at_least_once(many)},
        "s",
    )
    rates = {
        name: Sample(name, "rows/s", tuple(ROWS / value for value in taken.values)) for name, taken in took.items()
    }
    small = take_turns(
        f"a batch of one row, {words}",
        rounds,
        {"featuregate": lambda: exactly_once(few), "Spark's own sink": lambda: at_least_once(few)},
        "ms",
        1e3,
    )
    return [
        beside(f"sink, {words}: rows of {VALUE} bytes", rates["featuregate"], rates["Spark's own sink"]),
        beside(f"sink, {words}: a batch of one row", small["featuregate"], small["Spark's own sink"]),
    ]


def made(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Make rows that are there already: what is timed is the writing."""
    found = spark.range(0, rows, numPartitions=partitions).select(
        f.col("id").cast("string").alias("key"), f.rpad(f.col("id").cast("string"), VALUE, "x").alias("value")
    )
    found = found.cache()
    assert found.count() == rows
    return found


def create(bootstrap: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made_one in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made_one.result(SECONDS)


# ---------------------------------------------------------------- pins, guards, tables


def pins(spark: SparkSession, bootstrap: str) -> Row:
    """Take the pins of a query's batches, whose function does nothing."""
    told: list[float] = []

    def count(event: object) -> None:
        if isinstance(event, Pinned):
            told.append(event.seconds * 1e3)

    with tempfile.TemporaryDirectory() as folder, FeatureSession(spark, bootstrap, metrics=count) as features:
        features.gate("zstd", presets.zstd)
        checkpoint = str(Path(folder) / "checkpoint")
        batch = features.foreach_batch(lambda _df, _batch_id, _pin: None, checkpoint=checkpoint)
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
        query = rows.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint).start()
        until = time.monotonic() + SECONDS
        while len(told) <= PINS and time.monotonic() < until:
            query.awaitTermination(1)
        query.stop()
    return each(None, "a pin, written and read again", Sample("featuregate", "ms", tuple(told[1:])))


def guards(spark: SparkSession, features: FeatureSession, rounds: int) -> list[Row]:
    """Run a guarded udf and a bare one over the same rows."""

    # Of this function, so that they travel as values: executors have no such module.
    def plain(value: str) -> str:
        return value[::-1]

    def other(value: str) -> str:
        return value

    features.gate("zstd", presets.zstd)
    now = features.snapshot()
    rows = spark.range(0, UDF_ROWS, numPartitions=2).select(f.col("id").cast("string").alias("value")).cache()
    assert rows.count() == UDF_ROWS
    chosen = now.guard("zstd", fallback=other)(plain)
    assert chosen is plain, "a guarded function would cost more than a bare one"
    bare, guarded = f.udf(plain, "string"), f.udf(chosen, "string")

    def worked() -> float:
        """Tell what Spark and its workers have used: on the wall's clock a hundredth is lost in the noise."""
        below = psutil.Process().children(recursive=True)
        return sum(sum(process.cpu_times()[:2]) for process in below)

    def timed(udf: Callable[..., object]) -> Callable[[], float]:
        def once() -> float:
            began = worked()
            rows.select(udf("value")).write.format("noop").mode("overwrite").save()  # type: ignore[call-overload]
            return worked() - began

        return once

    timed(bare)(), timed(guarded)()
    took = take_turns("udf", rounds, {"guarded": timed(guarded), "bare": timed(bare)}, "us/row", 1e6 / UDF_ROWS)
    return [beside("a guarded udf, processor time", took["guarded"], took["bare"])]


def tables(spark: SparkSession, rounds: int) -> list[Row]:
    """Ask the table of features of clusters of fake brokers."""
    spark.dataSource.register(KafkaFeatures)
    found = []
    for brokers in BROKERS:
        with running(brokers) as bootstrap:

            def ask(bootstrap: str = bootstrap) -> float:
                began = time.perf_counter()
                table = spark.read.format("kafka_features").option("kafka.bootstrap.servers", bootstrap).load()
                assert table.count() > brokers  # noqa: B023 - called within its round
                return time.perf_counter() - began

            ask()
            took = take_turns(f"kafka_features, {brokers} brokers", rounds, {"featuregate": ask}, "s")
            found.append(each(None, f"`kafka_features` of {brokers} brokers, one query", took["featuregate"]))
    return found


NOTES = (
    (
        f"The sinks write {ROWS:,} rows of {VALUE} bytes with a key, which are in memory already, to a topic of "
        f"{PARTITIONS} partitions on one node, uncompressed; the broker shares the machine's cores with Spark. Spark's "
        "own sink is at least once; ours leads rows to shards by a shuffle, hands them to Python, and commits a "
        "transaction for each shard. A batch of one row shows what a batch costs by itself."
    ),
    (
        "A pin is timed from the call of the batch's function until the pin is durable and was read again. What a "
        "guarded udf runs is chosen on the driver: it is the very function, which the benchmark asserts, and so costs "
        "what the bare one does. What its row shows is how far two runs of one thing lie apart here."
    ),
)
