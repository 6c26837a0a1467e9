"""The stream from the topic of usage reports to tables: each record once, each micro-batch once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import FEATURE_USAGE, USAGE_KEYS
from featuregate_fleet.evidence.usage_reports import PARSED_REPORTS, RECORDS, parse_records
from featuregate_fleet.stream.checkpoints import topic_records, unread, write_batches
from featuregate_fleet.stream.internal_topics import TopicEnds, java_properties, same_topic, topic_ends
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import BatchId, Tables

_TOPICS: Final = "usage_topics"
_IN_A_BATCH: Final = 500_000


def drain_usage(
    spark: SparkSession, config: Mapping[str, str], topic: str, tables: Tables, *, cluster_id: str | None
) -> bool:
    """Read all reports that were not read before into the tables; return whether there is such a topic.

    Parameters
    ----------
    config
        Properties of a client, with Java's names or with Spark's.
    cluster_id
        The id of the cluster. Reports of apps that use another one are put into quarantine.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow to read the topic.
    TablesBroken
        The stream failed; the tables have whole micro-batches, and the next run continues.
    """
    java = java_properties(config)
    (found,) = topic_ends(spark, java, [topic])
    if not found.ends:
        return False
    _check_not_replaced(found, tables)
    with same_topic(spark, java, found, tables.checkpoint(f"usage {topic}")):
        _drain(spark, java, topic, tables, cluster_id)
    return True


def was_read(tables: Tables, topic: str) -> bool:
    """Return whether the tables have records of a topic."""
    return not tables.read(_TOPICS).where(f.col("topic") == topic).isEmpty()


def _check_not_replaced(found: TopicEnds, tables: Tables) -> None:
    read = tables.read(_TOPICS).where(f.col("topic") == found.topic)
    for row in read.groupBy("partition").agg(f.max("end").alias("end")).collect():
        if row["end"] > found.ends.get(row["partition"], (0, 0))[1]:
            raise TablesBroken(
                f"{found.topic}-{row['partition']} was read up to offset {row['end']}, and has no such offset: this is"
                " another topic of the same name; give it another --cluster"
            )


def _drain(spark: SparkSession, java: Mapping[str, str], topic: str, tables: Tables, cluster_id: str | None) -> None:
    def write(records: DataFrame, batch: BatchId) -> None:
        new = unread(records, tables.read(_TOPICS), f.col("end"), batch)
        _write(new.select(RECORDS.names).persist(), tables, batch, cluster_id)

    # The retention of the topic deletes reports, and Spark would call them lost.
    records = topic_records(spark, java, _IN_A_BATCH, subscribe=topic, failOnDataLoss="false")
    write_batches(records, tables.checkpoint(f"usage {topic}"), write)


def _write(records: DataFrame, tables: Tables, batch: BatchId, cluster_id: str | None) -> None:
    parse = ReusedWorkerTask(partial(parse_records, cluster_id=cluster_id))
    parsed = records.mapInArrow(parse, from_arrow_schema(PARSED_REPORTS)).persist()
    try:
        tables.append("feature_usage", usage_rows(parsed), batch)
        quarantined = parsed.where("quarantine is not null").select("quarantine.*")
        tables.append("quarantine", quarantined, batch)
        tables.append(_TOPICS, _counts(records, quarantined), batch)  # last, because it says that the batch is done
    finally:
        parsed.unpersist()
        records.unpersist()


def usage_rows(parsed: DataFrame) -> DataFrame:
    """Return rows of ``feature_usage``, added up."""
    usage = parsed.where("feature_usage is not null").select("feature_usage.*")
    summed = usage.groupBy(*USAGE_KEYS).agg(
        f.max("epoch").alias("epoch"),
        f.sum("count").alias("count"),
        f.min("first_seen").alias("first_seen"),
        f.max("last_seen").alias("last_seen"),
    )
    return summed.select(FEATURE_USAGE.names)


def _counts(records: DataFrame, quarantined: DataFrame) -> DataFrame:
    """Return rows of ``usage_topics``."""
    read = records.groupBy("topic", "partition").agg(f.count("*").alias("read"), (f.max("offset") + 1).alias("end"))
    lost = quarantined.groupBy("path").agg(f.count("*").alias("lost"))
    place = f.concat_ws("/", "topic", "partition")
    counted = read.join(f.broadcast(lost), place == f.col("path"), "left")
    quarantined_count = f.coalesce("lost", f.lit(0))
    return counted.select(
        "topic",
        "partition",
        "end",
        "read",
        (f.col("read") - quarantined_count).alias("rows"),
        quarantined_count.alias("quarantined"),
    )
