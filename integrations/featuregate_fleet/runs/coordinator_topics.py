"""The topics of coordinators, as a part of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import FROM_RECORDS, ROWS
from featuregate_fleet.evidence.coordinator_records import RAW, TOPICS, decode_batches, kinds
from featuregate_fleet.runs.internal_topics import TopicEnds, has_records, java_properties, topic_ends
from featuregate_fleet.runs.parts import Part, TopicRead
from featuregate_fleet.runs.topic_reads import (
    PartitionRead,
    check_same_topic,
    new_reads,
    reads_of,
    records_of,
    source_rows,
)
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_IN_A_BATCH: Final = 100_000_000
"""Offsets, of which compaction has left few records: in a year a busy cluster takes some billions."""
_DEPRECATED_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Spark's newer way to fetch offsets leaves out internal topics: it refuses a read between two offsets, and a read of
all offsets gives nothing."""


def coordinators_part(
    spark: SparkSession,
    config: Mapping[str, str],
    read: Mapping[str, TopicRead],
    *,
    names: Pseudonyms | None = None,
    most: int = _IN_A_BATCH,
) -> Part:
    """Return the records of coordinators that were not read before, of about ``most`` offsets.

    Parameters
    ----------
    config
        Properties of a client, with Java's names or with Spark's.
    read
        What the table has of each partition, by its URI.
    names
        Hashes the addresses of members.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow it.
    TablesBroken
        The topics are others than before, or Spark returns nothing of a topic that has records.
    """
    java = java_properties(config)
    asked_at = datetime.now(UTC)
    found = topic_ends(spark, java, list(TOPICS))
    _check_not_replaced(found, read)
    for topic in found:
        check_same_topic(topic, read)
    reads, more = new_reads(found, read, most)
    run = {} if more else {"records_read": asked_at}
    if not reads:
        return Part(run=run)
    spark.conf.set(_DEPRECATED_FETCHING, "true")
    # Coordinators delete what they do not need, and Spark would call it lost.
    records = partial(records_of, spark, java, failOnDataLoss="false")
    first = [topic for topic in found if not reads_of(topic.topic, read)]
    with one_line_failures("the records of coordinators cannot be read"):
        _check_not_empty(first, partial(_gives_any, records), partial(has_records, spark, java))
    return Part(rows=decoded(records(reads), names), sources=source_rows(FROM_RECORDS, reads), run=run, more=more)


def decoded(records: DataFrame, names: Pseudonyms | None = None) -> DataFrame:
    """Return rows of kind ``record``: SQL decodes kinds and versions, Arrow batches keys and values."""
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
    return raw.mapInArrow(ReusedWorkerTask(partial(decode_batches, names=names)), from_arrow_schema(ROWS))


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


def _check_not_replaced(found: Sequence[TopicEnds], read: Mapping[str, TopicRead]) -> None:
    for topic in found:
        known = reads_of(topic.topic, read)
        for partition, (_, end) in topic.ends.items():
            if partition in known and known[partition].position > end:
                raise TablesBroken(
                    f"{topic.topic}-{partition} ends at offset {end}, and the table has offset "
                    f"{known[partition].position - 1} of it: this is another cluster or another topic; give it another "
                    "name of the cluster"
                )


def _gives_any(records: Callable[[Sequence[PartitionRead]], DataFrame], topic: TopicEnds) -> bool:
    whole, _ = new_reads([topic], {}, topic.offsets)
    return not records(whole).isEmpty()


def _check_not_empty(
    found: Sequence[TopicEnds], gives_any: Callable[[TopicEnds], bool], has_records: Callable[[TopicEnds], bool]
) -> None:
    """Raise `TablesBroken` before a batch notes as read what Spark leaves out.

    A topic has offsets and no record that anybody sees where all of its transactions were aborted.
    """
    for topic in found:
        if topic.offsets and not gives_any(topic) and has_records(topic):
            raise TablesBroken(f"{topic.topic} has {topic.offsets} offsets, and Spark returned no record of it")
