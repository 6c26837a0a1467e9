"""The voters of the metadata log: which nodes are asked for them, and what an answer has to say."""

import asyncio
from typing import Any

import pytest
from scripted import HANG_UP, SILENCE, ScriptedCluster, ScriptedNode

from featuregate.admin.quorum import fetch_quorum
from featuregate.admin.registrations import Quorum
from featuregate.config import Settings
from featuregate.wire.quorum import (
    ControllerListener,
    ControllerNode,
    DescribeQuorumResponse,
    QuorumOfPartition,
    QuorumOfTopic,
    ReplicaState,
)


def quorum_of(cluster: ScriptedCluster, seconds: float = 20) -> Quorum | None:
    where = cluster.bootstrap if cluster.role == "broker" else {"bootstrap.controllers": cluster.bootstrap}
    return asyncio.run(fetch_quorum(Settings.parse(where, total_timeout=seconds)))


def response(nodes: tuple[ControllerNode, ...] = (), **partition: Any) -> DescribeQuorumResponse:
    topic = QuorumOfTopic(topic_name="__cluster_metadata", partitions=(QuorumOfPartition(**partition),))
    return DescribeQuorumResponse(topics=(topic,), nodes=nodes)


def test_voters_and_their_first_addresses_are_told() -> None:
    """A voter may have no listener, or several."""
    listeners = [ControllerListener(name="C", host=host, port=9093) for host in ("c1", "c2", "::1")]
    nodes = (
        ControllerNode(node_id=1, listeners=tuple(listeners[:2])),
        ControllerNode(node_id=2),
        ControllerNode(node_id=3, listeners=tuple(listeners[2:])),
    )
    voters = tuple(ReplicaState(replica_id=node_id) for node_id in (1, 2, 3))
    with ScriptedCluster(1) as cluster:
        cluster.tells_quorum = lambda _: response(nodes, current_voters=voters)
        assert quorum_of(cluster) == Quorum(voters=frozenset({1, 2, 3}), addresses=("c1:9093", "[::1]:9093"))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (DescribeQuorumResponse(error_code=31), "CLUSTER_AUTHORIZATION_FAILED (error 31)"),
        (DescribeQuorumResponse(error_code=31, error_message="n\x1bo"), "CLUSTER_AUTHORIZATION_FAILED (error 31): n?o"),
        (response(error_code=41, error_message="not me"), "NOT_CONTROLLER (error 41): not me"),
        (DescribeQuorumResponse(), "UNKNOWN_SERVER_ERROR (error -1): the response names no quorum"),
    ],
)
def test_an_answer_without_voters_says_why(answer: DescribeQuorumResponse, problem: str) -> None:
    with ScriptedCluster(1) as cluster:
        cluster.tells_quorum = lambda _: answer
        assert quorum_of(cluster) == Quorum(voters=None, problem=problem)


@pytest.mark.parametrize(("operations", "may"), [(1 << 7 | 1 << 8, True), (1 << 8, False), (0, False)])
@pytest.mark.parametrize("role", ["broker", "controller"])
def test_the_rights_of_the_user_are_told(role: str, operations: int, *, may: bool) -> None:
    """KIP-430: without DESCRIBE on the cluster, which ALTER implies, a broker lists no operation."""
    with ScriptedCluster(1, role=role) as cluster:
        cluster.authorized_operations = operations
        cluster.tells_quorum = lambda _: response()
        found = quorum_of(cluster)
    assert found == Quorum(voters=frozenset(), may_alter=may)


def test_at_most_three_nodes_are_asked_the_controller_first() -> None:
    """And fenced ones last; the problem is that of the last node."""
    asked: list[int] = []

    def fail(node: ScriptedNode) -> Any:
        asked.append(node.node_id)
        return DescribeQuorumResponse(error_code=-1, error_message=f"node {node.node_id}")

    with ScriptedCluster(5) as cluster:
        cluster.controller_id, cluster.fenced = 4, {1, 4}
        cluster.tells_quorum = fail
        found = quorum_of(cluster)
    assert asked == [4, 2, 3]
    assert found == Quorum(voters=None, problem="UNKNOWN_SERVER_ERROR (error -1): node 3")


def test_listed_brokers_are_not_asked() -> None:
    """The bootstrap list is for clients that may send no more than ApiVersions."""
    with ScriptedCluster(1) as cluster:
        cluster.tells_quorum = lambda _: response()
        assert asyncio.run(fetch_quorum(Settings.parse(cluster.bootstrap, broker_list="bootstrap"))) is None


def test_the_next_node_is_asked_where_one_fails() -> None:
    """The first may be shutting down."""
    with ScriptedCluster(2) as cluster:
        cluster.tells_quorum = lambda node: response() if node.node_id == 2 else HANG_UP
        assert quorum_of(cluster) == Quorum(voters=frozenset())
        del cluster.nodes[1].api_ranges[55]
        assert quorum_of(cluster) is None


def test_nodes_that_are_silent_cost_the_total_timeout() -> None:
    """A plan goes on without the voters then."""
    with ScriptedCluster(1) as cluster:
        cluster.tells_quorum = lambda _: SILENCE
        assert quorum_of(cluster, 0.5) == Quorum(voters=None, problem="the 0.5 s in total have passed")
