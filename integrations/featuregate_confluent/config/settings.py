"""Consumer and producer properties: our defaults, and a clear error where the app's own contradict them. Pure.

Nothing is overridden in silence. What is judged here is judged in every spelling that librdkafka takes for it: aliases,
the prefix ``topic.``, ``default.topic.config``, and values such as ``"T"``, ``1`` and ``0x5``. What librdkafka refuses
by itself, and in words that help, is left to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from featuregate.errors import ConfigError
from featuregate_confluent.errors import SettingsContradict
from featuregate_confluent.models import Model, tagged

Config = Mapping[str, Any]
"""The properties and callbacks that an app passes to confluent-kafka."""

_TOPIC_CONFIG: Final = "default.topic.config"


def given(config: Config, spellings: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Yield each place in which a property is given, as the app spelled it, with its value.

    ``spellings`` are librdkafka's name of the property and its aliases.
    """
    for key, value in config.items():
        if key == _TOPIC_CONFIG and isinstance(value, Mapping):
            yield from ((f"{key}: {inner}", found) for inner, found in given(value, spellings))
        elif key in spellings or str(key).removeprefix("topic.") in spellings:
            yield key, value


def last(config: Config, spellings: tuple[str, ...]) -> object:
    """Return the value that librdkafka uses if a property is given more than once; None: it is not given."""
    return next((value for _key, value in reversed(list(given(config, spellings)))), None)


def text(value: object) -> str:
    """Return a value of an enumeration or a boolean, of which librdkafka ignores the case."""
    return str(value).strip().lower()


def number(value: object) -> int | None:
    """Return an integer, given as text or not, decimal or ``0x..``; None: it is none."""
    for base in (0, 10):
        try:
            return int(str(value), base)
        except ValueError:
            continue
    return None


_CONSUMER_DEFAULTS: Final = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    # Else Consumer.commit() without arguments commits whatever was consumed, and wipes the group's latch.
    "enable.auto.offset.store": False,
}
_PRODUCER_DEFAULTS: Final = {
    "enable.idempotence": True,
    # A dead member's open transaction holds its offsets for so long; librdkafka's default blocks them for 60 s.
    "transaction.timeout.ms": 10_000,
}
_WITHIN_THE_TRANSACTION: Final = (
    (("message.timeout.ms", "delivery.timeout.ms"), 0),
    (("socket.timeout.ms",), 100),  # rdkafka_conf.c: rd_kafka_conf_finalize
)
_MAX_POLL_INTERVAL: Final = 300_000  # librdkafka's default: CONFIGURATION.md
_MAX_IN_FLIGHT: Final = 5  # rdkafka_idempotence.h: RD_KAFKA_IDEMP_MAX_INFLIGHT

_BOOTSTRAP: Final = ("bootstrap.servers", "metadata.broker.list")


class _Rule(NamedTuple):
    spellings: tuple[str, ...]
    """The spellings of one property: librdkafka's name and its aliases."""
    allows: Callable[[object], bool]
    problem: str
    """Why the value contradicts, and what to do; follows "is <value>"."""


_CONSUMER_RULES: Final = (
    _Rule(
        ("isolation.level",),
        lambda value: text(value) != "read_uncommitted",
        "which reads messages of aborted transactions, and offsets that are still pending: a v2 zombie's outputs would "
        "be there twice. Remove it, or set read_committed",
    ),
    _Rule(
        ("enable.auto.commit",),
        lambda value: text(value) not in {"true", "t", "1"},
        "but offsets are committed in the transaction of the outputs, or a crash loses or repeats messages, and an "
        "automatic commit wipes the group's latch. Remove it, or set false",
    ),
    _Rule(
        ("enable.auto.offset.store",),
        lambda value: text(value) not in {"true", "t", "1"},
        "but Consumer.commit() would then commit what was consumed, processed or not, and wipe the group's latch. "
        "Remove it, or set false",
    ),
)
_PRODUCER_RULES: Final = (
    _Rule(
        ("transactional.id",),
        lambda _value: False,
        "but the switch names its producers itself, one for each input partition or one for each process. Remove it; "
        "app_id is what the names begin with, and instance_id the name of this process",
    ),
    _Rule(
        ("enable.idempotence",),
        lambda value: text(value) not in {"false", "f", "0"},
        "but transactions need the idempotent producer. Remove it, or set true",
    ),
    _Rule(
        ("acks", "request.required.acks"),
        lambda value: text(value) == "all" or number(value) == -1,
        "but a transaction counts only what all in-sync replicas have. Remove it, or set all",
    ),
    _Rule(
        ("max.in.flight", "max.in.flight.requests.per.connection"),
        lambda value: (number(value) or 0) <= _MAX_IN_FLIGHT,
        f"but brokers remember {_MAX_IN_FLIGHT} batches of a producer to tell repeated ones. Remove it, or lower it",
    ),
)


def consumer_config(user: Config, *, app_id: str, tag: Model) -> dict[str, Any]:
    """Return the app's consumer properties with what exactly-once needs, and ids that show the tag.

    ``tag`` is the least model that this member promises to its group. Raises SettingsContradict, also for an empty
    group.id, which would end the process: confluent-kafka asserts that the client has a queue for its group.
    """
    _judge(user, _CONSUMER_RULES)
    _demand(user, _BOOTSTRAP)
    _demand(user, ("group.id",))
    shown = {"client.id": tagged(str(user.get("client.id") or app_id), tag)}
    if instance_id := user.get("group.instance.id"):
        shown["group.instance.id"] = tagged(str(instance_id), tag)
    return {**_CONSUMER_DEFAULTS, **user, **shown}


def producer_config(user: Config, *, transactional_id: str) -> dict[str, Any]:
    """Return the app's producer properties with what exactly-once needs, for the producer of one transactional id.

    librdkafka would take an empty id for none, and send without transactions. Raises SettingsContradict, ConfigError.
    """
    if not transactional_id:
        raise ConfigError("transactional.id", "must not be empty: the producer would have no transactions")
    _judge(user, _PRODUCER_RULES)
    _demand(user, _BOOTSTRAP)
    config = {**_PRODUCER_DEFAULTS, **user, "transactional.id": transactional_id}
    given_timeout = config["transaction.timeout.ms"]
    config["transaction.timeout.ms"] = timeout = number(given_timeout)
    if timeout is None:
        problem = f"is {given_timeout!r}, which is not a number of milliseconds"
        raise SettingsContradict("transaction.timeout.ms", problem)
    _judge_timeouts(config, whose="" if "transaction.timeout.ms" in user else ", the default here")
    return config


def poll_seconds(user: Config) -> float:
    """Return ``max.poll.interval.ms`` of a consumer, in seconds; where it is not a number, librdkafka refuses it."""
    value = number(last(user, ("max.poll.interval.ms",)))
    return (_MAX_POLL_INTERVAL if value is None else value) / 1000


def require_one_cluster(consumer: Config, producer: Config) -> None:
    """Return if the two name at least one broker in common. Raises SettingsContradict."""
    read_from, written_to = _brokers(consumer), _brokers(producer)
    if read_from.isdisjoint(written_to):
        raise SettingsContradict(
            "bootstrap.servers",
            f"the consumer's ({', '.join(sorted(read_from))}) and the producer's ({', '.join(sorted(written_to))}) "
            "have no broker in common, but a transaction cannot span two clusters. Give both the same list",
        )


def _judge(user: Config, rules: tuple[_Rule, ...]) -> None:
    for rule in rules:
        for key, value in given(user, rule.spellings):
            if not rule.allows(value):
                raise SettingsContradict(key, f"is {value!r}, {rule.problem}")


def _judge_timeouts(config: Config, *, whose: str) -> None:
    """Refuse what outlasts the transaction. librdkafka does so, too, but cannot say that the bound may be ours."""
    transaction = config["transaction.timeout.ms"]
    for spellings, slack in _WITHIN_THE_TRANSACTION:
        for key, value in given(config, spellings):
            if (number(value) or 0) > transaction + slack:
                raise SettingsContradict(
                    key,
                    f"is {value!r}, but the broker aborts the transaction after transaction.timeout.ms "
                    f"({transaction}{whose}). Remove it, lower it, or raise transaction.timeout.ms",
                )


def _demand(user: Config, spellings: tuple[str, ...]) -> None:
    if not str(last(user, spellings) or "").strip():
        raise SettingsContradict(spellings[0], "is missing or empty. Set it")


def _brokers(config: Config) -> set[str]:
    """Return ``host:port`` of each bootstrap broker, as librdkafka reads the list."""
    listed = (part.strip().rpartition("://")[2].lower() for part in str(last(config, _BOOTSTRAP) or "").split(","))
    return {part if re.search(r":\d+\Z", part) else f"{part}:9092" for part in listed if part}
