"""What Spark's Kafka connector does with which option, and what the app may expect of it. Pure.

The sources are Spark's Structured Streaming + Kafka integration guide, ``KafkaSourceProvider.scala``, and trial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate import Api, presets

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate import Requirement

__all__ = ["UNUSABLE_OPTIONS", "USABLE_OPTIONS", "Excluder", "SparkRole", "UnusableOption", "UsableOption"]

SparkRole = Literal["reader", "writer"]
"""``reader``: Spark's Kafka source; ``writer``: its Kafka sink. Both for batches and streams."""


class Excluder(NamedTuple):
    """Another option, which excludes what is advised."""

    option: str
    excludes: Callable[[str], bool]


class UsableOption(NamedTuple):
    """What can be advised, because Spark uses it."""

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
    """Whether Kafka's Java client does it where nothing is said against it."""
    excluders: tuple[Excluder, ...] = ()


class UnusableOption(NamedTuple):
    """What an app might expect something of, in vain."""

    name: str
    role: SparkRole
    option: str | None
    fails: bool
    """Whether Spark refuses it, or its tasks fail by it; otherwise it has no effect."""
    reason: str
    requirement: Requirement | None = None
    """Of those that are told of even where they are not set: what the cluster has would tempt one to set them."""
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
            "Spark reads what was aborted, too, unless it is told not to. Records of open transactions, and what was "
            "written after them, arrive once these have ended"
        ),
    ),
    UsableOption(
        name="zstd",
        role="writer",
        option="kafka.compression.type",
        value="zstd",
        requirement=presets.zstd,
        note=(
            "Brokers refuse zstd records to consumers that are too old for them, which no broker tells of: be sure of "
            "every consumer of the topic"
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
            "What a producer sends again is written once; what a task or a batch writes again is not: that takes "
            "FeatureSession.kafka_sink(). Brokers before 2.8 ask for the right IDEMPOTENT_WRITE on the cluster"
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


_ASSIGNED: Final = "Spark assigns the partitions of each task by itself, and joins no consumer group"
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
        reason="Spark keeps offsets by itself: set startingOffsets",
    ),
    UnusableOption(
        name="auto-commit",
        role="reader",
        option="kafka.enable.auto.commit",
        fails=True,
        reason="Spark keeps offsets by itself, in the checkpoint, and commits none to Kafka",
    ),
    UnusableOption(
        name="interceptors",
        role="reader",
        option="kafka.interceptor.classes",
        fails=True,
        reason="Spark refuses what might change records behind its back: change them in the DataFrame",
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
        reason="For information: Spark's sink begins no transaction, and that of FeatureSession.kafka_sink() does not "
        "speak this version",
    ),
)
