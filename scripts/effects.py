"""Write what a level changes beside itself: ``featuregate/catalog/data/effects.json``.

Real clusters of each release raise and lower each level that they can, one by one, and then all that belong to the
release at once. Before and after each step every config of brokers, of the controller, of topics and groups, and the
defaults of the cluster are read with their sources, and ACLs, groups, quotas and users. Each difference is a row.

    python scripts/effects.py

With ``--check [RELEASE ...]`` it says whether the file is what the clusters do. It takes about ten minutes.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from featuregate import Admin, discover
from featuregate.admin.no_return import lowest_reachable
from featuregate.admin.updates import downgrade, moving, to_release, upgrade
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, features, metadata_levels
from featuregate.config import Settings
from featuregate.errors import UpdateRefused
from featuregate.net.cluster_metadata import bootstrap_broker_list, connect_to_node, fetch_broker_list
from featuregate.testing import LocalKafka
from featuregate.wire.configs import BROKER, TOPIC, DescribeConfigsRequest, DescribeConfigsResource
from featuregate.wire.message import Request, Response
from featuregate.wire.readers import Reader
from featuregate.wire.schema import Boolean, Flexible, Int8, Int16, Int32, Scalar, structure
from featuregate.wire.writers import Writer

ROOT = Path(__file__).parent.parent
FILE = ROOT / "featuregate" / "catalog" / "data" / "effects.json"
RELEASES = ("3.9.2", "4.0.0", "4.1.1", "4.2.0", "4.3.1", "4.4.0")
"""Oldest first."""
LOWEST = "3.3-IV3"
"""The ``metadata.version`` at which each cluster begins, with all other features at 0."""
AT_ONCE = "all levels of the release"
ELR = "eligible.leader.replicas.version"
SOURCE = "Brokers and a controller of each release of Apache Kafka, read before and after each level moved."
COLUMNS = ("feature", "level", "kind", "where", "name", "before", "after", "lowered_again", "releases")

OWN = {"min.insync.replicas": 2, "log.retention.hours": 100, "message.max.bytes": 900_000}
"""What brokers have in their properties, and the controller does not."""
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
CLIENT_METRICS, GROUP = 16, 32
"""``ConfigResource.Type``."""
CONTROLLER = 101
WHERE = {
    "broker 1": "a broker with a dynamic value",
    "broker 2": "a broker with a value in its properties",
    f"controller {CONTROLLER}": "a controller without a value",
    "default": "the default of the cluster",
    "topic own": "a topic with a value of its own",
}
SOURCES = {1: "of the topic", 2: "dynamic", 3: "default of the cluster", 4: "properties", 5: "Kafka's default"}
ABSENT = "absent"
Key = tuple[str, str, str]
"""The kind, where it is, and its name."""
State = dict[Key, str]


@structure
class QuotaComponent(Flexible):
    """Which entities are requested."""

    entity_type: str
    match_type: Int8 = 2
    match: str | None = None


@structure
class QuotaEntity(Flexible):
    """One part of the name of what has a quota."""

    entity_type: str
    entity_name: str | None


@structure
class QuotaValue(Flexible):
    """A quota, and the bits of its value."""

    key: str
    value: Annotated[int, Scalar("float64", Reader.int64, Writer.int64, 8)]


@structure
class QuotaEntry(Flexible):
    """The quotas of one entity."""

    entity: tuple[QuotaEntity, ...]
    values: tuple[QuotaValue, ...]


@structure
class DescribeClientQuotasResponse(Response, api=(48, "DescribeClientQuotas"), versions=(1, 1), flexible_from=1):
    """All quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    entries: tuple[QuotaEntry, ...] | None = ()


@structure
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """Request all quotas."""

    components: tuple[QuotaComponent, ...] = ()
    strict: Boolean = False


class Step(NamedTuple):
    """A level that was raised and, where that is possible, lowered again."""

    feature: str
    level: int
    raised: dict[Key, tuple[str, str]]
    lowered: State | None
    """The values after the way back; None where there is none."""


class Cluster:
    """Two brokers with values in their properties, one with a dynamic value too, and a controller with neither."""

    def __init__(self, kafka: LocalKafka) -> None:
        self.kafka = kafka
        self.client = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        self.admin = Admin(kafka.bootstrap, timeout=120)
        kafka.properties |= OWN
        kafka.stop(1, 2)
        kafka.start(1, 2)
        own = {"min.insync.replicas": "2", "retention.ms": "1000000", "max.message.bytes": "800000"}
        for done in self.client.create_topics([NewTopic("plain", 1, 2), NewTopic("own", 1, 2, config=own)]).values():
            done.result(60)
        self._configure("brokers", "1", "min.insync.replicas=2")
        self._configure("brokers", None, "log.retention.ms=100000")
        self._configure("clients", None, "producer_byte_rate=1000000")
        acl = ("own", ResourcePatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermissionType.ALLOW)
        for done in self.client.create_acls([AclBinding(ResourceType.TOPIC, *acl)]).values():
            done.result(60)
        self.join("classic")

    def add_what_newer_levels_keep(self) -> None:
        """Add what the lowest ``metadata.version`` does not know."""
        self._configure("users", "u", "SCRAM-SHA-256=[password=secret]")
        self._configure("client-metrics", "m", "interval.ms=60000")

    def _configure(self, kind: str, name: str | None, config: str) -> None:
        whose = ("--entity-default",) if name is None else ("--entity-name", name)
        where = ("--bootstrap-server", self.kafka.internal_bootstrap, "--entity-type", kind, *whose)
        done = self.kafka.run_tool("kafka.admin.ConfigCommand", *where, "--alter", "--add-config", config)
        assert done.returncode == 0, done.stdout + done.stderr

    def join(self, protocol: str) -> None:
        """Leave a group of this protocol behind, with an offset."""
        settings = {"bootstrap.servers": self.kafka.bootstrap, "group.id": protocol, "group.protocol": protocol}
        consumer = Consumer(settings | {"enable.auto.commit": False, "log_level": 0})
        assigned: list[TopicPartition] = []
        consumer.subscribe(["plain"], on_assign=lambda _, partitions: assigned.extend(partitions))
        while not assigned:
            consumer.poll(1)
        consumer.commit(offsets=[TopicPartition("plain", 0, 0)], asynchronous=False)
        consumer.close()

    def state(self) -> State:
        """Read everything, until it is the same twice: a node applies the records of an update one after the other."""
        before, until = None, time.monotonic() + 60
        while (found := asyncio.run(self._configs()) | dict(self._of_clients())) != before:
            assert time.monotonic() < until, "the cluster does not come to rest"
            before = found
        return found

    def _of_clients(self) -> Iterator[tuple[Key, str]]:
        every = (None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
        for acl in self.client.describe_acls(AclBindingFilter(ResourceType.ANY, *every)).result(60):
            yield ("acl", acl.name, acl.principal), f"{acl.operation.name} {acl.permission_type.name}"
        for group in self.client.list_consumer_groups().result(60).valid:
            yield ("group", group.group_id, "state"), f"{group.type.name} {group.state.name}"
        for name, user in self.client.describe_user_scram_credentials().result(60).items():
            yield ("user", name, "mechanisms"), str([one.mechanism.name for one in user.scram_credential_infos])

    async def _configs(self) -> State:
        topics = [(f"topic {name}", TOPIC, name) for name in self.client.list_topics().topics]
        others = [("default", BROKER, ""), ("group classic", GROUP, "classic"), ("metrics m", CLIENT_METRICS, "m")]
        brokers = Settings.parse({"bootstrap.servers": self.kafka.bootstrap})
        # By its address: controllers name each other from 3.7-IV0 on alone.
        controllers = Settings.parse({"bootstrap.controllers": self.kafka.controller_bootstrap})
        listed = (await fetch_broker_list(brokers, None, asyncio.get_running_loop().time() + 60)).broker_list
        one = bootstrap_broker_list(controllers)
        found: State = {}
        for broker in listed.nodes:
            own = [(f"broker {broker.node_id}", BROKER, str(broker.node_id))]
            with await connect_to_node(brokers, listed, broker) as connection:
                for resource in own + ([*others, *topics] if broker.node_id == 1 else []):
                    found |= await _read(connection, *resource)
                quotas = (await connection.request(DescribeClientQuotasRequest())).entries or ()
                found |= {
                    ("quota", str([(part.entity_type, part.entity_name) for part in each.entity]), value.key): str(
                        value.value
                    )
                    for each in quotas
                    for value in each.values
                }
        with await connect_to_node(controllers, one, one.nodes[0]) as connection:
            return found | await _read(connection, f"controller {CONTROLLER}", BROKER, str(CONTROLLER))


async def _read(connection: Any, label: str, kind: int, name: str) -> State:
    """Read the values of a resource, each with its source."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name)
    response = await connection.request(DescribeConfigsRequest(resources=(resource,)))
    where = WHERE.get(label, "a topic without a value of its own" if kind == TOPIC else label)
    return {
        ("config", where, one.name): f"{one.value} ({SOURCES.get(one.config_source, one.config_source)})"
        for result in response.results
        for one in result.configs
    }


def differences(before: State, after: State) -> dict[Key, tuple[str, str]]:
    """Return what is not the same, with the value before and after."""
    pairs = {key: (before.get(key, ABSENT), after.get(key, ABSENT)) for key in sorted({*before, *after})}
    return {key: (old, new) for key, (old, new) in pairs.items() if old != new}


def measured(release: str) -> Iterator[Step]:
    """Move each level of a release."""
    with _cluster(release) as kafka:
        cluster = Cluster(kafka)
        view = discover(kafka.bootstrap)
        top, lowest = view.supported[METADATA_VERSION].max, view.level(METADATA_VERSION) or 0
        for level in metadata_levels():
            if lowest < level <= top:
                yield _step(cluster, METADATA_VERSION, level)
        cluster.add_what_newer_levels_keep()
        names = [name for name in features()[1:] if name in view.supported]
        # Nothing after it is measured on a cluster as it was.
        for name in sorted(names, key=lambda name: (name == ELR, name == KRAFT_VERSION)):
            for level in range(1, view.supported[name].max + 1):
                yield _step(cluster, name, level)


def _step(cluster: Cluster, feature: str, level: int) -> Step:
    current = discover(cluster.kafka.bootstrap).level(feature) or 0
    before = cluster.state()
    try:
        _move(cluster, upgrade({feature: level}))
    except UpdateRefused as refused:
        print(f"  {feature}={level}: {refused}", flush=True)
        return Step(feature, level, {("refused", "", ""): ("", "")}, None)
    raised, lowered = differences(before, cluster.state()), None
    lowest = lowest_reachable(feature, level)
    if lowest is not None and lowest <= current:
        if feature == "group.version":
            cluster.join("consumer")
            before = cluster.state()
        _move(cluster, downgrade({feature: current}))
        lowered = cluster.state()
        if feature == "group.version":
            raised |= differences(before, lowered)
        _move(cluster, upgrade({feature: level}))
    print(f"  {feature}={level}: {len(raised)} differences", flush=True)
    return Step(feature, level, raised, lowered)


def _move(cluster: Cluster, updates: Any) -> None:
    cluster.admin.update(updates)
    # Brokers of 4.0 do not show a level of kraft.version that the quorum does not have (KAFKA-18979).
    levels = {update.feature: update.level for update in updates if update.feature != KRAFT_VERSION}
    cluster.admin.wait_for_levels(levels, 60)


def at_once(release: str) -> dict[Key, tuple[str, str]]:
    """Raise all levels of a release, as ``upgrade --release-version`` does."""
    with _cluster(release) as kafka:
        cluster = Cluster(kafka)
        before = cluster.state()
        _move(cluster, moving(to_release(release), discover(kafka.bootstrap)).updates)
        return differences(before, cluster.state())


def _cluster(release: str) -> LocalKafka:
    return LocalKafka(release, nodes=2, controllers=1, release_version=LOWEST, properties=AUTHORIZER, log_level="ERROR")


def table(releases: Iterable[str]) -> dict[str, Any]:
    """Measure releases."""
    levels: dict[str, list[list[Any]]] = {}
    rows: dict[tuple[Any, ...], list[str]] = {}
    for release in releases:
        print(release, flush=True)
        steps = [step for step in measured(release) if ("refused", "", "") not in step.raised]
        levels[release] = [[step.feature, step.level] for step in steps]
        known = set()
        for step in steps:
            for key, (old, new) in step.raised.items():
                known.add((key, old, new))
                back = None if step.lowered is None else step.lowered.get(key, ABSENT)
                rows.setdefault((step.feature, step.level, *key, old, new, back), []).append(release)
        for key, (old, new) in at_once(release).items():
            if (key, old, new) not in known:
                rows.setdefault((AT_ONCE, None, *key, old, new, None), []).append(release)
    return {
        "source": SOURCE,
        "measured": levels,
        "columns": list(COLUMNS),
        "effects": [[*row, releases] for row, releases in rows.items()],
    }


def text_of(found: dict[str, Any]) -> str:
    """Lay the table out: a line for each row."""
    body = ",\n".join(f"    {json.dumps(row)}" for row in found["effects"])
    measured_levels = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in found["measured"].items()
    )
    lines = [f"  {json.dumps(key)}: {json.dumps(found[key])}" for key in ("source", "columns")]
    lines += [f'  "measured": {{\n{measured_levels}\n  }}', f'  "effects": [\n{body}\n  ]']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def only(found: dict[str, Any], release: str) -> tuple[Any, ...]:
    """Return what a table has of one release."""
    return found["measured"].get(release), [row[:-1] for row in found["effects"] if release in row[-1]]


def main() -> int:
    """Write the file, or say whether it is right."""
    if "--check" in sys.argv[1:]:
        releases = sys.argv[2:] or RELEASES
        kept, found = json.loads(FILE.read_text()), table(releases)
        right = all(only(kept, release) == only(found, release) for release in releases)
        print(f"{FILE.relative_to(ROOT)} is {'' if right else 'not '}what the clusters do")
        return 0 if right else 1
    FILE.write_text(text_of(table(RELEASES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
