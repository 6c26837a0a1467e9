"""The topic to which a shipper writes request logs, as a part of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import FROM_LOGS, ROWS
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes
from featuregate_fleet.files.log_records import RECORDS, parse_records
from featuregate_fleet.runs.internal_topics import TopicEnds, java_properties, topic_ends
from featuregate_fleet.runs.parts import Part, TopicRead
from featuregate_fleet.runs.topic_reads import (
    check_same_topic,
    check_still_there,
    new_reads,
    reads_of,
    records_of,
    source_rows,
)
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_IN_A_BATCH: Final = 1_000_000


def log_topic_part(
    spark: SparkSession,
    config: Mapping[str, str],
    topic: str,
    read: Mapping[str, TopicRead],
    *,
    header: str = "broker",
    times: LogTimes = IN_UTC,
    names: Pseudonyms | None = None,
    most: int = _IN_A_BATCH,
) -> Part:
    """Return the records of a topic that were not read before, about ``most`` of them.

    Parameters
    ----------
    config
        Properties of a client, with Java's names or with Spark's.
    read
        What the table has of each partition, by its URI.
    header
        Has the node id of the broker that wrote a line; where a record has no such header, its key is that id.
    names
        Hashes principals and addresses.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow it.
    TablesBroken
        The topic does not exist, is another one than before, or lost records that were not read.
    """
    java = java_properties(config)
    (found,) = topic_ends(spark, java, [topic])
    _check(found, read)
    check_same_topic(found, read)
    reads, more = new_reads([found], read, most)
    if not reads:
        return Part()
    records = records_of(spark, java, reads, includeHeaders="true", failOnDataLoss="true")
    parse = ReusedWorkerTask(partial(parse_records, topic_id=found.topic_id, times=times, names=names))
    return Part(
        rows=_lines(records, header).mapInArrow(parse, from_arrow_schema(ROWS)),
        sources=source_rows(FROM_LOGS, reads),
        more=more,
        check=partial(check_still_there, spark, java, found),
    )


def _lines(records: DataFrame, header: str) -> DataFrame:
    """Return records as `RECORDS`."""
    last = f.try_element_at(f.filter("headers", lambda each: each["key"] == f.lit(header)), f.lit(-1))
    broker = f.coalesce(last["value"], "key").alias("broker")
    found = records.select("topic", "partition", "offset", broker, "timestamp", "value")
    assert found.columns == RECORDS.names
    return found


def _check(found: TopicEnds, read: Mapping[str, TopicRead]) -> None:
    """Check that all records are there that were not read."""
    if not found.ends:
        raise TablesBroken(f"the topic {found.topic} does not exist, or this client may not describe it")
    known = reads_of(found.topic, read)
    for partition, (begin, end) in found.ends.items():
        done = known[partition].position if partition in known else 0
        if done > end or 0 < done < begin:
            raise TablesBroken(
                f"{found.topic}-{partition} was read up to offset {done}, and has those from {begin} to {end} now: it "
                "is another topic, or records were deleted before they were read; give its evidence another name of "
                "the cluster"
            )
