"""Clusters of either generation, and the one way in which something happens to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

from featuregate.testing.simulator.events import UpdateFeatures
from featuregate.testing.simulator.kraft import transitions as kraft
from featuregate.testing.simulator.kraft.cluster import KRaft, KRaftCluster
from featuregate.testing.simulator.zookeeper import transitions as zookeeper
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeper, ZooKeeperCluster
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from featuregate.roles import Role
    from featuregate.testing.simulator.events import ClusterEvent

__all__ = ["Beginning", "Cluster", "Happened", "apply", "update_features"]

Beginning = KRaft | ZooKeeper
"""How a cluster begins, in either generation."""

Cluster = KRaftCluster | ZooKeeperCluster
"""A cluster at one moment."""

C = TypeVar("C", bound=Cluster)


class Happened(NamedTuple, Generic[C]):
    """What became of an event."""

    cluster: C
    """The cluster after it."""
    response: UpdateFeaturesResponse | None = None
    """What the operator was told; ``None`` where nobody answered, and for everything but updates."""


def apply(cluster: C, event: ClusterEvent) -> Happened[C]:
    """Let an event happen. The cluster that is given stays as it is.

    Raises
    ------
    ScriptError
        It cannot happen to this cluster.
    """
    if isinstance(event, UpdateFeatures):
        updates = tuple(
            FeatureUpdate(feature=name, max_version_level=level, upgrade_type=event.upgrade_type)
            for name, level in event.levels.items()
        )
        request = UpdateFeaturesRequest(updates=updates, validate_only=event.validate_only)
        return update_features(cluster, request, event.version, asked=event.node_id)
    after: Cluster
    after = zookeeper.step(cluster, event) if isinstance(cluster, ZooKeeperCluster) else kraft.step(cluster, event)
    return Happened(cast("C", after))  # of the same generation


def update_features(
    cluster: C,
    request: UpdateFeaturesRequest,
    version: int,
    *,
    asked: int | None = None,
    role: Role | None = None,
) -> Happened[C]:
    """Answer a request of this version that was sent to this listener of a node, or to the controller."""
    after: Cluster
    if isinstance(cluster, ZooKeeperCluster):
        after, response = zookeeper.update(cluster, request, asked=asked)
    else:
        after, response = kraft.update(cluster, request, version, asked=asked, role=role)
    return Happened(cast("C", after), response)
