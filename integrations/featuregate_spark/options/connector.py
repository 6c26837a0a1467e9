"""What Spark's Kafka connector does with each option: two tables. Pure.

The sources are Spark's Structured Streaming + Kafka integration guide, ``KafkaSourceProvider.scala``, and tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from featuregate import Api, Requirement, presets

SparkRole = Literal["reader", "writer"]
"""``reader``: Spark's Kafka source; ``writer``: its Kafka sink. Both for batches and streams."""


class Excluder(NamedTuple):
    """Another option, some values of which exclude the advised one."""

    option: str
    excludes: Callable[[str], bool]


class UsableOption(NamedTuple):
    """An option that Spark uses, so that it can be advised."""

    name: str
    role: SparkRole
    option: str
    value: str
    requirement: Requirement
    note: str
    """What to know before it is set."""
    also: tuple[str, ...] = ()
    """Other spellings of the value."""
    is_default: bool = False
    """Whether it is the default of Kafka's Java client."""
    excluders: tuple[Excluder, ...] = ()


class UnusableOption(NamedTuple):
    """An option that has no effect in Spark, or fails."""

    name: str
    role: SparkRole
    option: str | None
    fails: bool
    """Whether Spark rejects it or its tasks fail with it; otherwise it has no effect."""
    reason: str
    requirement: Requirement | None = None
    """For an option that is warned of even if it is not set, because the cluster supports the feature behind it."""
    value: str | None = None


_EXCLUDE_IDEMPOTENCE: Final = (
    Excluder("kafka.acks", lambda value: value not in {"all", "-1"}),
    Excluder("kafka.retries", lambda value: value == "0"),
    Excluder("kafka.max.in.flight.requests.per.connection", lambda value: not value.isdecimal() or int(value) > 5),  # noqa: PLR2004 - ProducerConfig.java: MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION_FOR_IDEMPOTENCE
)
USABLE_OPTIONS: Final = (
    UsableOption(
        name="read-committed",
        role="reader",
        option="kafka.isolation.level",
        value="read_committed",
        requirement=(Api("Fetch") >= 4) & (Api("ListOffsets") >= 2),  # noqa: PLR2004 - FetchRequest.json, ListOffsetsRequest.json: isolation_level
        note=(
            "By default Spark also reads the records of aborted transactions. Records of open transactions, and all "
            "that follow them, arrive when the transactions have ended"
        ),
    ),
    UsableOption(
        name="zstd",
        role="writer",
        option="kafka.compression.type",
        value="zstd",
        requirement=presets.zstd,
        note=(
            "Brokers do not send zstd records to consumers that are too old for them, and no broker reports these: "
            "check every consumer of the topic"
        ),
    ),
    UsableOption(
        name="acks-all",
        role="writer",
        option="kafka.acks",
        value="all",
        also=("-1",),
        requirement=Api("Produce") >= 0,
        is_default=True,
        note="The producer waits for all in-sync replicas",
    ),
    UsableOption(
        name="idempotence",
        role="writer",
        option="kafka.enable.idempotence",
        value="true",
        requirement=Api("InitProducerId") >= 0,
        is_default=True,
        excluders=_EXCLUDE_IDEMPOTENCE,
        note=(
            "A retry of the producer is written once; a retry of a task or a batch is written again: use "
            "FeatureSession.kafka_sink() for those. Brokers before 2.8 need IDEMPOTENT_WRITE on the cluster"
        ),
    ),
)


def _bytes_only(role: SparkRole, option: str) -> UnusableOption:
    return UnusableOption(
        name=option.replace(".", "-"),
        role=role,
        option=f"kafka.{option}",
        fails=True,
        reason="Spark reads and writes bytes: convert the columns in the DataFrame",
    )


_ASSIGNED: Final = "Spark assigns the partitions of each task itself, and joins no consumer group"
UNUSABLE_OPTIONS: Final = (
    UnusableOption(
        name="group-protocol",
        role="reader",
        option="kafka.group.protocol",
        value="consumer",
        fails=False,
        requirement=presets.kip848,
        reason=(
            f"{_ASSIGNED}. With spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true the driver does join one, "
            "in a way that fails with this protocol"
        ),
    ),
    *(
        UnusableOption(name=f"group-{name}", role="reader", option=option, fails=False, reason=_ASSIGNED)
        for name, option in (
            ("assignor", "kafka.partition.assignment.strategy"),
            ("instance-id", "kafka.group.instance.id"),
        )
    ),
    UnusableOption(
        name="offset-reset",
        role="reader",
        option="kafka.auto.offset.reset",
        fails=True,
        reason="Spark keeps offsets itself: set startingOffsets",
    ),
    UnusableOption(
        name="auto-commit",
        role="reader",
        option="kafka.enable.auto.commit",
        fails=True,
        reason="Spark keeps offsets itself, in the checkpoint, and commits none to Kafka",
    ),
    UnusableOption(
        name="interceptors",
        role="reader",
        option="kafka.interceptor.classes",
        fails=True,
        reason="Spark rejects interceptors, which might change records: change them in the DataFrame",
    ),
    *(_bytes_only("reader", f"{side}.deserializer") for side in ("key", "value")),
    *(_bytes_only("writer", f"{side}.serializer") for side in ("key", "value")),
    UnusableOption(
        name="transactional-id",
        role="writer",
        option="kafka.transactional.id",
        fails=True,
        requirement=Api("InitProducerId") >= 0,
        reason="Spark's sink begins no transaction, and a producer with this id sends nothing outside of one: the task "
        "fails, after kafka.delivery.timeout.ms. Use FeatureSession.kafka_sink()",
    ),
    UnusableOption(
        name="transaction-timeout",
        role="writer",
        option="kafka.transaction.timeout.ms",
        fails=False,
        reason="Spark's sink begins no transaction",
    ),
    UnusableOption(
        name="transactions-v2",
        role="writer",
        option=None,
        fails=False,
        requirement=presets.kip890,
        reason="For information: Spark's sink begins no transaction, and FeatureSession.kafka_sink() does not use this "
        "version",
    ),
)
