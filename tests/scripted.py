"""A cluster on the loopback interface whose answers to what changes it the test decides, request by request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

from featuregate.testing.fakes.listener import HOST, Listener, LoopThread, Transmission
from featuregate.testing.fakes.releases import release_facts
from featuregate.testing.fakes.session import ServerSession
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import (
    BROKERS,
    CONTROLLERS,
    NOT_ASKED,
    DescribeClusterRequest,
    DescribeClusterResponse,
    Node,
)
from featuregate.wire.configs import (
    BROKER_LOGGER,
    ConfigEntry,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
)
from featuregate.wire.frames import read_request_header, write_response
from featuregate.wire.in_use import ListGroupsRequest, ListTransactionsRequest
from featuregate.wire.metadata import ListedTopic, ListTopicsRequest, ListTopicsResponse
from featuregate.wire.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumOfPartition,
    QuorumOfTopic,
    ReplicaState,
)
from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse, UpgradeType

APIS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        DescribeClusterRequest,
        UpdateFeaturesRequest,
        DescribeConfigsRequest,
        IncrementalAlterConfigsRequest,
        DescribeQuorumRequest,
        ListGroupsRequest,
        ListTransactionsRequest,
        ListTopicsRequest,
    )
}
UPDATE_FEATURES = UpdateFeaturesRequest.API_KEY
MISMATCHED_ENDPOINT_TYPE = 114
HANG_UP = "hang up"
SILENCE = "silence"


class ReceivedUpdate(NamedTuple):
    node_id: int
    version: int
    request: UpdateFeaturesRequest


class ScriptedNode:
    """One node. A test can change what it reports at any time."""

    def __init__(self, cluster: ScriptedCluster, node_id: int, role: str) -> None:
        facts = release_facts(cluster.release)
        self.node_id = node_id
        self.role = role
        self.api_ranges = dict(facts.ranges(role))  # type: ignore[arg-type]  # broker or controller
        self.supported = dict(facts.supported)
        self.finalized = dict(facts.finalized)
        self.epoch = facts.epoch
        self.cluster = cluster
        self.listener = Listener(self, None)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.listener.port}"

    def receive(self, _: ServerSession, payload: bytes) -> Transmission | None:
        header, body = read_request_header(payload, APIS)
        request = APIS[header.api_key].decode(min(header.api_version, APIS[header.api_key].VERSIONS[1]), body)
        version, answer = header.api_version, self._answer(request, header.api_version)
        if answer == SILENCE:
            return None
        if answer == HANG_UP:
            return Transmission(b"", close=True)
        if isinstance(answer, ApiVersionsResponse) and answer.error_code:
            version = 0
        return Transmission(write_response(answer, version, header.correlation_id))

    def _answer(self, request: Any, version: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            known = self.api_ranges[ApiVersionsRequest.API_KEY]
            if version > known[1]:
                return ApiVersionsResponse(error_code=35, api_ranges={ApiVersionsRequest.API_KEY: known})
            finalized = {name: (level, level) for name, level in self.finalized.items() if level > 0}
            return ApiVersionsResponse(
                error_code=0,
                api_ranges=self.api_ranges,
                supported=self.supported,
                epoch=self.epoch,
                finalized=finalized,
            )
        if isinstance(request, DescribeClusterRequest):
            described = self.cluster.describe(self.role, request.endpoint_type)
            return replace(described, cluster_authorized_operations=self.cluster.authorized_operations)
        if isinstance(request, DescribeQuorumRequest):
            return self.cluster.tells_quorum(self)
        if (told := self.cluster.tells(request, self)) is not None:
            return told
        self.cluster.received.append(ReceivedUpdate(self.node_id, version, request))
        return self.cluster.says(request, self)


class ScriptedCluster:
    """Nodes that report a release at first. ``says`` answers UpdateFeatures; by default it accepts and applies."""

    def __init__(self, nodes: int = 1, *, release: str = "4.2", role: str = "broker") -> None:
        self.release, self.role = release, role
        self.cluster_id = "scripted"
        self.controller_id = 1
        self.fenced: set[int] = set()
        self.received: list[ReceivedUpdate] = []
        self.says: Callable[[UpdateFeaturesRequest, ScriptedNode], Any] = self.agree
        self.authorized_operations = NOT_ASKED
        self.tells_quorum: Callable[[ScriptedNode], Any] = lambda _: HANG_UP
        self.lists: Callable[[Any, ScriptedNode], Any] = lambda *_: HANG_UP
        """Answers ListGroups and ListTransactions."""
        self.in_sync: dict[str, list[tuple[str, int]] | int] = {}
        """``min.insync.replicas`` of a node id or a topic, with its sources, or an error code."""
        self.topics: tuple[str, ...] = ()
        self.nodes = {node_id: ScriptedNode(self, node_id, role) for node_id in range(1, nodes + 1)}
        self._loop = LoopThread("scripted-cluster")

    def __enter__(self) -> Self:
        for node in self.nodes.values():
            self._loop.run(node.listener.open())
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            self._loop.run(node.listener.release())
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def speak(self, lowest: int, highest: int) -> None:
        for node in self.nodes.values():
            node.api_ranges[UPDATE_FEATURES] = (lowest, highest)

    def apply(self, levels: Mapping[str, int]) -> None:
        for node in self.nodes.values():
            node.finalized |= levels
            node.epoch += 1

    def refuse_clients(self) -> None:
        for node in self.nodes.values():
            node.api_ranges[ApiVersionsRequest.API_KEY] = (0, -1)

    def lose(self, *_: object) -> str:
        self.refuse_clients()
        return HANG_UP

    def agree(self, request: UpdateFeaturesRequest, _: ScriptedNode) -> UpdateFeaturesResponse:
        if not request.validate_only:
            self.apply({update.feature: update.max_version_level for update in request.updates})
        return UpdateFeaturesResponse()

    def newly_received(self) -> list[str]:
        """Return a line for each update since the last look; what was only asked says so."""
        received, self.received = self.received, []
        return [
            "asked: " * each.request.validate_only
            + ", ".join(
                f"{update.feature}={update.max_version_level} {UpgradeType(update.upgrade_type).name}"
                for update in each.request.updates
            )
            for each in received
        ]

    def tells(self, request: Any, node: ScriptedNode) -> Any:
        """Answer a request for groups, transactions or topics, or for configs of brokers and topics."""
        if isinstance(request, ListGroupsRequest | ListTransactionsRequest):
            return self.lists(request, node)
        if isinstance(request, ListTopicsRequest):
            return ListTopicsResponse(topics=tuple(ListedTopic(name=name) for name in self.topics))
        if isinstance(request, DescribeConfigsRequest) and request.resources[0].resource_type != BROKER_LOGGER:
            return DescribeConfigsResponse(results=tuple(map(self.config_of, request.resources)))
        return None

    def config_of(self, resource: Any) -> DescribeConfigsResult:
        found = self.in_sync.get(resource.resource_name, [])
        which = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        if isinstance(found, int):
            return DescribeConfigsResult(error_code=found, **which)
        name = "min.insync.replicas"
        synonyms = tuple(ConfigSynonym(name=name, value=value, source=source) for value, source in found)
        entries = (ConfigEntry(name=name, value=found[0][0], synonyms=synonyms),) if found else ()
        return DescribeConfigsResult(configs=entries, **which)

    def vote(self, *voters: int) -> None:
        states = tuple(ReplicaState(replica_id=voter) for voter in voters)
        topic = QuorumOfTopic(topic_name="__cluster_metadata", partitions=(QuorumOfPartition(current_voters=states),))
        self.tells_quorum = lambda _: DescribeQuorumResponse(topics=(topic,))

    def shut(self, node_id: int) -> None:
        self._loop.run(self.nodes[node_id].listener.shut())

    def open(self, node_id: int) -> None:
        self._loop.run(self.nodes[node_id].listener.open())

    def describe(self, role: str, wanted: int) -> DescribeClusterResponse:
        own = BROKERS if role == "broker" else CONTROLLERS
        if wanted != own:
            return DescribeClusterResponse(error_code=MISMATCHED_ENDPOINT_TYPE)
        nodes = [
            Node(node_id=one.node_id, host=HOST, port=one.listener.port, is_fenced=one.node_id in self.fenced)
            for one in self.nodes.values()
        ]
        return DescribeClusterResponse(
            endpoint_type=own,
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            brokers=tuple(nodes),
        )
