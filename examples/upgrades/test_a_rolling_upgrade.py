"""Does my app survive a rolling upgrade? Without a network, in milliseconds, step by step.

``python -m pytest examples/upgrades`` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.admin.updates import upgrade
from featuregate.testing import FakeCluster, StaticFeatures

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
    cluster = FakeCluster(3, controllers=3, release="3.9")  # outside of a with block, it has no sockets
    features = StaticFeatures(cluster.view())
    worker = Worker(features)
    for node_id in (3000, 3001, 3002, 1, 2, 3):
        cluster.roll(node_id, "4.2")
        features.show(cluster.view())
        assert worker.model == "old", f"switched when node {node_id} was rolled"
    answer = cluster.update(upgrade({"metadata.version": 29, "group.version": 1}))
    assert answer.error_code == 0, answer.error_message
    features.show(cluster.view())
    assert worker.model == "new"


def test_a_broker_is_down_while_the_others_are_rolled() -> None:
    """The broker may come back with its old release, so the worker waits, and the controller refuses the update."""
    cluster = FakeCluster(3, controllers=3, release="3.9")
    features = StaticFeatures(cluster.view())
    worker = Worker(features)
    cluster.stop(2)
    for node_id in (3000, 3001, 3002, 1, 3):
        cluster.roll(node_id, "4.2")
    answer = cluster.update(upgrade({"group.version": 1}))
    assert "Broker 2 does not support this feature" in answer.error_message
    features.show(cluster.view())
    assert worker.model == "old"

    cluster.roll(2, "4.2")
    assert cluster.update(upgrade({"group.version": 1})).error_code == 0
    features.show(cluster.view())
    assert worker.model == "new"
