"""What Spark's Kafka connector does with each option: a table. Pure.

The sources are Spark's Structured Streaming + Kafka integration guide, ``KafkaSourceProvider.scala``, and tests.
"""

from __future__ import annotations

from typing import Final, Literal

from featuregate import Api, Requirement, presets
from featuregate_librdkafka.advice import AdviceState, ClientSupport, Excluder, Setting

SparkRole = Literal["reader", "writer"]
"""``reader``: Spark's Kafka source; ``writer``: its Kafka sink. Both for batches and streams."""


def _useless(
    name: str,
    role: SparkRole,
    option: str | None,
    reason: str,
    *,
    fails: bool = False,
    requirement: Requirement | None = None,
    value: str | None = None,
) -> Setting:
    """Return an option that Spark ignores, or that it rejects or its tasks fail with.

    One with a requirement is warned of where the cluster supports the feature, even if it is not set.
    """
    return Setting(
        name=name,
        role=role,
        requirement=requirement,
        spellings=(option,) if option else (),
        value=value,
        support=ClientSupport(used=False, words=reason, state=AdviceState.FAILS if fails else AdviceState.NO_EFFECT),
    )


_EXCLUDE_IDEMPOTENCE: Final = (
    Excluder(("kafka.acks",), lambda value: value not in {"all", "-1"}),
    Excluder(("kafka.retries",), lambda value: value == "0"),
    Excluder(("kafka.max.in.flight.requests.per.connection",), lambda value: not value.isdecimal() or int(value) > 5),  # noqa: PLR2004 - ProducerConfig.java: MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION_FOR_IDEMPOTENCE
)
_USABLE: Final = (
    Setting(
        name="read-committed",
        role="reader",
        spellings=("kafka.isolation.level",),
        value="read_committed",
        requirement=(Api("Fetch") >= 4) & (Api("ListOffsets") >= 2),  # noqa: PLR2004 - FetchRequest.json, ListOffsetsRequest.json: isolation_level
        note=(
            "By default Spark also reads the records of aborted transactions. Records of open transactions, and all "
            "that follow them, arrive when the transactions have ended"
        ),
    ),
    Setting(
        name="zstd",
        role="writer",
        spellings=("kafka.compression.type",),
        value="zstd",
        requirement=presets.zstd,
        note=(
            "Brokers do not send zstd records to consumers that are too old for them, and no broker reports these: "
            "check every consumer of the topic"
        ),
    ),
    Setting(
        name="acks-all",
        role="writer",
        spellings=("kafka.acks",),
        value="all",
        also=("-1",),
        requirement=Api("Produce") >= 0,
        default="all",
        note="The producer waits for all in-sync replicas",
    ),
    Setting(
        name="idempotence",
        role="writer",
        spellings=("kafka.enable.idempotence",),
        value="true",
        requirement=Api("InitProducerId") >= 0,
        default="true",
        excluders=_EXCLUDE_IDEMPOTENCE,
        note=(
            "A retry of the producer is written once; a retry of a task or a batch is written again: use "
            "FeatureSession.kafka_sink() for those. Brokers before 2.8 need IDEMPOTENT_WRITE on the cluster"
        ),
    ),
)


def _bytes_only(role: SparkRole, option: str) -> Setting:
    reason = "Spark reads and writes bytes: convert the columns in the DataFrame"
    return _useless(option.replace(".", "-"), role, f"kafka.{option}", reason, fails=True)


_ASSIGNED: Final = "Spark assigns the partitions of each task itself, and joins no consumer group"
OPTIONS: Final = (
    *_USABLE,
    _useless(
        "group-protocol",
        "reader",
        "kafka.group.protocol",
        f"{_ASSIGNED}. With spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true the driver does join one, "
        "in a way that fails with this protocol",
        requirement=presets.kip848,
        value="consumer",
    ),
    _useless("group-assignor", "reader", "kafka.partition.assignment.strategy", _ASSIGNED),
    _useless("group-instance-id", "reader", "kafka.group.instance.id", _ASSIGNED),
    _useless(
        "offset-reset",
        "reader",
        "kafka.auto.offset.reset",
        "Spark keeps offsets itself: set startingOffsets",
        fails=True,
    ),
    _useless(
        "auto-commit",
        "reader",
        "kafka.enable.auto.commit",
        "Spark keeps offsets itself, in the checkpoint, and commits none to Kafka",
        fails=True,
    ),
    _useless(
        "interceptors",
        "reader",
        "kafka.interceptor.classes",
        "Spark rejects interceptors, which might change records: change them in the DataFrame",
        fails=True,
    ),
    *(_bytes_only("reader", f"{side}.deserializer") for side in ("key", "value")),
    *(_bytes_only("writer", f"{side}.serializer") for side in ("key", "value")),
    _useless(
        "transactional-id",
        "writer",
        "kafka.transactional.id",
        "Spark's sink begins no transaction, and a producer with this id sends nothing outside of one: the task "
        "fails, after kafka.delivery.timeout.ms. Use FeatureSession.kafka_sink()",
        fails=True,
        requirement=Api("InitProducerId") >= 0,
    ),
    _useless("transaction-timeout", "writer", "kafka.transaction.timeout.ms", "Spark's sink begins no transaction"),
    _useless(
        "transactions-v2",
        "writer",
        None,
        "For information: Spark's sink begins no transaction, and FeatureSession.kafka_sink() does not use this "
        "version",
        requirement=presets.kip890,
    ),
)
