"""A cluster with ZooKeeper (KIP-584) at one moment: brokers advertise, and a controller writes ``/features``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from featuregate.testing.fakes.answers import NodeState
from featuregate.testing.simulator.cluster_base import ClusterBase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.roles import Role
    from featuregate.testing.simulator.nodes import NodeStatus, SimulatedNode


class FeaturesNode(NamedTuple):
    """The content of the ``/features`` node."""

    version: int
    """The version of the node. Every write raises it. Brokers report it as the epoch."""
    enabled: bool
    """The status of the node. While it is disabled, brokers ignore its content."""
    levels: Mapping[str, tuple[int, int]]
    """Feature name to ``min_version_level`` and ``max_version_level``."""


@dataclass(frozen=True, kw_only=True)
class ZooKeeperCluster(ClusterBase):
    """A cluster with ZooKeeper at one moment. A value: an event does not change it, but gives another cluster."""

    LAGS_WHILE: ClassVar[tuple[NodeStatus, ...]] = ("running", "paused", "starting")

    controller_id: int | None
    """The broker that is the controller; ``None`` while no broker runs."""
    history: tuple[FeaturesNode, ...]
    """All contents of ``/features``, the current one last."""
    advertised: Mapping[int, Mapping[str, tuple[int, int]]]
    """For each broker in ZooKeeper, the levels that it supports: its ``BrokerIdZnode``."""
    held: bool = False
    """Whether registrations of brokers queue up at the controller."""
    queued: tuple[int, ...] = ()
    """The brokers whose registration the controller has not processed."""
    ignored: frozenset[int] = frozenset()
    """The brokers whose registration the controller skipped, because they do not support the finalized levels."""

    @property
    def features(self) -> FeaturesNode:
        """The current content of ``/features``."""
        return self.history[-1]

    @property
    def levels(self) -> Mapping[str, int]:
        """The finalized levels: feature to the highest level."""
        return {name: highest for name, (_, highest) in self.features.levels.items()}

    @property
    def listed_brokers(self) -> Mapping[int, bool]:
        """The brokers that the controller announces: node id to ``False``, since brokers are not fenced here."""
        return {
            node_id: False
            for node_id in sorted(self.advertised)
            if node_id not in self.queued and node_id not in self.ignored
        }

    def cached(self, node: SimulatedNode) -> FeaturesNode | None:
        """Return what a broker has read of ``/features``; ``None`` without feature versioning, or if it is disabled."""
        if not self.build(node.node_id).feature_versioning:
            return None
        read = self.features if node.read_up_to is None else self.history[node.read_up_to]
        return read if read.enabled else None

    def cached_levels(self, node_id: int) -> Mapping[str, tuple[int, int]]:
        """Return the levels that a broker has read of ``/features``."""
        read = self.cached(self.node(node_id))
        return read.levels if read is not None else {}

    def node_state(self, node_id: int, role: Role = "broker") -> NodeState:  # noqa: ARG002 - there are only brokers
        """Return what a broker reports now."""
        node, build = self.node(node_id), self.build(node_id)
        read = self.cached(node)
        levels = self.cached_levels(node_id)
        return NodeState(
            node_id=node_id,
            cluster_id=self.cluster_id,
            api_ranges=build.broker_apis,
            supported=build.supported if build.feature_versioning else {},
            finalized={name: highest for name, (_, highest) in levels.items()},
            lowest={name: lowest for name, (lowest, _) in levels.items()},
            epoch=-1 if read is None else read.version,
        )


def first_unsupported(supported: Mapping[str, tuple[int, int]], levels: Mapping[str, tuple[int, int]]) -> str | None:
    """Return the first feature whose finalized level a broker does not support; ``None`` if it supports all.

    The highest finalized level counts, as in the KIP ("Validations"): a build that deprecates an older level must be
    able to start.
    """
    for name, (_, level) in levels.items():
        lowest, highest = supported.get(name, (0, -1))
        if not lowest <= level <= highest:
            return name
    return None
