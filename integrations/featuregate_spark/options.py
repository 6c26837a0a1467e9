"""kafka_options(), with_kafka_options(): which options of Spark's own Kafka source and sink this cluster allows. Pure.

An advice combines three facts: what every broker of the cluster supports (a requirement of the core), what Spark does
with the option, and what the app has set. It never overrides the app, nor applies what another option excludes. It
warns of options that Spark rejects or ignores, before a task fails.

The table of what Spark does is from its Structured Streaming + Kafka integration guide, ``KafkaSourceProvider.scala``,
and tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from featuregate import Api, Decision, Requirement, View, evaluate, presets
from featuregate.logs import get_logger
from featuregate_librdkafka.advice import (
    Advice,
    AdviceState,
    ClientSupport,
    Excluder,
    Occurrences,
    Setting,
    apply_advice,
    judge_all,
    require_role,
)

if TYPE_CHECKING:
    from featuregate.polling.discoverer import Discoverer
    from featuregate_spark.session import FeatureSession

logger = get_logger("featuregate.spark")

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


_ASSIGNED: Final = "Spark assigns the partitions of each task itself, and joins no consumer group"
_CHECKPOINT: Final = "Spark keeps offsets itself, in the checkpoint, and commits none to Kafka"
_INTERCEPTORS: Final = "Spark rejects interceptors, which might change records: change them in the DataFrame"
_BYTES: Final = "Spark reads and writes bytes: convert the columns in the DataFrame"
_REFUSED: Final[tuple[tuple[str, SparkRole, str, str], ...]] = (
    ("offset-reset", "reader", "auto.offset.reset", "Spark keeps offsets itself: set startingOffsets"),
    ("auto-commit", "reader", "enable.auto.commit", _CHECKPOINT),
    ("interceptors", "reader", "interceptor.classes", _INTERCEPTORS),
    ("key-deserializer", "reader", "key.deserializer", _BYTES),
    ("value-deserializer", "reader", "value.deserializer", _BYTES),
    ("key-serializer", "writer", "key.serializer", _BYTES),
    ("value-serializer", "writer", "value.serializer", _BYTES),
)
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
    *(_useless(name, role, f"kafka.{option}", reason, fails=True) for name, role, option, reason in _REFUSED),
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


def kafka_options(view: View | None, role: SparkRole, options: Mapping[str, Any] | None = None) -> tuple[Advice, ...]:
    """Return which options of Spark's Kafka source or sink the cluster of this view allows, and which have no effect.

    Raises `ConfigError`: there is no such role.

    Parameters
    ----------
    view
        A view of the cluster, such as :attr:`featuregate_spark.FeatureSession.view`; None if no broker has answered.
    role
        ``"reader"`` or ``"writer"``.
    options
        The app's own options for ``.options()``, which are not changed. Spark ignores the case of their names.
    """
    require_role(role, get_args(SparkRole))
    return tuple(judge_all(OPTIONS, role, lambda _option, needs: _decision(view, needs), _occurrences(options or {})))


def with_kafka_options(
    options: Mapping[str, Any], *, role: SparkRole, features: FeatureSession | Discoverer
) -> dict[str, Any]:
    """Return the app's options and all that may be set now, for ``.options(**...)``; log each advice.

    Each advice has a sticky gate of ``features``, named ``option-<name>``: an option that was set once stays set, even
    while a broker does not answer. The app's own options are never overridden; set one to turn an advice off.
    Raises `ConfigError`: there is no such role.
    """
    require_role(role, get_args(SparkRole))

    def decide(option: Setting, needs: Requirement) -> Decision:
        """Ask a gate only for an option that can be set."""
        usable = option.support.used
        return features.gate(f"option-{option.name}", needs).decision if usable else _decision(features.view, needs)

    return apply_advice(options, role, judge_all(OPTIONS, role, decide, _occurrences(options)), logger)


def _decision(view: View | None, requirement: Requirement) -> Decision:
    return Decision.unseen(requirement, policy="live") if view is None else evaluate(view, requirement)


def _occurrences(options: Mapping[str, Any]) -> Occurrences:
    """Return how Spark finds an option, of which it ignores the case, and the value that it passes on."""

    def found(spellings: tuple[str, ...]) -> list[tuple[str, str]]:
        return [(key, _text(value)) for key, value in options.items() if key.lower() in spellings]

    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
