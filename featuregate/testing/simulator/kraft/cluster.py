"""A cluster with KRaft (KIP-778) at one moment: a quorum of controllers keeps the levels in its metadata log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.kraft_rules import ALL_OR_NOTHING_FROM, CONTROLLERS_REGISTER_FROM
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, release_levels
from featuregate.testing.fakes.answers import NodeState
from featuregate.testing.simulator.builds import Build, release_build
from featuregate.testing.simulator.cluster_base import ClusterBase
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.nodes import SimulatedNode
from featuregate.testing.simulator.values import CodeValue

if TYPE_CHECKING:
    from featuregate.roles import Role

FIRST_CONTROLLER: Final = 3000
_DEFAULT_BUILDS: Final = ("3.9", "4.2", "4.3")
_DEFAULT_LEVELS: Final = {
    METADATA_VERSION: (17, 20, 21, 25, 29, 30),
    "group.version": (0, 1, 2),
    "transaction.version": (0, 2),
    KRAFT_VERSION: (0, 1),
    "nonsense.version": (0, 1),
}
_UNLOADED_REPORTS_NO_LEVELS_FROM: Final = (4, 4)
_NOT_SERVED: Final = (0, -1)
_FORWARDED: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81}
)  # the APIs that ApiKeys.java of Apache Kafka 3.9 marks as forwardable, by key


class LevelsChange(NamedTuple):
    """One change of the finalized levels."""

    offset: int
    """The offset of its record in the metadata log."""
    levels: Mapping[str, int]
    """All levels above 0 after the change; ``kraft.version`` only where an old controller wrote a record for it."""


@dataclass(frozen=True, kw_only=True)
class KRaftCluster(ClusterBase):
    """A cluster with KRaft at one moment. A value: an event does not change it, but gives another cluster."""

    voters: tuple[int, ...]
    active: int | None
    """The active controller; ``None`` without a quorum."""
    offset: int
    """The offset of the last record in the metadata log."""
    history: tuple[LevelsChange, ...]
    registered: Mapping[int, Mapping[str, tuple[int, int]]]
    """For each registered broker, the levels that it supported when it last registered."""
    controllers: Mapping[int, Mapping[str, tuple[int, int]]]
    """The same for controllers, which register from ``metadata.version`` 3.7-IV0."""
    kraft_version: int = 0

    @property
    def levels(self) -> Mapping[str, int]:
        """The finalized levels above 0, as nodes report them."""
        return self._levels_at(self.offset).levels

    @property
    def controller_id(self) -> int | None:
        """The active controller."""
        return self.active

    @property
    def connected_voters(self) -> Mapping[int, Mapping[str, tuple[int, int]]]:
        """For each other voter that the active controller has a connection to, the levels that it supports."""
        others = (voter for voter in self.voters if voter != self.active)
        return {voter: self.build(voter).supported for voter in others if self.reaches_controller(self.nodes[voter])}

    @property
    def listed_brokers(self) -> Mapping[int, bool]:
        """The registered brokers: node id to whether the broker is fenced."""
        return {node_id: self.nodes[node_id].fenced for node_id in sorted(self.registered)}

    def reaches_controller(self, node: SimulatedNode) -> bool:
        """Return whether a node has a connection to the active controller."""
        return self.active is not None and node.alive and not self.partitioned(node.node_id, self.active)

    def partitioned(self, one: int, other: int) -> bool:
        """Return whether the partition separates two nodes."""
        return (one in self.partition) != (other in self.partition)

    def node_state(self, node_id: int, role: Role = "broker") -> NodeState:
        """Return what a node reports now at its listener of this role."""
        node, build = self.node(node_id), self.build(node_id)
        if role == "controller" and not node.loaded:
            # Until it has found a quorum, it reports a level that no controller finalized, without an epoch
            # (KAFKA-19964).
            bogus = {METADATA_VERSION: build.supported[METADATA_VERSION][0]}
            return self._state(node, role, {} if build.numbers >= _UNLOADED_REPORTS_NO_LEVELS_FROM else bogus, -1)
        read_up_to = self.offset if node.read_up_to is None else node.read_up_to
        change = self._levels_at(read_up_to, build=build)
        # A broker's epoch is the offset up to which it has read the log: records that change no level raise it too.
        return self._state(node, role, change.levels, change.offset if role == "controller" else read_up_to)

    def _state(self, node: SimulatedNode, role: Role, finalized: Mapping[str, int], epoch: int) -> NodeState:
        build = self.build(node.node_id)
        return NodeState(
            node_id=node.node_id,
            role=role,
            cluster_id=self.cluster_id,
            api_ranges=self._broker_apis(node) if role == "broker" else build.controller_apis,
            supported=build.supported,
            finalized=finalized,
            epoch=epoch,
            describes_controllers=finalized.get(METADATA_VERSION, 0) >= CONTROLLERS_REGISTER_FROM,
        )

    def _levels_at(self, offset: int, *, build: Build | None = None) -> LevelsChange:
        """Return the levels at an offset, as a node of this build reports them.

        The level of ``kraft.version`` is that of the quorum, whatever the log holds. Builds before 4.0 report the level
        that an operator requested, although the quorum does not run at it (KAFKA-18979).
        """
        change = next(change for change in reversed(self.history) if change.offset <= offset)
        from_log = build is not None and build.numbers < ALL_OR_NOTHING_FROM
        levels = {name: level for name, level in change.levels.items() if from_log or name != KRAFT_VERSION}
        if self.kraft_version:
            levels[KRAFT_VERSION] = self.kraft_version
        return change._replace(levels=levels)

    def _broker_apis(self, node: SimulatedNode) -> Mapping[int, tuple[int, int]]:
        """Intersect the ranges of forwarded APIs with those of the active controller, if connected to it."""
        own = self.build(node.node_id).broker_apis
        if self.active is None or not self.reaches_controller(node):
            return own
        return _intersect_forwarded(own, self.build(self.active).controller_apis)


def _intersect_forwarded(
    broker: Mapping[int, tuple[int, int]], controller: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    ranges = {}
    for key, own in broker.items():
        other = controller.get(key, _NOT_SERVED) if key in _FORWARDED else own
        common = max(own[0], other[0]), min(own[1], other[1])
        if common[0] <= common[1]:
            ranges[key] = common
    return ranges


@dataclass(frozen=True, slots=True, repr=False)
class KRaft(CodeValue):
    """A new cluster with KRaft: formatted, and with all nodes running.

    Raises
    ------
    ScriptError
        The build has no controllers, or does not support the levels.
    """

    build: str = "4.2"
    """The build of all nodes: a release, or a name in ``builds``."""
    brokers: int = 3
    """The number of brokers. Their ids are 1, 2 and so on."""
    controllers: int = 3
    """The number of nodes that are controllers only, with ids from 3000; 0: every broker is also a controller (combined
    mode)."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels to format the cluster with, in the place of those that belong to the ``metadata.version``; 0 for none."""
    builds: Mapping[str, Build] = field(default_factory=dict)
    """Builds that are not releases of the catalog, by name."""

    def create(self, *, number: int = 1) -> KRaftCluster:
        """Return the new cluster. ``number`` counts the clusters at the same addresses; the cluster id contains it."""
        brokers, controllers = range(1, self.brokers + 1), range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.controllers)
        combined = not self.controllers
        nodes = [
            *(SimulatedNode(node_id=n, build=self.build, is_controller=combined) for n in brokers),
            *(SimulatedNode(node_id=n, build=self.build, is_broker=False, is_controller=True) for n in controllers),
        ]
        build = self.find_build(self.build)
        levels = self._first_levels(build)
        voters = tuple(node.node_id for node in nodes if node.is_controller)
        register = levels[METADATA_VERSION] >= CONTROLLERS_REGISTER_FROM
        first = len(levels) + 1
        return KRaftCluster(
            spec=self,
            number=number,
            nodes={node.node_id: node for node in nodes},
            voters=voters,
            active=voters[0],
            offset=first + 2 * self.brokers + len(voters),
            history=(LevelsChange(first, levels),),
            registered=dict.fromkeys(brokers, build.supported),
            controllers=dict.fromkeys(voters if register else (), build.supported),
        )

    def find_build(self, name: str) -> Build:
        """Return the build with this name."""
        try:
            build = self.builds.get(name) or release_build(name)
        except ValueError as error:
            raise ScriptError(str(error)) from error
        if not build.controller_apis:
            raise ScriptError(f"{name} has no KRaft controllers that were captured")
        return build

    @property
    def default_builds(self) -> tuple[str, ...]:
        """The builds that random scripts roll nodes to."""
        return (*dict.fromkeys((self.build, *_DEFAULT_BUILDS)), *self.builds)

    @property
    def default_levels(self) -> Mapping[str, tuple[int, ...]]:
        """The levels that operators request in random scripts."""
        return _DEFAULT_LEVELS

    def _first_levels(self, build: Build) -> dict[str, int]:
        """Return the levels that ``kafka-storage format`` writes; ``kraft.version`` stays 0 with fixed voters."""
        newest = self.levels.get(METADATA_VERSION, build.supported[METADATA_VERSION][1])
        defaults = {
            name: min(level, build.supported.get(name, (0, 0))[1])
            for name, level in release_levels(newest).items()
            if name != KRAFT_VERSION
        }
        levels = {name: level for name, level in {**defaults, **self.levels}.items() if level > 0}
        for name, level in levels.items():
            lowest, highest = build.supported.get(name, (0, 0))
            if not lowest <= level <= highest:
                raise ScriptError(f"{self.build} cannot run level {level} of {name}: it supports {lowest}-{highest}")
        return levels
