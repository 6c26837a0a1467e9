"""The PySpark side: the exactly-once sink beside Spark's own, pins, guarded functions, and the table of features."""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from fakes import running
from live import KAFKA
from local_spark import local_spark
from measuring import Row, Sample, Section, announce, as_fast_as, at_most, beside, each, take_turns
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate import presets
from featuregate.jars.spark import spark_connector
from featuregate.testing import LocalKafka
from featuregate_spark import FeatureSession, KafkaFeatures
from featuregate_spark.events import Pinned

ROWS = 200_000
VALUE = 100
"""Bytes of a row."""
PARTITIONS = 4
SHARDS = {1: 1, 2: 4}
"""By the number of cores."""
SINK_BARS = {1: (0.75, 3.0), 2: (0.65, 4.0)}
"""By the number of cores: the least part of the peer's rate, and how many times longer a batch of one row may take.

The rate is that of the clock on the wall, and that of processor time.
"""
SMALL_BEFORE = 5
"""Batches of one row that each sink writes before those that are timed, as it does with large ones: the driver writes
them, by other code, and with producers that it makes for the first of them."""
OURS = "featuregate"
PEER = "Spark's own sink"
UDF_ROWS = 1_000_000
PINS = 12
SECONDS = 60.0
BROKERS = (3, 100)


@contextmanager
def kafka_spark(cores: int) -> Iterator[SparkSession]:
    """Begin a Spark with its Kafka connector, and end it."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.extraClassPath": f"{spark_connector(pyspark.__version__)}/*",
        "spark.ui.showConsoleProgress": "false",
    }
    with local_spark(cores, settings) as spark:
        spark.sparkContext.setLogLevel("OFF")
        yield spark


def run(rounds: int) -> Section:
    rows: list[Row] = []
    announce(f"  starting one Kafka {KAFKA} node")
    with LocalKafka(KAFKA) as kafka:
        for cores in SHARDS:
            announce(f"  Spark with {cores} core{'s' if cores > 1 else ''}")
            with kafka_spark(cores) as spark, FeatureSession(spark, kafka.bootstrap) as features:
                rows += sinks(spark, features, kafka.bootstrap, rounds, cores)
                if cores == max(SHARDS):
                    rows += [pins(spark, kafka.bootstrap), *guards(spark, features, 4 * rounds), *tables(spark, rounds)]
    return Section(name="spark", title="PySpark", rows=tuple(rows), notes=NOTES)


# ---------------------------------------------------------------- the sink


def sinks(spark: SparkSession, features: FeatureSession, bootstrap: str, rounds: int, cores: int) -> list[Row]:
    topics = {name: f"{name}-{cores}-{uuid.uuid4().hex[:8]}" for name in ("featuregate", "spark")}
    create(bootstrap, list(topics.values()))
    topic, shards = topics["featuregate"], SHARDS[cores]
    sink = features.kafka_sink(topic, topic, shards=shards, producer={"compression.type": "none"})
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
    words = f"{cores} core{'s' if cores > 1 else ''}, {shards} shard{'s' if shards > 1 else ''}"
    least, most = SINK_BARS[cores]
    writes = {OURS: exactly_once, PEER: at_least_once}
    spent: dict[str, list[float]] = {name: [] for name in writes}

    def counted(name: str) -> Callable[[], float]:
        def once() -> float:
            before = worked()
            took = writes[name](many)
            spent[name].append(worked() - before)
            return took

        return once

    took = take_turns(f"sink, {words}", rounds, {name: counted(name) for name in writes}, "s")
    rates = {name: rows_for_each("s", name, taken.values) for name, taken in took.items()}
    thrifts = {name: rows_for_each("s of processor time", name, values) for name, values in spent.items()}
    for warm in (exactly_once, at_least_once) * SMALL_BEFORE:
        warm(few)
    small = take_turns(
        f"a batch of one row, {words}",
        rounds,
        {OURS: lambda: exactly_once(few), PEER: lambda: at_least_once(few)},
        "ms",
        1e3,
    )
    return [
        as_fast_as(least, f"sink, {words}: rows of {VALUE} bytes", rates[OURS], rates[PEER]),
        as_fast_as(least, f"sink, {words}: rows of {VALUE} bytes, processor time", thrifts[OURS], thrifts[PEER]),
        at_most(most, f"sink, {words}: a batch of one row", small[OURS], small[PEER]),
    ]


def rows_for_each(second: str, name: str, taken: Iterable[float]) -> Sample:
    """Turn what all rows took into rates."""
    return Sample(name, f"rows/{second}", tuple(ROWS / value for value in taken))


def worked() -> float:
    """Tell the processor time that this process, Spark, its workers and the brokers have used, in seconds."""
    this = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (this, *this.children(recursive=True)))


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

    def timed(udf: Callable[..., object]) -> Callable[[], float]:
        def once() -> float:
            began = worked()  # on the wall's clock a hundredth is lost in the noise
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
        "own sink is at least once; ours hands rows to one Python worker, which commits a transaction for each shard. "
        "From three cores on, a shuffle leads them to a worker for each shard. Processor time is that of Spark, its "
        "workers and the broker together. A batch of one row, after a few others, shows what a batch costs by itself."
    ),
    (
        "A pin is timed from the call of the batch's function until the pin is durable and was read again. What a "
        "guarded udf runs is chosen on the driver: it is the very function, which the benchmark asserts, and so costs "
        "what the bare one does. What its row shows is how far two runs of one thing lie apart here."
    ),
)
