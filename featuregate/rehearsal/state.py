"""What a cluster keeps: configs, levels, groups, their offsets, ACLs; read before and after a step, and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not re-exported
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ConfigResource,
    OffsetSpec,
)

from featuregate.admin.effects import ConfigValue
from featuregate.catalog import effects_of
from featuregate.config import Settings
from featuregate.errors import LocalKafkaError
from featuregate.kafka_errors import check_error
from featuregate.loops import run_blocking
from featuregate.net.cluster_metadata import fetch_broker_list
from featuregate.net.controller import ask_nodes
from featuregate.polling.discovery import discover
from featuregate.printable import shown
from featuregate.rehearsal.original import AUTHORIZER
from featuregate.rehearsal.runbook import StepFinding
from featuregate.wire.in_use import ListGroupsRequest

if TYPE_CHECKING:
    from featuregate.testing import LocalKafka

SECONDS: Final = 60.0
"""For each request."""
_EACH_ACL: Final = AclBindingFilter(1, None, 1, None, None, 1, 1)  # type: ignore[arg-type]  # its types lack None
_ACLS_AT_ONCE: Final = 1_000
PROTOCOL: Final = "inter.broker.protocol.version"
"""What a step sets of brokers with ZooKeeper, and nothing else."""
_KAFKAS_DEFAULT: Final = 5
"""``ConfigSource`` of DescribeConfigs, like those below."""
_OF_CLUSTER: Final = (1, 2, 3)
_OF_RELEASE: Final = (4, _KAFKAS_DEFAULT)
"""Where a value is that older releases do not read."""
_ABSENT: Final = ConfigValue("absent")
_UNKNOWN: Final = "unknown"


class StateKey(NamedTuple):
    """What a value belongs to."""

    kind: str
    """``config``, ``level``, ``group``, ``offset`` or ``acl``."""
    where: str
    name: str


State = Mapping[StateKey, ConfigValue]
"""Only configs have a source."""


def read_state(kafka: LocalKafka) -> State:
    """Read everything from a small cluster.

    Raises `KafkaException`, `FeatureGateError` or `TimeoutError`: a broker does not answer within a minute.
    """
    where = {"bootstrap.servers": kafka.internal_bootstrap}
    admin, types = AdminClient({**where, "log_level": 0}), group_types(where)
    levels = discover(where, timeout=SECONDS).finalized
    committed = [(group, each) for group, found in _committed(admin, types) for each in found]
    secured = AUTHORIZER in kafka.properties
    acls = admin.describe_acls(_EACH_ACL, request_timeout=SECONDS).result(SECONDS) if secured else ()
    others = {
        **{StateKey("level", "the cluster", name): str(level) for name, level in levels.items()},
        **{StateKey("group", group, "type"): kind for group, kind in types.items()},
        **{StateKey("offset", group, f"{at.topic}-{at.partition}"): str(at.offset) for group, at in committed},
        **dict.fromkeys(map(acl_key, acls), "there"),
    }
    return {**dict(_configs(admin)), **{key: ConfigValue(value) for key, value in others.items()}}


def _configs(admin: Any) -> Iterator[tuple[StateKey, ConfigValue]]:
    found = admin.list_topics(timeout=SECONDS)
    kinds = {f"broker {broker}": (ConfigResource.Type.BROKER, str(broker)) for broker in found.brokers}
    kinds |= {f"topic {name}": (ConfigResource.Type.TOPIC, name) for name in found.topics if not name.startswith("__")}
    for where, (kind, name) in kinds.items():
        (described,) = admin.describe_configs([ConfigResource(kind, name)], request_timeout=SECONDS).values()
        for entry in described.result(SECONDS).values():
            if entry.value is None or (kind is ConfigResource.Type.TOPIC and entry.source not in _OF_CLUSTER):
                continue  # any broker answers of a topic, and has defaults of its own while others run another release
            yield StateKey("config", where, entry.name), ConfigValue(entry.value, entry.source)


def group_types(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each group, which brokers before 3.8 do not say. librdkafka leaves out new types.

    Raises `FeatureGateError` or `TimeoutError`: a broker does not answer.
    """
    settings = Settings.parse(config, total_timeout=SECONDS)

    async def ask() -> dict[str, str]:
        deadline = asyncio.get_running_loop().time() + settings.total_timeout
        listed = (await fetch_broker_list(settings, None, deadline)).broker_list
        found = dict[str, str]()
        for _, answer in await ask_nodes(
            settings, listed, listed.nodes, lambda _, connection: connection.request(ListGroupsRequest()), deadline
        ):
            if isinstance(answer, Exception):
                raise answer
            check_error(answer)  # its coordinator may be loading
            found |= {each.group_id: each.group_type.lower() or _UNKNOWN for each in answer.groups}
        return found

    return run_blocking(ask)


def acl_key(acl: Any) -> StateKey:
    """Name an ACL."""
    what = f"{acl.permission_type.name} {acl.operation.name} {shown(acl.principal)} from {shown(acl.host)}"
    return StateKey("acl", f"{acl.restype.name} {shown(acl.name)} ({acl.resource_pattern_type.name})", what)


def create_acls(kafka: LocalKafka, acls: Sequence[AclBinding]) -> None:
    """Create ACLs. Raises `LocalKafkaError`: the small cluster refuses one."""
    admin: Any = AdminClient({"bootstrap.servers": kafka.internal_bootstrap, "log_level": 0})
    for first in range(0, len(acls), _ACLS_AT_ONCE):
        asked = admin.create_acls([*acls[first : first + _ACLS_AT_ONCE]], request_timeout=SECONDS)
        for acl, done in asked.items():
            try:
                done.result(SECONDS)
            except (KafkaException, TimeoutError) as error:
                raise LocalKafkaError(f"{acl} was not created: {error}") from error


def _committed(admin: Any, types: Mapping[str, str]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Yield the committed offsets of each group. Share groups commit none."""
    for group in (each for each, kind in types.items() if kind != "share"):
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        yield group, [each for each in asked[group].result(SECONDS).topic_partitions if each.offset >= 0]


def ends_of(admin: Any, places: Iterable[TopicPartition]) -> list[int]:
    """Return the end of each partition, in their order."""
    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = [TopicPartition(each.topic, each.partition) for each in places]
    found = admin.list_offsets(dict.fromkeys(wanted, latest)) if wanted else {}
    return [found[each].result(SECONDS).offset for each in wanted]


def read_progress(admin: Any, types: Mapping[str, str]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return for each group and partition with an offset that offset, and how many records come after it.

    The last one of a partition may be the mark that ends a transaction, which no group reads, and is not counted.
    """
    return {
        (group, f"{each.topic}-{each.partition}"): (each.offset, max(0, end - each.offset - 1))
        for group, committed in _committed(admin, types)
        for end, each in zip(ends_of(admin, committed), committed, strict=True)
    }


def compare(before: State, after: State, moved: Mapping[str, tuple[int, int]]) -> tuple[list[StepFinding], list[str]]:
    """Return what a step changed that somebody has to look at, and what it changed as it should.

    ``moved``: the levels that the step moves: feature to the level before and the level after.
    """
    known = {each.name for feature, (old, new) in moved.items() for each in effects_of(feature, old, new)}
    places: dict[tuple[StateKey, ConfigValue, ConfigValue], list[str]] = {}
    counted = {"new": 0, "gone": 0}
    for key in sorted({*before, *after}):
        absent = ConfigValue("0") if key.kind == "level" else _ABSENT
        old, new = before.get(key, absent), after.get(key, absent)
        if old == new or _expected(key, old, new, moved):
            continue
        if old == _ABSENT and new.source in _OF_RELEASE:
            counted["new"] += 1
        elif new == _ABSENT and old.source == _KAFKAS_DEFAULT:
            counted["gone"] += 1
        else:
            places.setdefault((key._replace(where=""), old, new), []).append(key.where)
    findings = [_judged(key, ", ".join(where), old, new, known) for (key, old, new), where in places.items()]
    seen = [f"{count} configs of brokers are {what} in this release" for what, count in counted.items() if count]
    seen += [f"{feature}: {old} -> {new}" for feature, (old, new) in moved.items()]
    return findings, seen


def _expected(key: StateKey, old: ConfigValue, new: ConfigValue, moved: Mapping[str, tuple[int, int]]) -> bool:
    """Say whether a change is what the step is for, or what an app at work does."""
    if key.kind == "level":
        return key.name in moved and new.value == str(moved[key.name][1])
    if key.kind == "offset":
        return new != _ABSENT and (old == _ABSENT or int(new.value) >= int(old.value))
    if key.kind == "group":  # brokers before 3.8 do not say of which type it is
        return old == _ABSENT or (new != _ABSENT and _UNKNOWN in (old.value, new.value))
    return key.name == PROTOCOL


def _judged(key: StateKey, where: str, old: ConfigValue, new: ConfigValue, known: Collection[str]) -> StepFinding:
    what = f"{key.kind} {key.name} of {where}: {old} -> {new}"
    if key.kind != "config":
        return StepFinding("warn" if key.kind in {"acl", "group"} and new != _ABSENT else "block", what)
    values = [each.value for each in (old, new) if each != _ABSENT]
    if old.source == new.source == _KAFKAS_DEFAULT:
        return StepFinding("warn", f"another default: {key.name}: {' -> '.join(values)}")
    if key.name not in known:
        return StepFinding("warn", f"{what}, which the table of effects does not have")
    falls = len(values) > 1 and all(map(str.isdigit, values)) and int(values[1]) < int(values[0])
    return StepFinding("block" if falls else "warn", f"{what}, as the table of effects has it")
