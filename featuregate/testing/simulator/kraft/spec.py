"""The specification of a cluster with KRaft, from which a new cluster is created."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from featuregate.admin.kraft_rules import CONTROLLERS_REGISTER_FROM
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, release_levels
from featuregate.testing.simulator.builds import Build, release_build
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.kraft.cluster import KRaftCluster, LevelsChange
from featuregate.testing.simulator.nodes import SimulatedNode
from featuregate.testing.simulator.values import CodeValue

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_CONTROLLER: Final = 3000
_DEFAULT_BUILDS: Final = ("3.9", "4.2", "4.3")
_DEFAULT_LEVELS: Final = {
    METADATA_VERSION: (17, 20, 21, 25, 29, 30),
    "group.version": (0, 1, 2),
    "transaction.version": (0, 2),
    KRAFT_VERSION: (0, 1),
    "nonsense.version": (0, 1),
}


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
