"""The stream from the topics of coordinators to tables: each record once, each micro-batch once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import COORDINATOR_RECORDS, COORDINATOR_TOPICS
from featuregate_fleet.evidence.coordinator_records import RAW, TOPICS, decode_batches, kinds
from featuregate_fleet.stream.checkpoints import topic_records, unread, write_batches
from featuregate_fleet.stream.internal_topics import TopicEnds, has_records, java_properties, topic_ends
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_spark.reused_worker import ReusedWorkerTask

_RECORDS: Final = "coordinator_records"
_IN_A_BATCH: Final = 2_000_000
_DEPRECATED_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Spark's newer way to fetch offsets leaves out internal topics, and says nothing."""


def drain_coordinators(spark: SparkSession, config: Mapping[str, str], tables: Tables) -> None:
    """Read all records of coordinators that were not read before into the tables.

    ``config`` has the properties of a client, with Java's names or Spark's.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow it.
    TablesBroken
        The stream failed, or returned nothing of a topic that has records. The tables have whole micro-batches, and the
        next run continues.
    """
    java = java_properties(config)
    taken_at = datetime.now(UTC)
    found = topic_ends(spark, java, list(TOPICS))
    _check_not_replaced(found, _last_offsets(tables.read(_RECORDS)))
    with one_line_failures("the stream of coordinators' records failed"):
        if any(topic.ends for topic in found):
            _drain(spark, java, found, tables)
        read = _last_offsets(tables.read(_RECORDS))
        _check_not_empty(found, {topic for topic, _ in read}, partial(has_records, spark, java))
        _note(spark, taken_at, found, tables)


def _drain(spark: SparkSession, java: Mapping[str, str], found: Sequence[TopicEnds], tables: Tables) -> None:
    def write(records: DataFrame, batch: BatchId) -> None:
        new = unread(records, tables.read(_RECORDS), f.col("offset") + 1, batch)
        rows = decoded(new).repartition(1)  # a shuffle, so that the tasks before it are as many as partitions
        tables.append(_RECORDS, rows, batch)

    spark.conf.set(_DEPRECATED_FETCHING, "true")
    partitions = {topic.topic: list(topic.ends) for topic in found if topic.ends}
    options = {
        "kafka.isolation.level": "read_committed",  # offsets of open and aborted transactions do not count
        "failOnDataLoss": "false",  # coordinators delete what they do not need, and Spark would call it lost
    }
    records = topic_records(spark, java, _IN_A_BATCH, assign=json.dumps(partitions), **options)
    write_batches(records, tables.checkpoint(_RECORDS), write)


def decoded(records: DataFrame) -> DataFrame:
    """Return rows of ``coordinator_records``: SQL decodes kinds and versions, Arrow batches keys and values."""
    numbered = records.withColumns({"record_type": _number("key"), "version": _number("value")})
    raw = numbered.select(
        "topic",
        "partition",
        "offset",
        f.col("timestamp").alias("at"),
        "key",
        "value",
        "record_type",
        _kind().alias("kind"),
        "version",
    )
    assert raw.columns == RAW.names
    return raw.mapInArrow(ReusedWorkerTask(decode_batches), from_arrow_schema(COORDINATOR_RECORDS))


def _kind() -> Column:
    """Return the name of the type of a record, from a constant array for each topic; null for an unknown type."""
    found = f.lit(None).cast("string")
    for topic, names in kinds().items():
        array = f.array(*[f.lit(names.get(number)) for number in range(max(names) + 1)])
        found = f.when(f.col("topic") == topic, f.get(array, f.col("record_type"))).otherwise(found)
    return found


def _number(column: str) -> Column:
    """Return the first two bytes as a signed number. There is no cast from binary to int."""
    unsigned = f.conv(f.hex(f.substring(column, 1, 2)), 16, 10).cast("int")
    signed = f.when(unsigned >= 2**15, unsigned - 2**16).otherwise(unsigned)
    return f.when(f.length(column) >= 2, signed)  # noqa: PLR2004 - bytes of an int16


def _last_offsets(rows: DataFrame) -> dict[tuple[str, int], int]:
    last = rows.groupBy("topic", "partition").agg(f.max("offset").alias("last")).collect()
    return {(row["topic"], row["partition"]): row["last"] for row in last}


def _check_not_replaced(found: Sequence[TopicEnds], read: Mapping[tuple[str, int], int]) -> None:
    for topic in found:
        for partition, (_, end) in topic.ends.items():
            if (last := read.get((topic.topic, partition), -1)) >= end:
                raise TablesBroken(
                    f"{topic.topic}-{partition} ends at offset {end}, and the tables have offset {last} of it: this is "
                    "another cluster or another topic; give it another --cluster"
                )


def _check_not_empty(found: Sequence[TopicEnds], read: set[str], has_records: Callable[[TopicEnds], bool]) -> None:
    for topic in found:
        if topic.offsets and topic.topic not in read and has_records(topic):
            raise TablesBroken(f"{topic.topic} has {topic.offsets} offsets, and Spark returned no record of it")


def _note(spark: SparkSession, taken_at: datetime, found: Sequence[TopicEnds], tables: Tables) -> None:
    rows = [(taken_at, topic.topic, len(topic.ends), topic.offsets) for topic in found]
    read = spark.createDataFrame(rows, from_arrow_schema(COORDINATOR_TOPICS))
    tables.append("coordinator_topics", read, BatchId(f"topics {taken_at.isoformat()}", 0))
