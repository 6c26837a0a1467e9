"""Clusters of either generation, and the one way in which something happens to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from featuregate.testing.simulator import kraft_steps

if TYPE_CHECKING:
    from featuregate.testing.fake_answers import Role
    from featuregate.testing.simulator.events import ClusterEvent
    from featuregate.testing.simulator.kraft import KRaft, KRaftCluster
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

    Start = KRaft
    Cluster = KRaftCluster

__all__ = ["Happened", "apply", "update_features"]


class Happened(NamedTuple):
    """What became of an event."""

    cluster: Cluster
    """The cluster after it."""
    response: UpdateFeaturesResponse | None = None
    """What the operator was told; ``None`` where nobody answered, and for everything but updates."""


def apply(cluster: Cluster, event: ClusterEvent) -> Happened:
    """Let an event happen. The cluster that is given stays as it is.

    Raises
    ------
    ScriptError
        It cannot happen to this cluster.
    """
    return Happened(*kraft_steps.step(cluster, event))


def update_features(
    cluster: Cluster,
    request: UpdateFeaturesRequest,
    version: int,
    *,
    asked: int | None = None,
    role: Role | None = None,
) -> Happened:
    """Answer a request of this version that was sent to this listener of a node, or to the controller."""
    return Happened(*kraft_steps.update(cluster, request, version, asked=asked, role=role))
