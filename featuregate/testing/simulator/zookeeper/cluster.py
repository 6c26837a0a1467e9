"""A cluster with ZooKeeper (KIP-584) at one moment: brokers advertise, and a controller writes ``/features``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from featuregate.testing.fakes.answers import NodeState
from featuregate.testing.simulator.builds import Build, release_build
from featuregate.testing.simulator.cluster_base import ClusterBase
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.nodes import NodeStatus, SimulatedNode
from featuregate.testing.simulator.values import CodeValue

if TYPE_CHECKING:
    from featuregate.roles import Role


_FEATURE: Final = "group_coordinator"


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


@dataclass(frozen=True, slots=True, repr=False)
class ZooKeeper(CodeValue):
    """A new cluster with ZooKeeper, with all brokers running, and the first broker as the controller.

    No release ever had a feature with ZooKeeper, so the builds are those of KIP-584's own use case, the feature
    ``group_coordinator``. A test can name other builds.
    """

    build: str = "v1"
    """The build of all brokers: ``"v1"``, ``"v1-v2"`` or ``"v2"``, named for the levels of ``group_coordinator`` that
    it supports, ``"old-protocol"`` for an inter-broker protocol before 2.7, a release, or a name in ``builds``."""
    brokers: int = 3
    """The number of brokers. Their ids are 1, 2 and so on."""
    builds: Mapping[str, Build] = field(default_factory=dict)
    """Builds that are not releases of the catalog, by name."""

    def create(self, *, number: int = 1) -> ZooKeeperCluster:
        """Return the new cluster. ``number`` counts the clusters at the same addresses; the cluster id contains it."""
        ids = tuple(range(1, self.brokers + 1))
        build = self.find_build(self.build)
        levels = dict(build.supported) if build.feature_versioning else {}
        return ZooKeeperCluster(
            spec=self,
            number=number,
            nodes={node_id: SimulatedNode(node_id=node_id, build=self.build) for node_id in ids},
            controller_id=ids[0],
            history=(FeaturesNode(0, build.feature_versioning, levels),),
            advertised=dict.fromkeys(ids, levels),
        )

    def find_build(self, name: str) -> Build:
        """Return the build with this name."""
        known = {**_use_case_builds(), **self.builds}
        try:
            return known.get(name) or release_build(name)
        except ValueError as error:
            raise ScriptError(str(error)) from error

    @property
    def default_builds(self) -> tuple[str, ...]:
        """The builds that random scripts roll brokers to; 2.4 knows no features."""
        return (*_use_case_builds(), "2.4", *self.builds)

    @property
    def default_levels(self) -> Mapping[str, tuple[int, ...]]:
        """The levels that operators request in random scripts."""
        return {_FEATURE: (0, 1, 2, 3), "nonsense": (0, 1)}


def _use_case_builds() -> dict[str, Build]:
    """Create the builds of the KIP's use case from a release that speaks its messages."""
    base = release_build("2.8")
    return {
        "old-protocol": replace(base, feature_versioning=False, supported={_FEATURE: (1, 1)}),
        "v1": replace(base, supported={_FEATURE: (1, 1)}),
        "v1-v2": replace(base, supported={_FEATURE: (1, 2)}),
        "v2": replace(base, supported={_FEATURE: (2, 2)}),
    }
