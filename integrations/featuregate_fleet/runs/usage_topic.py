"""The topic of usage reports, as a part of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.columns import FROM_REPORTS, ROWS
from featuregate_fleet.evidence.usage_reports import RECORDS, parse_reports
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
    from pyspark.sql import SparkSession

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_IN_A_BATCH: Final = 500_000


def usage_part(
    spark: SparkSession,
    config: Mapping[str, str],
    topic: str,
    read: Mapping[str, TopicRead],
    *,
    cluster_id: str | None,
    names: Pseudonyms | None = None,
    most: int = _IN_A_BATCH,
) -> Part | None:
    """Return the reports that were not read before, about ``most`` of them; None where there is no such topic.

    Parameters
    ----------
    config
        Properties of a client, with Java's names or with Spark's.
    read
        What the table has of each partition, by its URI.
    cluster_id
        The id of the cluster. Reports of apps that use another one are put into quarantine.
    names
        Where principals are hashed, the texts of records in quarantine are left out.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow to read the topic.
    TablesBroken
        The topic is another one than before.
    """
    java = java_properties(config)
    (found,) = topic_ends(spark, java, [topic])
    if not found.ends:
        return None
    _check_not_replaced(found, read)
    check_same_topic(found, read)
    reads, more = new_reads([found], read, most)
    if not reads:
        return Part()
    # The retention of the topic deletes reports, and Spark would call them lost.
    records = records_of(spark, java, reads, failOnDataLoss="false")
    parse = ReusedWorkerTask(partial(parse_reports, topic_id=found.topic_id, cluster_id=cluster_id, names=names))
    return Part(
        rows=records.select(RECORDS.names).mapInArrow(parse, from_arrow_schema(ROWS)),
        sources=source_rows(FROM_REPORTS, reads),
        more=more,
        check=partial(check_still_there, spark, java, found),
    )


def _check_not_replaced(found: TopicEnds, read: Mapping[str, TopicRead]) -> None:
    for partition, known in reads_of(found.topic, read).items():
        if known.position > found.ends.get(partition, (0, 0))[1]:
            raise TablesBroken(
                f"{found.topic}-{partition} was read up to offset {known.position}, and has no such offset: this is"
                " another topic of the same name; give it another name of the cluster"
            )
