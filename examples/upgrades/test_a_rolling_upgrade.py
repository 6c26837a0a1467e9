"""Does my app survive a rolling upgrade? Without a network, in milliseconds, step by step.

``python -m pytest examples/upgrades`` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.testing import StaticFeatures
from featuregate.testing.simulator import Kill, KRaft, Roll, Start, Tick, apply, upgrade, view_of

if TYPE_CHECKING:
    import featuregate as fg


class Worker:
    """The app: one producer for each process if all brokers support that, else one for each partition."""

    def __init__(self, features: fg.Discoverer) -> None:
        self.newer = features.gate("newer", "TxnOffsetCommit>=5 & group.version>=1")

    @property
    def model(self) -> str:
        """The current model."""
        return "new" if self.newer.open else "old"


def test_the_upgrade_from_3_9_to_4_2() -> None:
    """The worker switches when the last broker is rolled and the level is finalized, and not before."""
    cluster = KRaft("3.9").create()
    features = StaticFeatures(view_of(cluster))
    worker = Worker(features)
    for node_id in (3000, 3001, 3002, 1, 2, 3):
        cluster = apply(cluster, Roll(node_id, "4.2")).cluster
        features.show(view_of(cluster))
        assert worker.model == "old", f"switched when node {node_id} was rolled"
    happened = apply(cluster, upgrade({"metadata.version": 29, "group.version": 1}))
    assert happened.response.error_code == 0, happened.response.error_message
    features.show(view_of(happened.cluster))
    assert worker.model == "new"


def test_a_broker_is_down_while_the_others_are_rolled() -> None:
    """The broker may come back with its old release, so the worker waits, and the controller refuses the update."""
    cluster = KRaft("3.9").create()
    features = StaticFeatures(view_of(cluster))
    worker = Worker(features)
    for event in (Kill(2), Tick(20), *(Roll(node_id, "4.2") for node_id in (3000, 3001, 3002, 1, 3))):
        cluster = apply(cluster, event).cluster
    refused = apply(cluster, upgrade({"group.version": 1}))
    assert "Broker 2 does not support this feature" in refused.response.error_message
    features.show(view_of(refused.cluster))
    assert worker.model == "old"

    back = apply(refused.cluster, Start(2, "4.2")).cluster
    features.show(view_of(apply(back, upgrade({"group.version": 1})).cluster))
    assert worker.model == "new"
