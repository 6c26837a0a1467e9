"""Kept connections through a TCP load balancer, which may end at another broker than the client expects."""

import asyncio
from dataclasses import replace

import pytest
from tcp_balancing import TcpBalancer, balancing_tcp

import featuregate as fg
from featuregate.testing import FakeCluster

BOUND = 60.0
HOUR = 3600.0
PRODUCE, API_VERSIONS, DESCRIBE_CLUSTER, METADATA = 0, 18, 60, 3
CHECKED_BY_BROKERS = "4.4"
"""The first release whose brokers compare the id that a client expects with their own (KIP-1242)."""


def tell_apart(cluster: FakeCluster) -> None:
    served = {API_VERSIONS: (0, 5), DESCRIBE_CLUSTER: (0, 2), METADATA: (0, 13)}
    for broker in cluster.brokers:
        broker.set(api_ranges=served | {PRODUCE: (0, broker.node_id)})


def list_at(balancer: TcpBalancer, cluster: FakeCluster, node_id: int) -> None:
    broker = cluster.broker(node_id)
    broker.node = replace(broker.node, port=balancer.port)


def whose(view: fg.View) -> dict[int | None, int]:
    return {broker.node_id: broker.api_ranges[PRODUCE].max for broker in view.answering}


async def refreshed(features: fg.Discoverer) -> fg.View:
    return await asyncio.to_thread(features.refresh, BOUND)


async def test_a_kept_client_that_a_balancer_moves_gets_no_answer_of_another_broker() -> None:
    """The other broker refuses the id that the client expects, and the broker that is gone is missing."""
    with FakeCluster(2, release=CHECKED_BY_BROKERS) as cluster:
        tell_apart(cluster)
        async with balancing_tcp(*(broker.port for broker in cluster.brokers)) as balancer:
            list_at(balancer, cluster, 1)
            with fg.Discoverer(cluster.broker(2).address, interval=HOUR) as features:
                for _ in range(2):
                    assert whose(await refreshed(features)) == {1: 1, 2: 2}
                assert balancer.accepted == 1
                cluster.broker(1).stop()
                for _ in range(3):
                    view = await refreshed(features)
                    assert whose(view) == {2: 2}
                    assert [broker.node_id for broker in view.missing] == [1]
                cluster.broker(1).start()
                assert whose(await refreshed(features)) == {1: 1, 2: 2}


async def test_invariant_3_brokers_that_share_the_address_of_a_balancer_open_no_gate() -> None:
    """Each connection may end at any of them. What the app trusts is another matter."""
    with FakeCluster(3, release="4.2") as cluster:
        async with balancing_tcp(cluster.broker(2).port) as balancer:
            for node_id in (1, 2, 3):
                list_at(balancer, cluster, node_id)
            view = await fg.adiscover(balancer.address, timeout=BOUND)
            decision = fg.evaluate(fg.View.from_json(view.to_json()), "kip447")
            assert decision.verdict == "unknown"
            assert f"brokers 1, 2, 3 share the address {balancer.address}" in decision.summary
            with fg.Discoverer(balancer.address, interval=HOUR) as features:
                gate = features.gate("switch", "kip447")
                for _ in range(2):  # the second time on connections that were kept
                    await refreshed(features)
                    assert not gate.open
            trusted = await fg.adiscover(balancer.address, timeout=BOUND, trust_shared_addresses=True)
            assert fg.evaluate(trusted, "kip447").open


async def test_names_that_lead_to_one_balancer_open_no_gate() -> None:
    """The broker that has an address of its own answers for itself."""
    with FakeCluster(3, release="4.2") as cluster:
        async with balancing_tcp(cluster.broker(2).port) as balancer:
            for node_id, host in ((1, "127.0.0.1"), (2, "localhost")):
                list_at(balancer, cluster, node_id)
                cluster.broker(node_id).node = replace(cluster.broker(node_id).node, host=host)
            view = await fg.adiscover(cluster.broker(3).address, timeout=BOUND)
    assert {broker.node_id: broker.failure and broker.failure.kind for broker in view.brokers} == {
        1: "SharedAddress",
        2: "SharedAddress",
        3: None,
    }
    assert fg.evaluate(view, "kip447").verdict == "unknown"


async def test_the_broker_that_gives_the_list_is_not_taken_for_the_one_that_is_listed_there() -> None:
    """The bootstrap address is that of broker 1 in the list, and the balancer passes it on to broker 2."""
    with FakeCluster(2, release=CHECKED_BY_BROKERS) as cluster:
        tell_apart(cluster)
        async with balancing_tcp(cluster.broker(2).port) as balancer:
            list_at(balancer, cluster, 1)
            view = await fg.adiscover(balancer.address, timeout=BOUND)
    assert whose(view) == {2: 2}


async def test_a_connection_that_a_balancer_has_forgotten_does_not_make_a_broker_silent() -> None:
    """Neither side hears of it. A new connection answers, and each answer is that of its own broker."""
    with FakeCluster(2, release=CHECKED_BY_BROKERS) as cluster:
        tell_apart(cluster)
        async with balancing_tcp(cluster.broker(1).port) as balancer:
            list_at(balancer, cluster, 1)
            with fg.Discoverer(cluster.broker(2).address, interval=HOUR) as features:
                assert whose(await refreshed(features)) == {1: 1, 2: 2}
                for connections in (2, 3):
                    balancer.forget()
                    assert whose(await refreshed(features)) == {1: 1, 2: 2}
                    assert balancer.accepted == connections


@pytest.mark.parametrize("release", ["4.2", CHECKED_BY_BROKERS])
async def test_a_broker_with_another_id_at_the_same_address_answers_for_itself(release: str) -> None:
    """Its cluster lists it in place of the broker that was there."""
    with FakeCluster(2, release=release) as cluster:
        async with balancing_tcp(cluster.broker(2).port) as balancer:
            list_at(balancer, cluster, 2)
            with fg.Discoverer(cluster.broker(1).address, interval=HOUR) as features:
                tell_apart(cluster)
                assert whose(await refreshed(features)) == {1: 1, 2: 2}
                cluster.remove_broker(2)
                balancer.ports = (cluster.add_broker(7).port,)
                list_at(balancer, cluster, 7)
                tell_apart(cluster)
                assert whose(await refreshed(features)) == {1: 1, 7: 7}


@pytest.mark.parametrize("release", ["4.2", CHECKED_BY_BROKERS])
async def test_another_cluster_behind_the_same_address_is_seen_as_another_one(release: str) -> None:
    """Also by a connection that the balancer has moved there; nothing of the cluster before it stays in the view."""
    with FakeCluster(1, release=release) as before, FakeCluster(1, release=release) as after:
        after.finalize({"group.version": 1})
        before.finalize({"group.version": 0})
        async with balancing_tcp(before.broker(1).port, after.broker(1).port) as balancer:
            for cluster in (before, after):
                list_at(balancer, cluster, 1)
            with fg.Discoverer(balancer.address, interval=HOUR) as features:
                view = await refreshed(features)
                assert (view.cluster_id, view.level("group.version")) == (before.cluster_id, 0)
                before.broker(1).stop()
                view = await refreshed(features)
                assert (view.cluster_id, view.level("group.version")) == (after.cluster_id, 1)
