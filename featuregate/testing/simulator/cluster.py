"""Clusters of either kind, and the functions that apply events to them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

from featuregate.testing.simulator.events import ClusterEvent, UpdateFeatures
from featuregate.testing.simulator.kraft import transitions as kraft
from featuregate.testing.simulator.kraft.cluster import KRaft, KRaftCluster
from featuregate.testing.simulator.zookeeper import transitions as zookeeper
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeper, ZooKeeperCluster
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from featuregate.roles import Role

ClusterSpec = KRaft | ZooKeeper
"""What a new cluster is made of; its ``create()`` returns the cluster."""

Cluster = KRaftCluster | ZooKeeperCluster
"""A cluster at one moment."""

C = TypeVar("C", bound=Cluster)


class EventResult(NamedTuple, Generic[C]):
    """The result of an event."""

    cluster: C
    """The cluster after the event."""
    response: UpdateFeaturesResponse | None = None
    """The answer to UpdateFeatures; ``None`` where no node answered, and for all other events."""


def apply(cluster: C, event: ClusterEvent) -> EventResult[C]:
    """Apply an event. The given cluster does not change.

    Raises
    ------
    ScriptError
        The event cannot happen to this cluster.
    """
    if isinstance(event, UpdateFeatures):
        updates = tuple(
            FeatureUpdate(feature=name, max_version_level=level, upgrade_type=event.upgrade_type)
            for name, level in event.levels.items()
        )
        request = UpdateFeaturesRequest(updates=updates, validate_only=event.validate_only)
        return update_features(cluster, request, event.version, node_id=event.node_id)
    after: Cluster
    after = zookeeper.apply(cluster, event) if isinstance(cluster, ZooKeeperCluster) else kraft.apply(cluster, event)
    return EventResult(cast("C", after))  # of the same kind


def update_features(
    cluster: C,
    request: UpdateFeaturesRequest,
    version: int,
    *,
    node_id: int | None = None,
    role: Role | None = None,
) -> EventResult[C]:
    """Answer a request of this version that a node receives at its listener of this role.

    Without a ``node_id`` the controller receives the request.
    """
    after: Cluster
    if isinstance(cluster, ZooKeeperCluster):
        after, response = zookeeper.update(cluster, request, node_id=node_id)
    else:
        after, response = kraft.update(cluster, request, version, node_id=node_id, role=role)
    return EventResult(cast("C", after), response)
