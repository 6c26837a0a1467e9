"""The ends of topics, and whether they have records, asked of the cluster by Kafka's own clients within Spark's JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from py4j.protocol import Py4JJavaError

from featuregate.config.from_files import require_code
from featuregate.config.jaas import parse_jaas
from featuregate.config.providers import without_placeholders
from featuregate_fleet.errors import ClusterUnread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS: Final = 60
_NO_TOPIC: Final = "UnknownTopicOrPartitionException"
_PREFIX: Final = "kafka."
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_AS_BYTES: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OF_READER: Final = {
    "key.deserializer": _AS_BYTES,
    "value.deserializer": _AS_BYTES,
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "isolation.level": "read_committed",
}
_NAMES_CLASSES: Final = re.compile(r"(.+\.)?(class|classes|reporters|providers|(de)?serializer|strategy|partitioner)")
_OF_KAFKA: Final = "org.apache.kafka."
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"


class TopicEnds(NamedTuple):
    """The offsets of a topic."""

    topic: str
    ends: Mapping[int, tuple[int, int]]
    """By partition, the first offset and the next one that a committed record gets; empty where there is no such topic.

    A transaction that is open ends the partition before its first record."""
    topic_id: str = ""
    """A topic that is created again has another one (KIP-516). Empty where brokers have none, before 2.8."""
    failure: ClusterUnread | None = None
    """Why nothing is known of it."""

    @property
    def offsets(self) -> int:
        """How many offsets there are. Compaction leaves fewer records."""
        return sum(end - begin for begin, end in self.ends.values())

    def known(self) -> Self:
        """Return it, or raise `ClusterUnread` where nothing is known of it."""
        if self.failure is not None:
            raise self.failure
        return self


def java_properties(config: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a Java client, of those with Java's names or with Spark's.

    Placeholders have their values. Raises ConfigError where Java would load classes that a file may not name.
    """
    if any(name.startswith(_PREFIX) for name in config):
        config = {name.removeprefix(_PREFIX): text for name, text in config.items() if name.startswith(_PREFIX)}
    java = without_placeholders(config)
    for name, text in java.items():
        for loaded in _classes(name, text):
            if not loaded.startswith(_OF_KAFKA) and loaded != _KERBEROS:
                require_code(name, text, loaded)
    return java


def _classes(name: str, text: str) -> list[str]:
    """Return the classes that Java's clients load because of a property."""
    if name == "sasl.jaas.config":
        login = parse_jaas(name, text)
        return [f"{login.package}.{login.module}"]
    return [each for part in text.split(",") if (each := part.strip())] if _NAMES_CLASSES.fullmatch(name) else []


def topic_ends(spark: SparkSession, config: Mapping[str, str], topics: Sequence[str]) -> dict[str, TopicEnds]:
    """Ask for topics that may not exist, by one client. Nothing is created.

    A topic has a failure where the cluster does not answer, or does not allow DESCRIBE on it.
    """
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
    try:
        admin = java.org.apache.kafka.clients.admin.Admin.create(dict(config))
    except Py4JJavaError as error:
        return {topic: TopicEnds(topic, {}, failure=_unread(topic, error)) for topic in topics}
    try:
        asked = admin.describeTopics(list(topics)).topicNameValues()
        return {topic: _ends(java, admin, topic, asked.get(topic)) for topic in topics}
    finally:
        admin.close(java.java.time.Duration.ofSeconds(_SECONDS))


def has_records(spark: SparkSession, config: Mapping[str, str], topic: TopicEnds) -> bool:
    """Return whether a consumer gets any committed record: aborted ones have offsets, too. Raises ClusterUnread."""
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
    wait = java.java.time.Duration.ofSeconds(1)
    try:
        consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer({**config, **_OF_READER})
        try:
            parts = [java.org.apache.kafka.common.TopicPartition(topic.topic, number) for number in topic.ends]
            consumer.assign(parts)
            consumer.seekToBeginning(parts)
            ends, deadline = dict(consumer.endOffsets(parts)), monotonic() + _SECONDS
            while any(consumer.position(part) < end for part, end in ends.items()):
                if not consumer.poll(wait).isEmpty():
                    return True
                if monotonic() > deadline:
                    raise ClusterUnread(f"the topic {topic.topic} gives no record, and its end is not reached")
        finally:
            consumer.close()
    except Py4JJavaError as error:
        raise _unread(topic.topic, error) from error
    return False


def _ends(java: Any, admin: Any, topic: str, asked: Any) -> TopicEnds:
    kafka, within = java.org.apache.kafka, (_SECONDS, java.java.util.concurrent.TimeUnit.SECONDS)
    committed = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)
    specs = kafka.clients.admin.OffsetSpec
    try:
        described = asked.get(*within)
        parts = [kafka.common.TopicPartition(topic, each.partition()) for each in described.partitions()]
        begins, ends = (
            admin.listOffsets(dict.fromkeys(parts, spec), committed).all().get(*within)
            for spec in (specs.earliest(), specs.latest())
        )
        found = {part.partition(): (begins.get(part).offset(), ends.get(part).offset()) for part in parts}
    except Py4JJavaError as error:
        if _NO_TOPIC in _text(error):
            return TopicEnds(topic, {})
        return TopicEnds(topic, {}, failure=_unread(topic, error))
    topic_id = str(described.topicId().toString())
    return TopicEnds(topic, dict(sorted(found.items())), "" if topic_id == _NO_ID else topic_id)


def _unread(topic: str, error: Py4JJavaError) -> ClusterUnread:
    return ClusterUnread(f"the topic {topic} cannot be read: {_text(error)}")


def _text(error: Py4JJavaError) -> str:
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).partition("\n")[0]
