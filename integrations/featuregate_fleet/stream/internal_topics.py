"""The ends of topics, asked of the cluster by Kafka's own admin client within Spark's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError

from featuregate_fleet.errors import ClusterUnread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

__all__ = ["TopicEnds", "java_properties", "topic_ends"]

_SECONDS: Final = 60
_NO_TOPIC: Final = "UnknownTopicOrPartitionException"
_PREFIX: Final = "kafka."
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


class TopicEnds(NamedTuple):
    """The offsets of a topic."""

    topic: str
    ends: Mapping[int, tuple[int, int]]
    """By partition, the first offset and the next one; empty where the topic does not exist."""
    topic_id: str = ""
    """A topic that is created again has another one (KIP-516). Empty where brokers have none, before 2.8."""

    @property
    def offsets(self) -> int:
        """How many offsets there are. Compaction leaves fewer records."""
        return sum(end - begin for begin, end in self.ends.values())


def java_properties(config: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a Java client, of those with Java's names or with Spark's."""
    if any(name.startswith(_PREFIX) for name in config):
        return {name.removeprefix(_PREFIX): text for name, text in config.items() if name.startswith(_PREFIX)}
    return dict(config)


def topic_ends(spark: SparkSession, config: Mapping[str, str], topics: Sequence[str]) -> list[TopicEnds]:
    """Ask for topics that may not exist. Nothing is created.

    Raises
    ------
    ClusterUnread
        The cluster does not answer, or does not allow DESCRIBE on a topic.
    """
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
    properties = java.java.util.Properties()
    for name, text in config.items():
        properties.setProperty(name, text)
    try:
        admin = java.org.apache.kafka.clients.admin.Admin.create(properties)
    except Py4JJavaError as error:
        raise ClusterUnread(f"the topics {', '.join(topics)} cannot be read: {_text(error)}") from error
    try:
        return [_ends(java, admin, topic) for topic in topics]
    finally:
        admin.close(java.java.time.Duration.ofSeconds(_SECONDS))


def _ends(java: Any, admin: Any, topic: str) -> TopicEnds:
    specs = java.org.apache.kafka.clients.admin.OffsetSpec
    try:
        asked = admin.describeTopics(java.java.util.List.of(topic)).topicNameValues().get(topic)
        described = asked.get(_SECONDS, java.java.util.concurrent.TimeUnit.SECONDS)
        found = [
            java.org.apache.kafka.common.TopicPartition(topic, each.partition()) for each in described.partitions()
        ]
        begins, ends = (dict(_offsets(java, admin, found, spec)) for spec in (specs.earliest(), specs.latest()))
    except Py4JJavaError as error:
        if _NO_TOPIC in _text(error):
            return TopicEnds(topic, {})
        raise ClusterUnread(f"the topic {topic} cannot be read: {_text(error)}") from error
    topic_id = str(described.topicId().toString())
    offsets = {number: (begins[number], ends[number]) for number in sorted(ends)}
    return TopicEnds(topic, offsets, "" if topic_id == _NO_ID else topic_id)


def _offsets(java: Any, admin: Any, partitions: list[Any], spec: Any) -> Iterator[tuple[int, int]]:
    asked = java.java.util.HashMap()
    for partition in partitions:
        asked.put(partition, spec)
    found = admin.listOffsets(asked).all().get(_SECONDS, java.java.util.concurrent.TimeUnit.SECONDS)
    for partition in partitions:
        yield partition.partition(), found.get(partition).offset()


def _text(error: Py4JJavaError) -> str:
    """Return the innermost exception, in one line."""
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).partition("\n")[0]
