"""What a fake broker needs of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import threading

    from featuregate.roles import Role
    from featuregate.testing.fakes.answers import ClusterMembers, NodeState
    from featuregate.testing.fakes.listener import LoopThread
    from featuregate.testing.fakes.session import Controller


class ReceivedRequest(NamedTuple):
    """One request that a fake broker received."""

    broker: int
    """The node id of the broker."""
    api: str
    """Kafka's name, such as ``ApiVersions``; ``API 999`` for an API that fake brokers do not know, ``SaslToken`` for a
    token without a header."""
    version: int
    """-1 for a token without a header."""
    client_id: str | None


class NodeOwner(Protocol):
    """The cluster of a broker, as the broker needs it. A :class:`FakeCluster` is one."""

    changed: threading.Condition
    """Guards the state of the cluster and of its brokers."""

    finalized: Mapping[str, int]
    """The finalized levels."""
    epoch: int
    """The epoch of the finalized levels."""

    @property
    def loop(self) -> LoopThread:
        """The thread of the listeners."""

    def members(self) -> ClusterMembers:
        """Return the nodes of the cluster."""

    def controller(self, node_id: int, role: Role) -> Controller | None:
        """Return what answers UpdateFeatures at this node's listener; ``None``: nothing."""

    def seen_by_clients(self, state: NodeState) -> NodeState:
        """Return what a node reports while this controller is active."""

    def elect_again(self) -> None:
        """Elect a controller, now that a node has started or stopped; it answers the updates that wait for one."""

    def log(self, request: ReceivedRequest) -> None:
        """Log a request, and wake threads that wait for one."""
