"""What simulated clusters with KRaft and with ZooKeeper have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

from featuregate.testing.simulator import events

if TYPE_CHECKING:
    from featuregate.testing.simulator.builds import Build
    from featuregate.testing.simulator.nodes import NodeStatus, SimulatedNode

_STATUS_CHANGES: Final[Mapping[type[events.ClusterEvent], tuple[str, NodeStatus]]] = {
    events.Pause: ("running", "paused"),
    events.Resume: ("paused", "running"),
}


class Spec(Protocol):
    """The specification of a cluster, as the cluster needs it."""

    @property
    def build(self) -> str:
        """The name of the build that all nodes ran at first."""
        ...

    def create(self, *, number: int = 1) -> Any:
        """Return the new cluster. ``number`` counts the clusters at the same addresses."""
        ...

    def find_build(self, name: str) -> Build:
        """Return the build with this name."""
        ...


@dataclass(frozen=True, kw_only=True)
class ClusterBase:
    """A cluster at one moment. A value: an event does not change it, but gives another cluster."""

    LAGS_WHILE: ClassVar[tuple[NodeStatus, ...]] = ("running", "paused")
    """The statuses in which a node can begin or cease to lag."""

    spec: Spec
    number: int
    nodes: Mapping[int, SimulatedNode]
    partition: frozenset[int] = frozenset()
    """With KRaft, the nodes on one side of a partition; with ZooKeeper, the brokers that do not reach ZooKeeper."""
    ticks: int = 0

    @property
    def cluster_id(self) -> str:
        """The cluster id: 22 characters, as in Kafka."""
        return f"simulated-cluster-{self.number:04}"

    def node(self, node_id: int) -> SimulatedNode:
        """Return a node; raise ScriptError where the cluster has no node with this id."""
        if node_id not in self.nodes:
            raise events.ScriptError(f"there is no node {node_id}, only {sorted(self.nodes)}")
        return self.nodes[node_id]

    def build(self, node_id: int) -> Build:
        """Return the build that a node runs."""
        return self.spec.find_build(self.nodes[node_id].build)

    def with_nodes(self, *nodes: SimulatedNode) -> Self:
        """Return the cluster with these nodes in the place of those with the same ids."""
        return replace(self, nodes={**self.nodes, **{node.node_id: node for node in nodes}}) if nodes else self

    def without_node(self, node_id: int) -> Self:
        """Return the cluster without a node."""
        return replace(self, nodes={other: node for other, node in self.nodes.items() if other != node_id})

    def check_new(self, node_id: int, build: str) -> None:
        """Raise ScriptError where a broker with this id cannot join, or the build does not exist."""
        if node_id in self.nodes:
            raise events.ScriptError(f"there is a node {node_id} already")
        self.spec.find_build(build)

    def advance(self, ticks: int) -> Self:
        """Return the cluster after some ticks in which nothing else happened."""
        if ticks < 0:
            raise events.ScriptError(f"time does not go back: {ticks} ticks")
        return replace(self, ticks=self.ticks + ticks)

    def apply_common(self, event: events.ClusterEvent) -> Self:
        """Apply an event that clusters of both kinds treat alike; raise ScriptError for any other."""
        match event:
            case events.Partition(node_ids):
                return replace(self, partition=frozenset(self.node(node_id).node_id for node_id in node_ids))
            case events.Heal():
                return replace(self, partition=frozenset())
            case events.Rebuild() | events.Restore():
                created: Self = self.spec.create(number=self.number + isinstance(event, events.Rebuild))
                return created
            case events.Pause(node_id) | events.Resume(node_id):
                before, after = _STATUS_CHANGES[type(event)]
                node = self.node(node_id)
                return self.with_nodes(replace(node, status=after)) if node.status == before else self
            case events.Lag(node_id) | events.CatchUp(node_id):
                node = self.node(node_id)
                lagging = isinstance(event, events.Lag)
                return self.with_nodes(replace(node, lagging=lagging)) if node.status in self.LAGS_WHILE else self
            case _:
                raise events.ScriptError(f"{event!r} cannot happen to a {type(self).__name__}")
