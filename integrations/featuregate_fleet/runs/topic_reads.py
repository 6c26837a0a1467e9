"""Reads topics in batches: each partition from the offset after the last record that was read, up to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.paths import OF_TOPICS, partition_uri
from featuregate_fleet.runs.internal_topics import TopicEnds, topic_ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from featuregate_fleet.runs.parts import TopicRead


class PartitionRead(NamedTuple):
    """The records of a partition that a batch reads."""

    topic: str
    topic_id: str
    partition: int
    begin: int
    end: int
    """The offset after the last one of them."""


def reads_of(topic: str, read: Mapping[str, TopicRead]) -> dict[int, TopicRead]:
    """Return how far the table has the partitions of a topic; nothing where it has no record of it."""
    ways = ((uri.rpartition("/"), known) for uri, known in read.items())
    return {int(partition): known for (named, _, partition), known in ways if named == OF_TOPICS + topic}


def new_reads(found: Sequence[TopicEnds], read: Mapping[str, TopicRead], most: int) -> tuple[list[PartitionRead], bool]:
    """Return what to read next of each partition that has something new, and whether there is more.

    ``most`` bounds the offsets of all partitions together, of which each gets its share, and at least one.
    """
    new = []
    for topic in found:
        known = reads_of(topic.topic, read)
        for partition, (first, end) in topic.ends.items():
            begin = max(first, known[partition].position) if partition in known else first
            if begin < end:
                new.append(PartitionRead(topic.topic, topic.topic_id, partition, begin, end))
    total = sum(each.end - each.begin for each in new)
    if total <= most:
        return new, False
    return [each._replace(end=each.begin + max(1, (each.end - each.begin) * most // total)) for each in new], True


def records_of(
    spark: SparkSession, java: Mapping[str, str], reads: Sequence[PartitionRead], **options: str
) -> DataFrame:
    """Return the committed records of some partitions, with the columns of Spark's Kafka source.

    Partitions are assigned: to subscribe would add records of a group to a topic that is read.
    """
    partitions: dict[str, list[int]] = {}
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in reads:
        partitions.setdefault(each.topic, []).append(each.partition)
        begins.setdefault(each.topic, {})[str(each.partition)] = each.begin
        ends.setdefault(each.topic, {})[str(each.partition)] = each.end
    source = spark.read.format("kafka").options(**{f"kafka.{name}": text for name, text in java.items()})
    named = {
        "kafka.allow.auto.create.topics": "false",
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends),
    }
    return source.options(**named, **options).load()


def source_rows(kind: str, reads: Sequence[PartitionRead]) -> list[dict[str, object]]:
    """Return up to where partitions are read, as rows of `featuregate_fleet.evidence.columns.SOURCE` of an input."""
    return [
        {
            "source": each.topic_id,
            "input": kind,
            "path": partition_uri(each.topic, each.partition),
            "uri": partition_uri(each.topic, each.partition),
            "size": each.end,
            "position": each.end,
            "read": 0,
            "rows": 0,
            "quarantined": 0,
        }
        for each in reads
    ]


def check_same_topic(found: TopicEnds, read: Mapping[str, TopicRead]) -> None:
    """Raise `TablesBroken` where a topic was created again: its offsets are those of other records."""
    for known in reads_of(found.topic, read).values():
        if known.topic_id:
            _check_id(found, known.topic_id)


def check_still_there(spark: SparkSession, java: Mapping[str, str], found: TopicEnds) -> None:
    """Raise `TablesBroken` where a topic was deleted or created again while a batch read it.

    Spark names an offset or a partition then, or reads records of another topic and says nothing.
    """
    (now,) = topic_ends(spark, java, [found.topic])
    if not now.ends:
        raise TablesBroken(
            f"the topic {found.topic} was deleted while it was read; the table keeps what was read before"
        )
    if found.topic_id:
        _check_id(now, found.topic_id)


def _check_id(found: TopicEnds, before: str) -> None:
    if before != found.topic_id:
        raise TablesBroken(
            f"the topic {found.topic} was deleted and created again: its id was {before}, and is "
            f"{found.topic_id or 'none'} now; give the evidence in it another name of the cluster"
        )
