"""Ask a cluster with KRaft for the voters of its metadata log (DescribeQuorum). It needs DESCRIBE on the cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.admin.registrations import Quorum
from featuregate.errors import BrokerError, FeatureGateError, UnsupportedVersion
from featuregate.kafka_errors import NONE, UNKNOWN_SERVER_ERROR, broker_error, check_error
from featuregate.net.cluster_metadata import BrokerList, connect_to_node, fetch_broker_list
from featuregate.wire.cluster import BROKERS, CONTROLLERS, NOT_ASKED, DescribeClusterRequest, Node
from featuregate.wire.quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.net.connection import Connection

_NODES: Final = 3
"""Nodes that are asked, one after the other, until one knows."""
_ALTER: Final = 7
"""``AclOperation.ALTER``, a bit of the authorized operations (KIP-430)."""


async def fetch_quorum(settings: Settings) -> Quorum | None:
    """Ask up to three nodes for the voters. None: the cluster runs without KRaft, or before 3.3, or is not asked.

    Brokers of a bootstrap list get ApiVersions alone. A failure is in the result: a plan goes on without the voters.
    """
    if settings.broker_list == "bootstrap":
        return None
    deadline = asyncio.get_running_loop().time() + settings.total_timeout
    try:
        async with asyncio.timeout_at(deadline):
            return await _fetch(settings, deadline)
    except UnsupportedVersion:
        return None
    except TimeoutError:
        return Quorum(voters=None, problem=f"the {settings.total_timeout:g} s in total have passed")
    except FeatureGateError as error:
        return Quorum(voters=None, problem=str(error))


async def _fetch(settings: Settings, deadline: float) -> Quorum:
    broker_list = (await fetch_broker_list(settings, None, deadline)).broker_list
    nodes = sorted(broker_list.nodes, key=lambda node: (node.node_id != broker_list.controller_id, node.is_fenced))
    found = Quorum(voters=None, problem="the list of nodes is empty")
    for node in nodes[:_NODES]:
        try:
            found = await _ask(settings, broker_list, node)
        except UnsupportedVersion:
            raise
        except FeatureGateError as error:
            found = Quorum(voters=None, problem=str(error))
        if not found.problem:
            break
    return found


async def _ask(settings: Settings, broker_list: BrokerList, node: Node) -> Quorum:
    with await connect_to_node(settings, broker_list, node) as connection:
        response = await connection.request(DescribeQuorumRequest())
        may_alter = await _may_alter(connection, settings)
    try:
        return replace(_quorum(response), may_alter=may_alter)
    except BrokerError as error:
        return Quorum(voters=None, problem=str(error), may_alter=may_alter)


async def _may_alter(connection: Connection, settings: Settings) -> bool:
    """Return whether the user has ALTER on the cluster; True where the node does not say it.

    A user without DESCRIBE, which ALTER implies, has no operation (``KafkaApis.handleDescribeCluster``).
    """
    kind = BROKERS if settings.role == "broker" else CONTROLLERS
    try:
        said = await connection.request(
            DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=kind)
        )
    except FeatureGateError:
        return True
    operations = said.cluster_authorized_operations
    return said.error_code != NONE or operations == NOT_ASKED or bool(operations >> _ALTER & 1)


def _quorum(response: DescribeQuorumResponse) -> Quorum:
    check_error(response)
    for topic in response.topics:
        for partition in topic.partitions:
            check_error(partition)
            return Quorum(
                voters=frozenset(voter.replica_id for voter in partition.current_voters),
                addresses=tuple(
                    f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
                    for node in response.nodes
                    for one in node.listeners[:1]
                ),
            )
    raise broker_error(UNKNOWN_SERVER_ERROR, "the response names no quorum")
