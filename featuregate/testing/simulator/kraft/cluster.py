"""The generation of KRaft (KIP-778): a cluster whose quorum of controllers keeps the levels in its metadata log.

What can happen to it stands in ``transitions``; here is what it is at one moment, and what its nodes tell then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.kraft_rules import ALL_OR_NOTHING_FROM, CONTROLLERS_REGISTER_FROM
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, release_levels
from featuregate.testing.fakes.answers import Tells
from featuregate.testing.simulator.builds import Binary, binary_of
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.kraft.controller import Registry
from featuregate.testing.simulator.nodes import Node
from featuregate.testing.simulator.requirements import Wants
from featuregate.testing.simulator.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.roles import Role

__all__ = ["FIRST_CONTROLLER", "KRaft", "KRaftCluster", "Levels"]

FIRST_CONTROLLER: Final = 3000
_KEEPS_LEVELS_TO_ITSELF_FROM: Final = (4, 4)
_NOTHING: Final = (0, -1)
_FORWARDED: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81}
)  # the APIs that ApiKeys.java of Apache Kafka 3.9 marks as forwardable, by key

_USUAL_BINARIES: Final = ("3.9", "4.2", "4.3")
_USUAL_LEVELS: Final = {
    METADATA_VERSION: (17, 20, 21, 25, 29, 30),
    "group.version": (0, 1, 2),
    "transaction.version": (0, 2),
    KRAFT_VERSION: (0, 1),
    "nonsense.version": (0, 1),
}


class Levels(NamedTuple):
    """One change of the finalized levels."""

    offset: int
    """Of its record in the metadata log."""
    levels: Mapping[str, int]
    """All levels above 0, from then on; ``kraft.version`` only where an old controller wrote a record of it."""


@dataclass(frozen=True, slots=True, repr=False)
class KRaft(Value):
    """How a cluster with KRaft begins: formatted, started, with every node up.

    Raises
    ------
    ScriptError
        The binary has no controllers, or does not support the levels.
    """

    binary: str = "4.2"
    """What all nodes run: a release, or a name in ``binaries``."""
    brokers: int = 3
    """Their ids are 1, 2 and so on."""
    controllers: int = 3
    """Nodes of their own, from 3000 on; 0: every broker is a controller too (combined mode)."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels to format it with, instead of those that go with the ``metadata.version``; 0 for none."""
    binaries: Mapping[str, Binary] = field(default_factory=dict)
    """Builds that are not releases of the catalog, by name."""

    def begin(self, *, number: int = 1) -> KRaftCluster:
        """Make the cluster; ``number`` counts the clusters at these addresses, and makes the cluster id."""
        nodes = [Node(node_id=n, binary=self.binary, is_controller=not self.controllers) for n in self._broker_ids]
        nodes += [
            Node(node_id=n, binary=self.binary, is_broker=False, is_controller=True)
            for n in range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.controllers)
        ]
        binary = self.find(self.binary)
        levels = self._first_levels(binary)
        voters = tuple(node.node_id for node in nodes if node.is_controller)
        register = levels[METADATA_VERSION] >= CONTROLLERS_REGISTER_FROM
        first = len(levels) + 1
        return KRaftCluster(
            plan=self,
            number=number,
            nodes={node.node_id: node for node in nodes},
            voters=voters,
            active=voters[0],
            offset=first + 2 * self.brokers + len(voters),
            history=(Levels(first, levels),),
            registered=dict.fromkeys(self._broker_ids, binary.supported),
            controllers=dict.fromkeys(voters if register else (), binary.supported),
        )

    def find(self, name: str) -> Binary:
        """Look a binary up."""
        try:
            binary = self.binaries.get(name) or binary_of(name)
        except ValueError as error:
            raise ScriptError(str(error)) from error
        if not binary.controller_apis:
            raise ScriptError(f"{name} has no KRaft controllers that were captured")
        return binary

    @property
    def wants(self) -> Wants:
        """What apps want of such a cluster: what came with 4.0."""
        return Wants("TxnOffsetCommit", 5, "group.version", 1)

    @property
    def usual_binaries(self) -> tuple[str, ...]:
        """What made-up scripts roll nodes to."""
        return (*dict.fromkeys((self.binary, *_USUAL_BINARIES)), *self.binaries)

    @property
    def usual_levels(self) -> Mapping[str, tuple[int, ...]]:
        """What operators ask for in made-up scripts."""
        return _USUAL_LEVELS

    @property
    def _broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    def _first_levels(self, binary: Binary) -> dict[str, int]:
        """Give what ``kafka-storage format`` writes: with a fixed set of voters, ``kraft.version`` stays 0."""
        newest = self.levels.get(METADATA_VERSION, binary.supported[METADATA_VERSION][1])
        defaults = {name: min(level, binary.supported.get(name, (0, 0))[1]) for name, level in _levels_of(newest)}
        levels = {name: level for name, level in {**defaults, **self.levels}.items() if level > 0}
        for name, level in levels.items():
            lowest, highest = binary.supported.get(name, (0, 0))
            if not lowest <= level <= highest:
                raise ScriptError(f"{self.binary} cannot run level {level} of {name}: it supports {lowest}-{highest}")
        return levels


@dataclass(frozen=True, kw_only=True)
class KRaftCluster:
    """A cluster with KRaft at one moment. Everything in it is a value; whatever happens makes another one."""

    plan: KRaft
    number: int
    nodes: Mapping[int, Node]
    voters: tuple[int, ...]
    active: int | None
    """The active controller; ``None`` while there is no quorum."""
    offset: int
    """Of the last record in the metadata log."""
    history: tuple[Levels, ...]
    registered: Mapping[int, Mapping[str, tuple[int, int]]]
    """Each registered broker, to what it supported when it registered last."""
    controllers: Mapping[int, Mapping[str, tuple[int, int]]]
    """The same of controllers, which register from ``metadata.version`` 3.7-IV0 on."""
    kraft_version: int = 0
    cut_off: frozenset[int] = frozenset()
    """The nodes on one side of a partition; the others are on the other."""
    ticks: int = 0

    @property
    def cluster_id(self) -> str:
        """22 characters, as Kafka's are."""
        return f"simulated-cluster-{self.number:04}"

    @property
    def levels(self) -> Mapping[str, int]:
        """What is finalized now, as clients are told it: feature to level above 0."""
        return self._levels_at(self.offset).levels

    @property
    def controller_id(self) -> int | None:
        """The active controller."""
        return self.active

    @cached_property
    def registry(self) -> Registry:
        """What the active controller goes by; there must be one."""
        assert self.active is not None
        return Registry(
            node_id=self.active,
            binary=self.binary(self.active),
            voters=self.voters,
            brokers=self.registered,
            controllers=self.controllers,
            connected={voter: self.binary(voter).supported for voter in self.voters if self._connected(voter)},
            levels=self.history[-1].levels,
            kraft_version=self.kraft_version,
        )

    @property
    def known(self) -> Mapping[int, bool]:
        """The registered brokers by id, and whether each is fenced."""
        return {node_id: self.nodes[node_id].fenced for node_id in sorted(self.registered)}

    def node(self, node_id: int) -> Node:
        """Return a node; ScriptError where there is none."""
        if node_id not in self.nodes:
            raise ScriptError(f"there is no node {node_id}, only {sorted(self.nodes)}")
        return self.nodes[node_id]

    def binary(self, node_id: int) -> Binary:
        """Return what a node runs."""
        return self.plan.find(self.nodes[node_id].binary)

    def reaches_controller(self, node: Node) -> bool:
        """Say whether a node is connected to the active controller."""
        return self.active is not None and node.alive and not self.apart(node.node_id, self.active)

    def _connected(self, voter: int) -> bool:
        return voter != self.active and self.reaches_controller(self.nodes[voter])

    def apart(self, one: int, other: int) -> bool:
        """Say whether a partition lies between two nodes."""
        return (one in self.cut_off) != (other in self.cut_off)

    def tells(self, node_id: int, role: Role = "broker") -> Tells:
        """Say what a node tells now, asked at its listener of this role."""
        node = self.node(node_id)
        return self._controller_tells(node) if role == "controller" else self._broker_tells(node)

    def _broker_tells(self, node: Node) -> Tells:
        heard = self.offset if node.heard is None else node.heard
        # The epoch of a broker is how far it has read the log, so that records which change no level raise it too.
        found = self._levels_at(heard, binary=self.binary(node.node_id))
        return self._tells(node, "broker", found.levels, heard)

    def _controller_tells(self, node: Node) -> Tells:
        if not node.loaded:
            # Before it has found a quorum it tells a level that nobody finalized, without an epoch (KAFKA-19964).
            binary = self.binary(node.node_id)
            bogus = {METADATA_VERSION: binary.supported[METADATA_VERSION][0]}
            return self._tells(node, "controller", {} if binary.numbers >= _KEEPS_LEVELS_TO_ITSELF_FROM else bogus, -1)
        heard = self.offset if node.heard is None else node.heard
        found = self._levels_at(heard, binary=self.binary(node.node_id))
        return self._tells(node, "controller", found.levels, found.offset)

    def _tells(self, node: Node, role: Role, finalized: Mapping[str, int], epoch: int) -> Tells:
        binary = self.binary(node.node_id)
        return Tells(
            node_id=node.node_id,
            role=role,
            cluster_id=self.cluster_id,
            api_ranges=self._broker_apis(node) if role == "broker" else binary.controller_apis,
            supported=binary.supported,
            finalized=finalized,
            epoch=epoch,
            describes_controllers=finalized.get(METADATA_VERSION, 0) >= CONTROLLERS_REGISTER_FROM,
        )

    def _levels_at(self, offset: int, *, binary: Binary | None = None) -> Levels:
        """Give the levels as of an offset, as a node of this build tells them.

        Of ``kraft.version`` that is the level of the quorum itself, whatever the log holds; builds before 4.0 tell what
        was once asked for, though the quorum never heard of it (KAFKA-18979).
        """
        found = next(change for change in reversed(self.history) if change.offset <= offset)
        believes = binary is not None and binary.numbers < ALL_OR_NOTHING_FROM
        levels = {name: level for name, level in found.levels.items() if believes or name != KRAFT_VERSION}
        if self.kraft_version:
            levels[KRAFT_VERSION] = self.kraft_version
        return found._replace(levels=levels)

    def _broker_apis(self, node: Node) -> Mapping[int, tuple[int, int]]:
        """Intersect what is forwarded with the ranges of the active controller, where there is a connection to it."""
        own = self.binary(node.node_id).broker_apis
        if self.active is None or not self.reaches_controller(node):
            return own
        return _met(own, self.binary(self.active).controller_apis)


def _levels_of(metadata_level: int) -> list[tuple[str, int]]:
    return [(name, level) for name, level in release_levels(metadata_level).items() if name != KRAFT_VERSION]


def _met(own: Mapping[int, tuple[int, int]], controllers: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    met = {}
    for key, said in own.items():
        other = controllers.get(key, _NOTHING) if key in _FORWARDED else said
        common = max(said[0], other[0]), min(said[1], other[1])
        if common[0] <= common[1]:
            met[key] = common
    return met
