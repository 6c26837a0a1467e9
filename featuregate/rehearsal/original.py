"""What decides of the real cluster: settings of its brokers, levels, topics, ACLs, addresses. It is only read."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AclBinding  # type: ignore[attr-defined]  # not re-exported

from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, captured_as, captured_releases, level_name
from featuregate.config import Settings
from featuregate.config.properties_file import read_properties
from featuregate.errors import ConfigError, FeatureGateError
from featuregate.gating.decisions import evaluate
from featuregate.kafka_errors import NONE, check_error
from featuregate.loops import run_blocking
from featuregate.net.broker_configs import check_configs
from featuregate.net.cluster_metadata import connect_to_node, fetch_broker_list
from featuregate.polling.discovery import discover
from featuregate.printable import shown
from featuregate.requirements import Release
from featuregate.testing.local_kafka.config import MECHANISMS, PROTOCOLS
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.view.cluster_view import reports_no_levels
from featuregate.wire.acls import DescribeAclsRequest, DescribeAclsResponse
from featuregate.wire.configs import BROKER, TOPIC, DescribeConfigsRequest, DescribeConfigsResource
from featuregate.wire.metadata import ListTopicsRequest, NamedTopic

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.rehearsal.apps import Peer

AUTHORIZER: Final = "authorizer.class.name"
_AUTHORIZERS: Final = {
    "kraft": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "zookeeper": "kafka.security.authorizer.AclAuthorizer",
}
"""Those of Kafka from 2.4 on."""
_SUPER_USERS: Final = "User:ANONYMOUS;User:featuregate"
"""Brokers, tools and apps of the small cluster."""
_OF_ITS_OWN: Final = re.compile(
    r"(?:node|broker)\.(?:id|rack).*|process\.roles|controller\..*|.*listener.*|security\..*|log\.dirs?|metadata\.log\.dir"
    r"|zookeeper\..*|(?:.*\.)?(?:ssl|sasl)\..*|super\.users|inter\.broker\.protocol\.version"
)
"""What each cluster has of its own."""
_OF_OTHERS: Final = re.compile(
    r".*\.class(?:\.name|es)?|.*reporters|principal\..*|(?:remote\.(?:log|storage)|rsm|rlmm|config\.providers)\b.*"
    r"|confluent\..*|.*(?:password|secret|master\.key).*"
)
"""What needs code, storage or secrets that the small cluster does not have."""
_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - nothing is bound
_IN_NODES: Final = re.compile(r".*(?:replication\.factor|min\.isr|min\.insync\.replicas)")
_CHANGED: Final = (2, 3, 4)
"""``ConfigSource`` of a value of a broker that is not Kafka's default: dynamic, of the cluster, in its properties."""
_OF_TOPIC: Final = 1


@dataclass(slots=True, kw_only=True)
class OriginalCluster:
    """What was read."""

    version: str = ""
    """The first release of the line that it runs; empty from a file."""
    properties: dict[str, str] = field(default_factory=dict)
    """The settings of brokers that the small cluster takes."""
    levels: dict[str, int] = field(default_factory=dict)
    security: tuple[str, str | None] = ("PLAINTEXT", None)
    """The protocol of its listener for clients, and the mechanism of SASL."""
    partitions: dict[str, int] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    """The settings of each topic."""
    peers: set[Peer] = field(default_factory=set)
    """The addresses of its brokers."""
    unwatched: set[str] = field(default_factory=set)
    """Which addresses of its brokers are not known."""
    authorized: bool = False
    """Whether it has an authorizer of Kafka."""
    acls: list[AclBinding] = field(default_factory=list)
    not_copied: list[str] = field(default_factory=list)

    def format_options(self, version: str) -> dict[str, Any]:
        """Return the options of `LocalKafka` by which a cluster of a release begins with these levels."""
        row = captured_as(version)
        others = [name for name in (row.features if row else ()) if name not in {METADATA_VERSION, KRAFT_VERSION}]
        if METADATA_VERSION not in self.levels:
            return {}
        if not others:  # before 3.9 the storage is formatted with a release alone
            return {"release_version": level_name(METADATA_VERSION, self.levels[METADATA_VERSION])}
        return {"features": {name: self.levels.get(name, 0) for name in (METADATA_VERSION, *others)}}

    def authorizer(self, version: str) -> dict[str, object]:
        """Return the properties by which all nodes of a release have an authorizer that refuses nothing."""
        if not self.authorized:
            return {}
        return {AUTHORIZER: _AUTHORIZERS[recipe_for(version).quorum], "super.users": _SUPER_USERS}

    def copy(self, properties: Mapping[str, str], nodes: int, topic: str = "") -> None:
        """Take what ``nodes`` brokers of a small cluster can have, or a topic there; the rest is in ``not_copied``."""
        taken = self.topics.setdefault(topic, {}) if topic else self.properties
        of = f" of topic {topic}" if topic else ""
        for name, value in sorted(properties.items()):
            if _OF_ITS_OWN.fullmatch(name):
                continue
            if _IN_NODES.fullmatch(name) and value.isdecimal() and int(value) > nodes:
                self.not_copied.append(f"{name}={value}{of}, which needs more than {nodes} brokers")
            elif name == AUTHORIZER and value:
                self.authorized = value in _AUTHORIZERS.values()
                what = "what its authorizer refuses: each client of the small cluster is a super user"
                self.not_copied.append(what if self.authorized else f"its authorizer {shown(value)}, and its ACLs")
            elif _OF_OTHERS.fullmatch(name) or "${" in value:
                self.not_copied.append(f"{name}{of}")
            else:
                taken[name] = value

    def take_acls(self, answer: DescribeAclsResponse) -> None:
        """Take the ACLs that librdkafka can create; how many others there are is in ``not_copied``."""
        check_error(answer)
        others = 0
        for on in answer.resources:
            for each in on.acls:
                who = (each.principal, each.host, each.operation, each.permission_type)
                try:
                    self.acls.append(AclBinding(on.resource_type, on.resource_name, on.pattern_type, *who))
                except ValueError:  # of delegation tokens, users and later kinds
                    others += 1
        self.acls.sort(key=repr)
        if others:
            self.not_copied.append(f"{others} ACLs of kinds that librdkafka does not have")

    def reach(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Take the addresses of brokers, with what their names resolve to; the others are in ``unwatched``."""
        for host, port in addresses:
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                self.peers |= {(str(each[4][0]), port) for each in found}
            except (OSError, UnicodeError):
                self.unwatched.add(f"the address of {shown(host)}, which does not resolve here")

    def secure(self, protocol: str, mechanism: str | None) -> None:
        """Take the security of a listener, where the small cluster can have it."""
        if protocol not in PROTOCOLS or (protocol.startswith("SASL") and mechanism not in MECHANISMS):
            self.not_copied.append(f"the security of its listener: {protocol} {mechanism or ''}".rstrip())
        else:
            self.security = (protocol, mechanism if protocol.startswith("SASL") else None)


def from_file(path: Path, nodes: int) -> OriginalCluster:
    """Read the ``server.properties`` of a broker. Raises `ConfigError` where it cannot be read."""
    properties = read_properties(path, of_client=False)
    found = OriginalCluster()
    found.copy(properties, nodes)
    if found.authorized:
        found.not_copied.append("its ACLs, which no file has")
    others = {properties.get("inter.broker.listener.name"), *properties.get("controller.listener.names", "").split(",")}
    listeners = properties.get("advertised.listeners") or properties.get("listeners", "")
    places = re.findall(r"([\w.-]+)://\[?([^,\]]*?)\]?:(\d+)", listeners)
    found.reach((host or "127.0.0.1", int(port)) for _, host, port in places)
    which = "" if all(host in _ANY_HOST for _, host, _ in places) else "other "
    found.unwatched.add(f"the addresses of its {which}brokers, which the file does not have")
    named = dict(re.findall(r"([\w.-]+)\s*:\s*(\w+)", properties.get("listener.security.protocol.map", "")))
    names = [name for name, _, _ in places if name not in others] or [name for name, _, _ in places]
    if names:
        enabled = re.findall(r"[^\s,]+", properties.get("sasl.enabled.mechanisms") or "GSSAPI")
        found.secure(named.get(names[0], names[0]), next((each for each in enabled if each in MECHANISMS), enabled[0]))
    return found


def from_cluster(config: Mapping[str, Any], topics: Iterable[str], nodes: int) -> OriginalCluster:
    """Ask the brokers of a cluster. What the client may not read is in ``not_copied``.

    Raises `DiscoveryError`: no broker answered; `ConfigError`: its release is not known.
    """
    view = discover(config)
    release = next((each for each in reversed(captured_releases()) if evaluate(view, Release(each)).open), None)
    if release is None:
        raise ConfigError("from", "the release of the cluster is not known: give it")
    if reports_no_levels(view) and recipe_for(f"{release}.0").quorum == "kraft":
        raise ConfigError(
            "from",
            f"this cluster of {release} runs with ZooKeeper, which a small cluster does from a release before 3.3 on; "
            "the migration to KRaft (KIP-866) is a hop that is not rehearsed",
        )
    found = OriginalCluster(version=f"{release}.0")
    found.levels = {name: level for name, level in view.finalized.items() if name != KRAFT_VERSION}
    found.reach((broker.host, broker.port) for broker in view.brokers)
    settings = Settings.parse(config, total_timeout=15.0)
    found.reach((address.host, address.port) for address in settings.bootstrap)
    found.secure(settings.protocol, settings.sasl.mechanism if settings.sasl is not None else None)
    try:
        run_blocking(lambda: _read(settings, [*topics], nodes, found))
    except (FeatureGateError, TimeoutError) as error:
        found.not_copied.append(f"settings of its brokers and topics, and its ACLs, which could not be read: {error}")
    return found


async def _read(settings: Settings, topics: list[str], nodes: int, found: OriginalCluster) -> None:
    async with asyncio.timeout(settings.total_timeout):
        deadline = asyncio.get_running_loop().time() + settings.total_timeout
        listed = (await fetch_broker_list(settings, None, deadline)).broker_list
        node = listed.nodes[0]
        wanted = [(BROKER, str(node.node_id)), *((TOPIC, name) for name in topics)]
        resources = tuple(DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in wanted)
        with await connect_to_node(settings, listed, node) as connection:
            for result in (await connection.request(DescribeConfigsRequest(resources=resources))).results:
                check_configs(result)
                topic = result.resource_name if result.resource_type == TOPIC else ""
                own = (_OF_TOPIC,) if topic else _CHANGED
                values = {each.name: each.value for each in result.configs if each.config_source in own and each.value}
                found.copy(values, nodes, topic)
            named = tuple(NamedTopic(name=name) for name in topics)
            for each in (await connection.request(ListTopicsRequest(topics=named))).topics if named else ():
                if each.error_code == NONE:
                    found.partitions[str(each.name)] = len(each.partitions)
                else:
                    found.not_copied.append(f"the partitions of topic {each.name}, which need DESCRIBE on it")
            if found.authorized:
                try:
                    found.take_acls(await connection.request(DescribeAclsRequest()))
                except FeatureGateError as error:
                    found.not_copied.append(f"its ACLs, which need DESCRIBE on the cluster: {error}")
