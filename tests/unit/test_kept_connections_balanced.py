"""Kept connections through a TCP load balancer, which may end at another broker than the client expects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tcp_balancing import balancing_tcp

import featuregate as fg
from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from tcp_balancing import TcpBalancer

BOUND = 60.0
PRODUCE, API_VERSIONS, DESCRIBE_CLUSTER, METADATA = 0, 18, 60, 3
CHECKED_BY_BROKERS = "4.4"
"""The first release whose brokers compare the id that a client expects with their own (KIP-1242)."""


def tell_apart(cluster: FakeCluster) -> None:
    """Let each broker serve Produce up to its own id, which shows whose answer a view has."""
    served = {API_VERSIONS: (0, 5), DESCRIBE_CLUSTER: (0, 2), METADATA: (0, 13)}
    for broker in cluster.brokers:
        broker.set(api_ranges=served | {PRODUCE: (0, broker.node_id)})


def list_at(balancer: TcpBalancer, cluster: FakeCluster, node_id: int) -> None:
    """Let the cluster list a broker at the address of the balancer."""
    broker = cluster.broker(node_id)
    broker.node = replace(broker.node, port=balancer.port)


def whose(view: fg.View) -> dict[int | None, int]:
    """Return for each broker that answered, by its id in the view, the id of the broker whose answer it is."""
    return {broker.node_id: broker.api_ranges[PRODUCE].max for broker in view.answering}


async def test_the_broker_that_gives_the_list_is_not_taken_for_the_one_that_is_listed_there() -> None:
    """The bootstrap address is that of broker 1 in the list, and the balancer passes it on to broker 2."""
    with FakeCluster(2, release=CHECKED_BY_BROKERS) as cluster:
        tell_apart(cluster)
        async with balancing_tcp(cluster.broker(2).port) as balancer:
            list_at(balancer, cluster, 1)
            view = await fg.adiscover(balancer.address, timeout=BOUND)
    assert whose(view) == {2: 2}
