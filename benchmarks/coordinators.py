"""Records of coordinators, decoded into rows of their table, beside Spark's bare read of the same topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from live import KAFKA
from local_spark import local_spark
from measuring import Row, announce, reaches, take_turns
from pyspark import __version__ as spark_version
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate.jars.spark import spark_connector
from featuregate.records import CONSUMER_OFFSETS, CoordinatorRecord
from featuregate.records.schemas import OffsetCommitKey, OffsetCommitValue
from featuregate.testing import LocalKafka
from featuregate_fleet.evidence.topic_records import decode_batches
from featuregate_fleet.runs.session import SETTINGS
from featuregate_fleet.runs.topics import parsed

COMMITS = 600_000
KEYS = 50_000
CORES = 2
BAR = 100_000
TOPIC = "commits"
"""Brokers refuse records for their internal topics, so that the commits are in a topic of another name."""
PARTITIONS = 4
SECONDS = 60.0
NOTE = (
    f"The records of coordinators are {COMMITS:,} commits of {KEYS:,} keys, as brokers from 4.1 on write them, in a "
    f"topic of a Kafka {KAFKA} node on the same machine. Decoded, they are rows whose counts are added up, without the "
    "transaction of the table; the bare read counts keys and values."
)


def coordinators(rounds: int) -> list[Row]:
    """Measure on a broker and a Spark of their own."""
    announce(f"  starting one Kafka {KAFKA} node for {COMMITS:,} records of coordinators")
    settings = {**SETTINGS, "spark.driver.extraClassPath": f"{spark_connector(spark_version)}/*"}
    with LocalKafka(KAFKA) as kafka, local_spark(CORES, settings) as spark:
        produce(kafka)
        contestants: dict[str, Callable[[], float]] = {
            "featuregate": lambda: rate(rows_of(topic(spark, kafka))),
            "bare read": lambda: rate(topic(spark, kafka).agg(f.count("key"), f.count("value"))),
        }
        for once in contestants.values():
            once()  # the first run of a JVM is its compiler's
        words = f"records of coordinators decoded into rows, {CORES} cores"
        took = take_turns(words, rounds, contestants, "records/s")
    return [reaches(BAR, words, took["featuregate"], took["bare read"])]


def rate(counted: DataFrame) -> float:
    """Count the records; records a second."""
    began = time.perf_counter()
    found = counted.collect()[0]
    took = time.perf_counter() - began
    assert found[0] == COMMITS, found
    return COMMITS / took


def topic(spark: SparkSession, kafka: LocalKafka) -> DataFrame:
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return spark.read.format("kafka").options(**options).load()


def rows_of(records: DataFrame) -> DataFrame:
    """Decode as a run does, and add up what the rows count; none has a reason."""
    rows = parsed(records.withColumn("topic", f.lit(CONSUMER_OFFSETS.topic)), decode_batches)
    return rows.agg(f.sum(f.when(f.col("record.reason").isNull(), f.col("record.count"))))


def produce(kafka: LocalKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS)
    producer = Producer(kafka.client_config({"queue.buffering.max.messages": COMMITS, "linger.ms": 50}))
    for key, value in commits():
        producer.produce(TOPIC, value, key)
    assert producer.flush(SECONDS) == 0


def commits() -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys and values of commits: each group commits its partitions again and again."""
    for number in range(COMMITS):
        group, partition = divmod(number % KEYS, 50)
        key = OffsetCommitKey(group=f"group-{group:04}", topic="orders", partition=partition)
        value = OffsetCommitValue(offset=number, leader_epoch=1, metadata="", commit_timestamp=number)
        yield CONSUMER_OFFSETS.encode(CoordinatorRecord(key, value, 4))
