"""Reads topics in batches: lines of request logs, reports of apps, and records of coordinators.

Each partition is read from the offset after the last record that the table has, up to its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import FROM_LOGS, FROM_RECORDS, FROM_REPORTS, ROWS, partition_row
from featuregate_fleet.evidence.paths import OF_TOPICS, LogTimes, partition_uri
from featuregate_fleet.evidence.topic_records import RECORDS, TOPICS, decode_batches, parse_reports
from featuregate_fleet.files.parsing import parse_records
from featuregate_fleet.runs.internal_topics import TopicEnds, has_records, topic_ends
from featuregate_fleet.runs.known_sources import Part, TopicRead
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_LINES: Final = 1_000_000
_REPORTS: Final = 500_000
_RECORDS: Final = 100_000_000
"""Offsets, of which compaction has left few records: in a year a busy cluster takes some billions."""
_DEPRECATED_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Spark's newer way to fetch offsets leaves out internal topics: it refuses a read between two offsets, and a read of
all offsets gives nothing."""


Parse = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class Topics:
    """The topics of a cluster: records that were not read before, as parts of a batch.

    ``java`` has the properties of a Java client, and ``read`` what the table has of each partition, by its URI. With
    ``names``, principals and addresses are hashed, and texts of reports in quarantine are left out. Each method raises
    ClusterUnread, TablesBroken.
    """

    def __init__(self, spark: SparkSession, java: Mapping[str, str], read: Mapping[str, TopicRead]) -> None:
        self._spark = spark
        self._java = java
        self._read = read

    def log_lines(self, topic: TopicEnds, header: str, times: LogTimes, names: Pseudonyms | None = None) -> Part:
        """Return the lines of a topic to which a shipper writes request logs.

        ``header`` has the node id of the broker that wrote a line; a record without it has that as its key.
        """
        parse = partial(parse_records, topic_id=topic.topic_id, times=times, names=names)
        return self._part([topic], FROM_LOGS, parse, _LINES, header)

    def usage_reports(self, topic: TopicEnds, cluster_id: str | None, names: Pseudonyms | None = None) -> Part:
        """Return the usage reports of a topic. Those of apps that use another cluster are put into quarantine."""
        parse = partial(parse_reports, topic_id=topic.topic_id, cluster_id=cluster_id, names=names)
        return self._part([topic], FROM_REPORTS, parse, _REPORTS)

    def coordinators(self, ends: Mapping[str, TopicEnds], asked_at: datetime, names: Pseudonyms | None = None) -> Part:
        """Return the records of coordinators. ``asked_at`` is when the ends of their topics were asked for."""
        self._spark.conf.set(_DEPRECATED_FETCHING, "true")
        topics = [ends[topic] for topic in TOPICS]
        part = self._part(topics, FROM_RECORDS, partial(decode_batches, names=names), _RECORDS)
        first = [each for each in topics if not reads_of(each.topic, self._read)]
        with one_line_failures("the records of coordinators cannot be read"):
            _check_not_empty(self._spark, self._java, first)
        # Nobody can delete these topics.
        return replace(part, topics=(), run={} if part.more else {"records_read": asked_at})

    def _part(self, topics: Sequence[TopicEnds], kind: str, parse: Parse, most: int, header: str = "") -> Part:
        """Return the records of topics that are read together, about ``most`` offsets of them."""
        found = [each.known() for each in topics]
        # A line that was deleted before it was read is lost; other records are deleted once nobody needs them.
        keeps_all = kind == FROM_LOGS
        for each in found:
            check_same(each, self._read, keeps_all=keeps_all)
        reads, more = new_reads(found, self._read, most)
        if not reads:
            return Part()
        records = records_of(self._spark, self._java, reads, failOnDataLoss=keeps_all, includeHeaders=bool(header))
        return Part(rows=parsed(records, parse, header), sources=source_rows(kind, reads), topics=found, more=more)


def parsed(records: DataFrame, parse: Parse, header: str = "") -> DataFrame:
    """Return `featuregate_fleet.evidence.columns.ROWS` of records, with the header that is their key."""
    if header:
        last = f.try_element_at(f.filter("headers", lambda each: each["key"] == f.lit(header)), f.lit(-1))
        records = records.withColumn("key", f.coalesce(last["value"], "key"))
    return records.select(*RECORDS.names).mapInArrow(ReusedWorkerTask(parse), from_arrow_schema(ROWS))


def reads_of(topic: str, read: Mapping[str, TopicRead]) -> dict[int, TopicRead]:
    """Return how far the table has the partitions of a topic; nothing where it has no record of it."""
    ways = ((uri.rpartition("/"), known) for uri, known in read.items())
    return {int(partition): known for (named, _, partition), known in ways if named == OF_TOPICS + topic}


def check_same(found: TopicEnds, read: Mapping[str, TopicRead], *, keeps_all: bool) -> None:
    """Raise `TablesBroken` where offsets are those of another topic, or where lost records were not read."""
    if keeps_all and not found.ends:
        raise TablesBroken(f"the topic {found.topic} does not exist, or this client may not describe it")
    for partition, known in reads_of(found.topic, read).items():
        begin, end = found.ends.get(partition, (0, 0))
        if known.position > end or (keeps_all and 0 < known.position < begin):
            raise TablesBroken(
                f"{found.topic}-{partition} was read up to offset {known.position}, and has those from {begin} to "
                f"{end} now: it is another topic, or records were deleted before they were read; give its evidence "
                "another name of the cluster"
            )
        _check_id(found, known.topic_id)


def _check_id(found: TopicEnds, before: str) -> None:
    if before not in {"", found.topic_id}:
        raise TablesBroken(
            f"the topic {found.topic} was deleted and created again: its id was {before}, and is "
            f"{found.topic_id or 'none'} now; give the evidence in it another name of the cluster"
        )


def check_still_there(spark: SparkSession, java: Mapping[str, str], read: Sequence[TopicEnds]) -> None:
    """Raise `TablesBroken` where a topic was deleted or created again while a batch read it.

    Spark names an offset or a partition then, or reads records of another topic and says nothing.
    """
    now = topic_ends(spark, java, [each.topic for each in read])
    for before in read:
        if before.ends and not now[before.topic].known().ends:
            raise TablesBroken(
                f"the topic {before.topic} was deleted while it was read; the table keeps what was read before"
            )
        _check_id(now[before.topic], before.topic_id)


class PartitionRead(NamedTuple):
    """The records of a partition that a batch reads."""

    topic: str
    topic_id: str
    partition: int
    begin: int
    end: int
    """The offset after the last one of them."""


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
    spark: SparkSession, java: Mapping[str, str], reads: Sequence[PartitionRead], **options: bool
) -> DataFrame:
    """Return the committed records of some partitions, with the columns of Spark's Kafka source.

    Partitions are assigned: to subscribe would add records of a group to a topic that is read.
    """
    source = spark.read.format("kafka").options(**{f"kafka.{name}": text for name, text in java.items()})
    named = {
        "kafka.allow.auto.create.topics": "false",
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(map(int, begins)) for topic, begins in _offsets(reads, "begin").items()}),
        "startingOffsets": json.dumps(_offsets(reads, "begin")),
        "endingOffsets": json.dumps(_offsets(reads, "end")),
    }
    return source.options(**named, **options).load()


def _offsets(reads: Sequence[PartitionRead], name: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for each in reads:
        found.setdefault(each.topic, {})[str(each.partition)] = getattr(each, name)
    return found


def source_rows(kind: str, reads: Sequence[PartitionRead]) -> list[dict[str, object]]:
    """Return up to where partitions are read, as rows of `featuregate_fleet.evidence.columns.SOURCE` of an input."""
    ends = ((partition_uri(each.topic, each.partition), each) for each in reads)
    return [partition_row(uri, each.topic_id, kind, size=each.end, position=each.end) for uri, each in ends]


def _check_not_empty(spark: SparkSession, java: Mapping[str, str], found: Sequence[TopicEnds]) -> None:
    """Raise `TablesBroken` before a batch notes as read what Spark leaves out.

    A topic has offsets and no record that anybody sees where all of its transactions were aborted.
    """
    for topic in found:
        whole, _ = new_reads([topic], {}, topic.offsets)
        if not whole or not records_of(spark, java, whole, failOnDataLoss=False).isEmpty():
            continue
        if has_records(spark, java, topic):
            raise TablesBroken(f"{topic.topic} has {topic.offsets} offsets, and Spark returned no record of it")
