"""The stream from a topic to which a shipper writes request logs: each record once, each micro-batch once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import PARSED
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes
from featuregate_fleet.files.log_records import RECORDS, parse_records
from featuregate_fleet.stream.checkpoints import topic_records, write_batches
from featuregate_fleet.stream.internal_topics import TopicEnds, java_properties, same_topic, topic_ends
from featuregate_fleet.stream.parsed import write_parsed
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from featuregate_fleet.evidence.unread import MissingRequests
    from featuregate_fleet.tables.folder import BatchId, Tables

_IN_A_BATCH: Final = 1_000_000


def drain_log_topic(
    spark: SparkSession,
    config: Mapping[str, str],
    topic: str,
    tables: Tables,
    *,
    header: str = "broker",
    times: Mapping[str, LogTimes] = IN_UTC,
    stop: Callable[[], bool] = lambda: False,
    kept: KeptLines = KeptLines.NONE,
    report: Callable[[MissingRequests], None] = lambda _: None,
) -> None:
    """Read all records of a topic that were not read before into the tables.

    ``config`` has the properties of a client, with Java's names or Spark's. The node id of the broker that wrote a line
    is in the ``header`` of its record, or where there is none in its key. ``kept`` says
    what is kept of each line. The stream ends before the next micro-batch once ``stop()``.
    ``report`` is called with each partition of which no line of a micro-batch was understood.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow it.
    TablesBroken
        The stream failed, the topic does not exist, or it lost records that were not read. The tables have whole
        micro-batches.
    """
    java = java_properties(config)
    (found,) = topic_ends(spark, java, [topic])
    stopped = threading.Event()

    def write(records: DataFrame, batch: BatchId) -> None:
        if stop():
            stopped.set()
            raise InterruptedError  # as in request_logs
        if batch.batch_id <= max((part.last for part in read if part.query_id == batch.query_id), default=-1):
            return  # it runs again because its commit was lost
        # After a lost checkpoint the query begins again. The rows of other queries do not change any more.
        done = _read_up_to(part for part in read if part.query_id != batch.query_id)
        new = _behind(records, done) if done else records
        parse = ReusedWorkerTask(partial(parse_records, times=dict(times), kept=kept))
        parsed = new.select(*RECORDS.names).mapInArrow(parse, from_arrow_schema(PARSED))
        for one in write_parsed(parsed, tables, batch, kept):
            report(one)

    read = _parts_read(tables)
    _check(found, _read_up_to(read))
    checkpoint = tables.checkpoint(f"log_topic_{topic}")
    with same_topic(spark, java, found, checkpoint):
        try:
            write_batches(_records(spark, java, topic, header), checkpoint, write)
        except PySparkException:
            if not stopped.is_set():
                raise


def _records(spark: SparkSession, java: Mapping[str, str], topic: str, header: str) -> DataFrame:
    """Return a stream of the records of a topic as `RECORDS`."""
    options = {"kafka.isolation.level": "read_committed", "includeHeaders": "true", "failOnDataLoss": "true"}
    records = topic_records(spark, java, _IN_A_BATCH, subscribe=topic, **options)
    last = f.try_element_at(f.filter("headers", lambda each: each["key"] == f.lit(header)), f.lit(-1))
    uri = f.concat(f.lit("kafka:"), "topic", f.lit("/"), "partition")
    return records.select(
        uri.alias("uri"), "offset", f.coalesce(last["value"], "key").alias("broker"), "timestamp", "value"
    )


class _PartRead(NamedTuple):
    """What one query has read of one partition."""

    query_id: str
    uri: str
    done: int
    """The offset behind the last record."""
    last: int
    """The number of the last micro-batch."""


def _parts_read(tables: Tables) -> list[_PartRead]:
    files = tables.read("evidence_files").where("uri like 'kafka:%'")
    found = files.groupBy("query_id", "uri").agg(f.max("size").alias("done"), f.max("batch_id").alias("last"))
    return [_PartRead(*row) for row in found.collect()]


def _read_up_to(parts: Iterable[_PartRead]) -> dict[str, int]:
    """Return the offset behind the last record of each partition."""
    done: dict[str, int] = {}
    for part in parts:
        done[part.uri] = max(part.done, done.get(part.uri, 0))
    return done


def _behind(records: DataFrame, done: Mapping[str, int]) -> DataFrame:
    """Return the records that were not read."""
    known = records.sparkSession.createDataFrame(list(done.items()), "uri string, done long")
    return records.join(f.broadcast(known), "uri", "left").where("done is null or offset >= done")


def _check(found: TopicEnds, read: Mapping[str, int]) -> None:
    """Check that all records are there that were not read."""
    if not found.ends:
        raise TablesBroken(f"the topic {found.topic} does not exist, or this client may not describe it")
    for partition, (begin, end) in found.ends.items():
        done = read.get(f"kafka:{found.topic}/{partition}", 0)
        if done > end or 0 < done < begin:
            raise TablesBroken(
                f"{found.topic}-{partition} was read up to offset {done}, and has those from {begin} to {end} now: it "
                "is another topic, or records were deleted before they were read; give its evidence another --cluster"
            )
