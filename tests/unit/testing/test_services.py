"""Fake clusters of other services than Apache Kafka, as this package and its commands see them."""

import pytest

import featuregate as fg
from featuregate.config import Settings
from featuregate.errors import DiscoveryError
from featuregate.net.cluster_metadata import BrokerList, _as_clients_see
from featuregate.sources.brokers import BrokerSource
from featuregate.testing import FakeCluster
from featuregate.testing.fakes.releases import SERVICES
from featuregate.wire.cluster import Node

SERVICE_NAMES = sorted(SERVICES)


def versions_of(cluster):
    """Return the versions of ApiVersions that were asked for, in order."""
    return [request.version for request in cluster.requests if request.api == "ApiVersions"]


def config(cluster, **more):
    """Return the configuration of a client."""
    return {"bootstrap.servers": cluster.bootstrap} | more


@pytest.mark.parametrize("service", [name for name in SERVICE_NAMES if not name.endswith("-proxy")])
def test_each_service_is_discovered(service) -> None:
    """No setting is needed, and every broker answers."""
    with FakeCluster(brokers=1, service=service) as cluster:
        view = fg.discover(cluster.bootstrap, timeout=20)
        assert [broker.failure for broker in view.brokers] == [None]
        assert view.api("ApiVersions")[:2] == (0, 3)


def test_event_hubs_resets_newer_versions_and_answers_v3() -> None:
    """The poll begins with v5, and the poll after it with v3."""
    with FakeCluster(brokers=1, service="event-hubs") as cluster:
        with fg.Discoverer(cluster.bootstrap, interval=3600) as features:
            assert features.wait(timeout=20)
            assert versions_of(cluster)[:2] == [5, 3]
            before = len(versions_of(cluster))
            features.refresh(timeout=20)
            assert set(versions_of(cluster)[before:]) == {3}
        assert features.view.epoch == -1


def test_redpanda_refuses_with_all_its_apis_in_v0() -> None:
    """Error 35 is followed on the same connection; no connection is closed on a version."""
    with FakeCluster(brokers=2, service="redpanda") as cluster:
        view = fg.discover(cluster.bootstrap, timeout=20)
        assert set(versions_of(cluster)) == {5, 3}
        assert view.level("transaction.version") is None


def test_kroxylicious_passes_on_the_features_of_the_brokers() -> None:
    with FakeCluster(brokers=2, service="kroxylicious") as cluster:
        view = fg.discover(cluster.bootstrap, timeout=20)
        assert view.level("metadata.version") == 20
        assert {broker.asked_version for broker in view.brokers} == {3}


def test_a_proxy_that_gives_brokers_other_ids_is_refused_with_error_129() -> None:
    """Brokers from 4.4 compare the ids; the error names the property that turns the check off."""
    with (
        FakeCluster(brokers=3, service="msk-proxy") as cluster,
        pytest.raises(DiscoveryError, match=r"metadata\.cluster\.check\.enable=false"),
    ):
        fg.discover(cluster.bootstrap, timeout=20)


@pytest.mark.parametrize("value", ["false", "False", False])
def test_the_check_of_ids_can_be_turned_off(value) -> None:
    """As in Java's clients from 4.4: then requests name no node, and brokers behind such a proxy answer."""
    with FakeCluster(brokers=3, service="msk-proxy") as cluster:
        view = fg.discover(config(cluster, **{"metadata.cluster.check.enable": value}), timeout=20)
        assert [broker.node_id for broker in view.answering] == [1, 2, 3]


def test_the_check_of_ids_can_be_asked_for() -> None:
    """It is on by default."""
    with FakeCluster(brokers=1, service="msk-proxy") as cluster, pytest.raises(DiscoveryError, match="error 129"):
        fg.discover(config(cluster, **{"metadata.cluster.check.enable": "true"}), timeout=20)


def test_the_addresses_of_metadata_count_behind_a_proxy_that_passes_describe_cluster_on(caplog) -> None:
    """The proxy listens where Metadata says; what differs is logged once."""
    with FakeCluster(brokers=3, service="kafka-proxy") as cluster:
        with fg.Discoverer(cluster.bootstrap, interval=3600) as features:
            assert features.wait(timeout=20)
            features.refresh(timeout=20)
        view = features.view
        assert [broker.address for broker in view.answering] == [broker.address for broker in cluster.brokers]
        warned = [record.message for record in caplog.records if "DescribeCluster and Metadata" in record.message]
        (text,) = warned
        assert f"kafka-1.internal.invalid:9092 and {cluster.broker(1).address} for node 1" in text


@pytest.mark.parametrize("fault", ["cut", "garbage"])
def test_without_an_answer_to_metadata_those_of_describe_cluster_stay(fault) -> None:
    """The bootstrap address is another name of a broker, and its list is as good as before."""
    with FakeCluster(brokers=2) as cluster:
        broker = cluster.broker(1)
        where = broker.address.replace("127.0.0.1", "localhost")
        assert len(fg.discover(where, timeout=20).answering) == 2
        (broker.cut_once if fault == "cut" else lambda api: broker.garbage_once(b"\0\0\0\4abcd", api=api))(
            api="Metadata"
        )
        assert len(fg.discover(where, timeout=20).answering) == 2


def test_a_node_that_is_reached_at_its_address_is_not_asked_for_metadata() -> None:
    with FakeCluster(brokers=2) as cluster:
        fg.discover(cluster.bootstrap, timeout=20)
        assert "Metadata" not in {request.api for request in cluster.requests}


def broker_list(*nodes):
    """Return a list of brokers: id, host and whether the broker is fenced."""
    listed = tuple(Node(node_id=node_id, host=host, port=9092, is_fenced=fenced) for node_id, host, fenced in nodes)
    return BrokerList("c", 1, listed, "cluster", registered=True)


def test_brokers_that_are_down_keep_their_address_behind_such_a_proxy() -> None:
    """Metadata lists only those that run; a broker that is down stays known."""
    described = broker_list((1, "a", False), (2, "b", True))
    merged = _as_clients_see(described, broker_list((1, "proxy", False)))
    assert [(node.node_id, node.host, node.is_fenced) for node in merged.nodes] == [(1, "proxy", False), (2, "b", True)]
    assert (merged.registered, merged.differs) == (
        True,
        "DescribeCluster and Metadata give a:9092 and proxy:9092 for node 1",
    )


def test_a_list_with_other_ids_counts_alone() -> None:
    """The ids of two lists must not be mixed: nobody would answer for those of DescribeCluster."""
    merged = _as_clients_see(broker_list((1, "a", False)), broker_list((1001, "proxy", False)))
    assert [node.node_id for node in merged.nodes] == [1001]
    assert merged.differs == "Metadata lists other node ids than DescribeCluster"


def test_an_unknown_service_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no service 'confluent'.*redpanda"):
        FakeCluster(service="confluent")


async def test_a_source_keeps_no_addresses_that_are_not_listed() -> None:
    """After a poll it remembers those of the bootstrap list and of the broker list."""
    with FakeCluster(brokers=2, service="event-hubs") as cluster:
        source = BrokerSource(settings_of(cluster), keep_connections=False)
        await source.fetch()
        ports = {address.port for address in source._asked_versions().closed_on_newer}
        assert ports == {broker.port for broker in cluster.brokers}
        cluster.remove_broker(2)
        source.settings = settings_of(cluster)
        await source.fetch()
        assert {address.port for address in source._asked_versions().closed_on_newer} == {cluster.broker(1).port}


def settings_of(cluster):
    """Return the settings of a client."""
    return Settings.parse(cluster.bootstrap)
