"""The generation of ZooKeeper (KIP-584): brokers advertise, and a controller writes levels to the ``/features`` node.

No release ever shipped a feature in this mode, so the builds here are those of the KIP's own use case, the feature
``group_coordinator``; a test names others. What can happen stands in ``transitions``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.testing.fakes.answers import Tells
from featuregate.testing.simulator.builds import Binary, binary_of
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.nodes import Node
from featuregate.testing.simulator.requirements import Wants
from featuregate.testing.simulator.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.roles import Role

__all__ = ["FeaturesNode", "ZooKeeper", "ZooKeeperCluster", "compatible"]

FEATURE: Final = "group_coordinator"


class FeaturesNode(NamedTuple):
    """The content of the ``/features`` node."""

    version: int
    """Of the node: it rises with every write, and is the epoch that clients are told."""
    enabled: bool
    """Its status. Disabled, its content means nothing."""
    levels: Mapping[str, tuple[int, int]]
    """Feature name to ``min_version_level`` and ``max_version_level``."""


@dataclass(frozen=True, slots=True, repr=False)
class ZooKeeper(Value):
    """How a cluster with ZooKeeper begins: new, with every broker up, and the first one as the controller."""

    binary: str = "v1"
    """What all brokers run: ``"v1"``, ``"v1-v2"`` or ``"v2"`` after the levels of ``group_coordinator`` that it
    supports, ``"old-protocol"`` for an inter-broker protocol older than 2.7, a release, or a name in ``binaries``."""
    brokers: int = 3
    """Their ids are 1, 2 and so on."""
    binaries: Mapping[str, Binary] = field(default_factory=dict)

    def begin(self, *, number: int = 1) -> ZooKeeperCluster:
        """Make the cluster; ``number`` counts the clusters at these addresses, and makes the cluster id."""
        ids = tuple(range(1, self.brokers + 1))
        binary = self.find(self.binary)
        levels = dict(binary.supported) if binary.feature_versioning else {}
        return ZooKeeperCluster(
            plan=self,
            number=number,
            nodes={node_id: Node(node_id=node_id, binary=self.binary) for node_id in ids},
            controller_id=ids[0],
            history=(FeaturesNode(0, binary.feature_versioning, levels),),
            advertised=dict.fromkeys(ids, binary.supported if binary.feature_versioning else {}),
        )

    def find(self, name: str) -> Binary:
        """Look a binary up."""
        known = {**_builds(), **self.binaries}
        try:
            return known.get(name) or binary_of(name)
        except ValueError as error:
            raise ScriptError(str(error)) from error

    @property
    def wants(self) -> Wants:
        """What apps want of such a cluster: the KIP's own example."""
        return Wants("TxnOffsetCommit", 3, FEATURE, 2)

    @property
    def usual_binaries(self) -> tuple[str, ...]:
        """What made-up scripts roll brokers to; 2.4 knows no features at all."""
        return (*_builds(), "2.4", *self.binaries)

    @property
    def usual_levels(self) -> Mapping[str, tuple[int, ...]]:
        """What operators ask for in made-up scripts."""
        return {FEATURE: (0, 1, 2, 3), "nonsense": (0, 1)}


@dataclass(frozen=True, kw_only=True)
class ZooKeeperCluster:
    """A cluster with ZooKeeper at one moment. Everything in it is a value; whatever happens makes another one."""

    plan: ZooKeeper
    number: int
    nodes: Mapping[int, Node]
    controller_id: int | None
    """The broker that is the controller; ``None`` while none is up."""
    history: tuple[FeaturesNode, ...]
    """All contents that ``/features`` has had; the last one is its content now."""
    advertised: Mapping[int, Mapping[str, tuple[int, int]]]
    """The brokers that ZooKeeper lists, to what each says that it supports: its ``BrokerIdZnode``."""
    held: bool = False
    """Whether news of brokers queue up at the controller."""
    queued: tuple[int, ...] = ()
    """The brokers of which the controller has not heard yet."""
    ignored: frozenset[int] = frozenset()
    """The brokers whose registration it skipped, because they do not support what is finalized."""
    cut_off: frozenset[int] = frozenset()
    """The brokers that do not reach ZooKeeper."""
    ticks: int = 0

    @property
    def cluster_id(self) -> str:
        """22 characters, as Kafka's are."""
        return f"simulated-cluster-{self.number:04}"

    @property
    def features(self) -> FeaturesNode:
        """The ``/features`` node as it is now."""
        return self.history[-1]

    @property
    def levels(self) -> Mapping[str, int]:
        """What is finalized now: feature to the highest level."""
        return {name: highest for name, (_, highest) in self.features.levels.items()}

    @property
    def known(self) -> Mapping[int, bool]:
        """The brokers that the controller tells others of; nobody is fenced in this generation."""
        return {
            node_id: False
            for node_id in sorted(self.advertised)
            if node_id not in self.queued and node_id not in self.ignored
        }

    def node(self, node_id: int) -> Node:
        """Return a node; ScriptError where there is none."""
        if node_id not in self.nodes:
            raise ScriptError(f"there is no node {node_id}, only {sorted(self.nodes)}")
        return self.nodes[node_id]

    def binary(self, node_id: int) -> Binary:
        """Return what a node runs."""
        return self.plan.find(self.nodes[node_id].binary)

    def cached(self, node: Node) -> FeaturesNode | None:
        """Return what a broker has read of ``/features``; ``None`` where nothing, or where it is disabled."""
        if not self.binary(node.node_id).feature_versioning:
            return None
        read = self.features if node.heard is None else self.history[node.heard]
        return read if read.enabled else None

    def tells(self, node_id: int, role: Role = "broker") -> Tells:  # noqa: ARG002 - there are only brokers
        """Say what a broker tells now."""
        node, binary = self.node(node_id), self.binary(node_id)
        read = self.cached(node)
        levels = read.levels if read is not None else {}
        return Tells(
            node_id=node_id,
            cluster_id=self.cluster_id,
            api_ranges=binary.broker_apis,
            supported=binary.supported if binary.feature_versioning else {},
            finalized={name: highest for name, (_, highest) in levels.items()},
            lowest={name: lowest for name, (lowest, _) in levels.items()},
            epoch=-1 if read is None else read.version,
        )


def compatible(supported: Mapping[str, tuple[int, int]], levels: Mapping[str, tuple[int, int]]) -> str | None:
    """Return the first feature whose finalized level a broker does not support; ``None`` where it supports all.

    What counts is the highest finalized level, as the KIP has it ("Validations"): a build that deprecates an older
    level must be able to start.
    """
    for name, (_, level) in levels.items():
        lowest, highest = supported.get(name, (0, -1))
        if not lowest <= level <= highest:
            return name
    return None


def _builds() -> dict[str, Binary]:
    """Make the builds of the KIP's use case, out of a release that spoke its messages."""
    base = binary_of("2.8")
    return {
        "old-protocol": replace(base, feature_versioning=False, supported={FEATURE: (1, 1)}),
        "v1": replace(base, supported={FEATURE: (1, 1)}),
        "v1-v2": replace(base, supported={FEATURE: (1, 2)}),
        "v2": replace(base, supported={FEATURE: (2, 2)}),
    }
