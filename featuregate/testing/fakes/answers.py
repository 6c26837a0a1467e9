"""The answers of a broker, by the rules of Apache Kafka. Pure: no sockets, no threads.

Sources: ``KafkaApis.handleApiVersionsRequest``, ``ApiVersionsRequest.isValid`` and
``ApiVersionsResponse.filterFeatures`` of Apache Kafka 4.4.0; the answers to invalid requests were observed on real
brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.admin.kraft_rules import CONTROLLERS_REGISTER_FROM
from featuregate.catalog import METADATA_VERSION
from featuregate.kafka_errors import INVALID_REQUEST, NONE, REBOOTSTRAP_REQUIRED, UNSUPPORTED_VERSION
from featuregate.wire.api_versions import IDENTITY_FROM, ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import BROKERS, CONTROLLERS, DescribeClusterRequest, DescribeClusterResponse, Node
from featuregate.wire.configs import (
    BROKER,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from featuregate.wire.frames import RequestHeader, write_response
from featuregate.wire.metadata import MetadataRequest, MetadataResponse
from featuregate.wire.quorum import (
    METADATA_TOPIC,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumOfPartition,
    QuorumOfTopic,
    ReplicaState,
)
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from featuregate.wire.update_features import UpdateFeaturesRequest

if TYPE_CHECKING:
    from featuregate.roles import Role
    from featuregate.testing.fakes.releases import Service
    from featuregate.wire.message import Request, Response

APIS: Final[Mapping[int, type[Request[Any]]]] = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        MetadataRequest,
        DescribeClusterRequest,
        DescribeConfigsRequest,
        DescribeQuorumRequest,
        SaslHandshakeRequest,
        SaslAuthenticateRequest,
        UpdateFeaturesRequest,
    )
}
"""The requests that a fake broker answers, by API key. It may advertise more."""

_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
_DEFAULT_PROTOCOLS: Final = {(4, 2): "classic,consumer,streams", (4, 0): "classic,consumer", (3, 7): "classic"}
"""The default by the first release that has it, the newest first (seen: 3.9.2, 4.2.0, 4.3.1)."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM: Final = 3
_FEATURES_FROM_ZERO_FROM: Final = 4
_MISMATCHED_ENDPOINT_TYPE: Final = 114
NO_CONTROLLER: Final = -1
"""The id of a controller that does not exist."""


def configs_of(release: str) -> Mapping[str, str]:
    """Return the configs of a broker of a release on which presets depend."""
    numbers = tuple(int(part) for part in release.split(".")[:2])
    return next(({_PROTOCOLS: value} for since, value in _DEFAULT_PROTOCOLS.items() if numbers >= since), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What one node reports at one moment."""

    node_id: int
    role: Role
    cluster_id: str
    api_ranges: Mapping[int, tuple[int, int]]
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    """Feature name to level, without features at level 0."""
    epoch: int
    configs: Mapping[str, str]
    """The values of configs that the broker tells."""
    service: Service
    """How it differs from a broker of Apache Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMembers:
    """The nodes of the cluster at one moment, and its passwords."""

    brokers: tuple[Node, ...]
    """All registered brokers, including fenced ones."""
    controllers: tuple[Node, ...] = ()
    passwords: Mapping[str, str] | None = field(default=None, repr=False)
    """User name to password for SASL/PLAIN; ``None`` without authentication."""
    controller_id: int | None = None
    """The active controller, -1 for none; by default brokers report the first node that is not fenced."""

    voters: tuple[int, ...] | None = None
    """The controllers that vote; by default all of them."""

    def controller_among(self, nodes: tuple[Node, ...]) -> int:
        """Return the controller that one of these nodes reports. A KRaft broker reports any live broker."""
        alive = [node.node_id for node in nodes if not node.is_fenced]
        return self.controller_id if self.controller_id in alive else min(alive, default=NO_CONTROLLER)

    @property
    def alive(self) -> tuple[Node, ...]:
        """The brokers that are not fenced."""
        return tuple(replace(node, is_fenced=False) for node in self.brokers if not node.is_fenced)


def write_answer(response: Response, header: RequestHeader) -> bytes:
    """Write the frame of the response to a request. Error 35 has a v0 body, which every client can read."""
    refused = isinstance(response, ApiVersionsResponse) and response.error_code == UNSUPPORTED_VERSION
    return write_response(response, 0 if refused else header.api_version, header.correlation_id)


def fail(request: type[Request[Any]], code: int) -> Response:
    """Return the answer that consists of an error code only."""
    if request is ApiVersionsRequest:
        return ApiVersionsResponse(error_code=code, api_ranges={})
    if request is DescribeConfigsRequest:
        return DescribeConfigsResponse(results=(_no_configs("", code),))
    if request is DescribeClusterRequest:
        return DescribeClusterResponse(error_code=code)
    raise ValueError(f"answers to {request.NAME} have no error code")


def too_new(state: NodeState, version: int) -> ApiVersionsResponse | None:
    """Answer error 35. From 2.4, it contains the broker's versions of ApiVersions (KIP-511).

    ``None`` where the service closes the connection instead.
    """
    closes_above = state.service.closes_above
    if closes_above is not None and version > closes_above:
        return None
    key = ApiVersionsRequest.API_KEY
    known = state.api_ranges.get(key, (0, 0))
    ranges: Mapping[int, tuple[int, int]] = {key: known} if known[1] >= _SOFTWARE_FROM else {}
    if state.service.refuses_with_all_apis:
        ranges = state.api_ranges
    return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_ranges=ranges)


def api_versions(state: NodeState, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
    """Answer ApiVersions of a version that the broker serves."""
    if code := _objection(state, request, version):
        return ApiVersionsResponse(error_code=code, api_ranges={})
    supported = state.supported
    if version < _FEATURES_FROM_ZERO_FROM:
        supported = {name: levels for name, levels in supported.items() if levels[0] > 0}
    return ApiVersionsResponse(
        error_code=NONE,
        api_ranges=state.api_ranges,
        supported=supported,
        epoch=state.epoch,
        finalized={name: (level, level) for name, level in state.finalized.items()},
    )


def _objection(state: NodeState, request: ApiVersionsRequest, version: int) -> int:
    """Return the error code for an invalid request; 0 for a valid one."""
    software = (request.client_software_name, request.client_software_version)
    if version >= _SOFTWARE_FROM and not all(_SOFTWARE.fullmatch(text) for text in software):
        return INVALID_REQUEST
    if version < IDENTITY_FROM or state.role == "controller":
        return NONE  # controllers do not check the expected identity
    expected = (request.cluster_id, request.node_id)
    if expected == (None, -1):
        return NONE
    if request.cluster_id is None or request.node_id == -1:
        return INVALID_REQUEST
    own = (state.cluster_id, state.node_id + state.service.renumbers)
    return NONE if expected == own else REBOOTSTRAP_REQUIRED


def metadata(state: NodeState, members: ClusterMembers) -> MetadataResponse:
    """Answer Metadata. The request only names topics, and there are none."""
    return MetadataResponse(
        brokers=members.alive, cluster_id=state.cluster_id, controller_id=members.controller_among(members.alive)
    )


def describe_configs(state: NodeState, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer DescribeConfigs. A broker knows its own configs only."""
    results = tuple(
        _own_configs(state, each.configuration_keys)
        if (each.resource_type, each.resource_name) == (BROKER, str(state.node_id))
        else _no_configs(each.resource_name, INVALID_REQUEST)
        for each in request.resources
    )
    return DescribeConfigsResponse(results=results)


def _own_configs(state: NodeState, names: tuple[str, ...] | None) -> DescribeConfigsResult:
    found = {name: value for name, value in state.configs.items() if names is None or name in names}
    configs = tuple(ConfigEntry(name=name, value=value, read_only=True) for name, value in found.items())
    return DescribeConfigsResult(resource_type=BROKER, resource_name=str(state.node_id), configs=configs)


def _no_configs(name: str, code: int) -> DescribeConfigsResult:
    return DescribeConfigsResult(error_code=code, resource_type=BROKER, resource_name=name)


def describe_quorum(members: ClusterMembers) -> DescribeQuorumResponse:
    """Answer DescribeQuorum. A broker forwards it, so every node gives the answer of the active controller."""
    listed = tuple(node.node_id for node in members.controllers)
    voters = tuple(ReplicaState(replica_id=one) for one in (listed if members.voters is None else members.voters))
    leader = NO_CONTROLLER if members.controller_id is None else members.controller_id
    partition = QuorumOfPartition(leader_id=leader, current_voters=voters)
    return DescribeQuorumResponse(topics=(QuorumOfTopic(topic_name=METADATA_TOPIC, partitions=(partition,)),))


def describe_cluster(
    state: NodeState, members: ClusterMembers, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answer DescribeCluster, with the brokers or, from ``metadata.version`` 3.7-IV0, with the controllers."""
    endpoint_type = CONTROLLERS if state.role == "controller" else BROKERS
    if request.endpoint_type != endpoint_type:
        return DescribeClusterResponse(error_code=_MISMATCHED_ENDPOINT_TYPE)
    nodes = members.brokers if request.include_fenced_brokers else members.alive
    no_quorum = False
    if endpoint_type == CONTROLLERS:
        if state.finalized.get(METADATA_VERSION, CONTROLLERS_REGISTER_FROM) < CONTROLLERS_REGISTER_FROM:
            refusal = "Direct-to-controller communication is not supported with the current MetadataVersion."
            return DescribeClusterResponse(error_code=UNSUPPORTED_VERSION, error_message=refusal)
        nodes, no_quorum = members.controllers, members.controller_id == NO_CONTROLLER
    if state.service.hides_in_describe_cluster:
        nodes = tuple(replace(node, host=f"kafka-{node.node_id}.internal.invalid", port=9092) for node in nodes)
    return DescribeClusterResponse(
        endpoint_type=endpoint_type,
        cluster_id=state.cluster_id,
        controller_id=NO_CONTROLLER if no_quorum else members.controller_among(nodes),
        brokers=nodes,
    )
