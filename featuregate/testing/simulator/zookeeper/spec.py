"""The specification of a cluster with ZooKeeper, from which a new cluster is created."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from featuregate.testing.simulator.builds import Build, release_build
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.nodes import SimulatedNode
from featuregate.testing.simulator.values import CodeValue
from featuregate.testing.simulator.zookeeper.cluster import FeaturesNode, ZooKeeperCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

_FEATURE: Final = "group_coordinator"


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
