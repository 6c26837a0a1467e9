"""Short ways to move a simulated cluster, for the tests of the simulator."""

from typing import Any

from featuregate.testing.simulator import apply
from featuregate.testing.simulator.events import ClusterEvent
from featuregate.testing.simulator.kraft.cluster import KRaftCluster
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeperCluster


def after(start: Any, *events: ClusterEvent) -> Any:
    """Return a cluster after events; ``start`` is a cluster, or what a new one is made of."""
    cluster = start if isinstance(start, KRaftCluster | ZooKeeperCluster) else start.create()
    for event in events:
        cluster = apply(cluster, event).cluster
    return cluster
