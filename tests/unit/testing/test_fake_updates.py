"""Updates of levels over the sockets of a fake cluster, with featuregate and kafka-python as clients."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import ask
from raw_client import API_VERSIONS, RawClient

import featuregate as fg
from featuregate.admin.outcomes import request
from featuregate.admin.updates import disable, upgrade
from featuregate.errors import ConnectionLost
from featuregate.testing.plugin import MakeFakeCluster
from featuregate.wire.cluster import CONTROLLERS, DescribeClusterRequest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that has grown old
    from kafka import KafkaAdminClient
    from kafka.errors import InvalidUpdateVersionError

DISABLE = request(disable("group.version"), 1000, dry_run=False)


def is_asked(requests) -> bool:
    """Return whether a client has sent an update."""
    return any(asked.api == "UpdateFeatures" for asked in requests)


def test_kafka_python_describes_and_updates_the_features(fake_cluster: MakeFakeCluster) -> None:
    """A client that shares no code with featuregate makes a whole upgrade."""
    cluster = fake_cluster(3, controllers=3, release="3.9")
    for node_id in (3000, 3001, 3002, 1, 2, 3):
        cluster.roll(node_id, "4.2")
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        assert admin.describe_features()["metadata.version"]["finalized"] == (21, 21)
        with pytest.raises(InvalidUpdateVersionError, match="only supports versions 7-29"):
            admin.update_features({"metadata.version": ("UPGRADE", 30)})
        admin.update_features({"metadata.version": ("UPGRADE", 25), "group.version": ("UPGRADE", 1)})
        assert admin.describe_features()["group.version"]["finalized"] == (1, 1)
    finally:
        admin.close()
    assert cluster.finalized == {"metadata.version": 25, "group.version": 1}
    assert fg.discover(cluster.bootstrap).finalized == cluster.finalized


def test_controllers_name_the_active_one(fake_cluster: MakeFakeCluster) -> None:
    """DescribeCluster names it, and the others answer NOT_CONTROLLER; without a quorum there is none."""
    cluster = fake_cluster(1, controllers=3)
    described = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    cluster.stop(3000)
    assert ask(cluster.broker(3002).address, described, role="controller").controller_id == 3001
    wrong = ask(cluster.broker(3002).address, DISABLE, role="controller")
    assert (wrong.error_code, wrong.error_message) == (41, "The active controller appears to be node 3001.")
    assert ask(cluster.broker(3001).address, DISABLE, role="controller").error_code == 0
    assert "group.version" not in cluster.finalized
    cluster.stop(3001)
    assert ask(cluster.broker(3002).address, described, role="controller").controller_id == -1
    wrong = ask(cluster.broker(3002).address, DISABLE, role="controller")
    assert (wrong.error_code, wrong.error_message) == (41, "No controller appears to be active.")
    assert ask(cluster.broker(1).address, DescribeClusterRequest()).controller_id == 1


def test_controllers_describe_the_cluster_since_3_7(fake_cluster: MakeFakeCluster) -> None:
    """The finalized level decides, not the release."""
    cluster = fake_cluster(1, controllers=1, release="3.9", finalized={"metadata.version": 14})
    described = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    refused = ask(cluster.broker(3000).address, described, role="controller")
    assert (refused.error_code, refused.error_message) == (
        35,
        "Direct-to-controller communication is not supported with the current MetadataVersion.",
    )
    assert cluster.update(upgrade({"metadata.version": 15})).results[0].error_code == 0
    assert ask(cluster.broker(3000).address, described, role="controller").controller_id == 3000


def test_an_update_without_a_quorum_is_made_when_there_is_one(fake_cluster: MakeFakeCluster) -> None:
    """The broker keeps the request for the next controller, as a real one does; later requests wait too."""
    cluster = fake_cluster(1, controllers=3)
    cluster.stop(3000)
    cluster.stop(3001)
    with RawClient(cluster.broker(1)) as client:
        client.send(DISABLE, 1)
        client.send(API_VERSIONS, 4)
        assert cluster.wait_for(is_asked, timeout=10)
        assert cluster.finalized["group.version"] == 1
        cluster.broker(3000).start()
        assert [client.receive_frame()[:4] for _ in range(2)] == [b"\0\0\0\x01", b"\0\0\0\x02"]
    assert "group.version" not in cluster.finalized


def test_a_fault_waits_for_the_answer_of_an_update(fake_cluster: MakeFakeCluster) -> None:
    """The update is made, and the client gets no answer."""
    cluster = fake_cluster(1, controllers=1)
    cluster.broker(1).cut_once(api="UpdateFeatures")
    cluster.broker(3000).pause()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, cluster.broker(1).address, DISABLE)
        assert cluster.wait_for(is_asked, timeout=10)
        cluster.broker(3000).resume()
        with pytest.raises(ConnectionLost):
            answer.result(10)
    assert "group.version" not in cluster.finalized


def test_a_node_that_cannot_run_the_levels_refuses_connections(fake_cluster: MakeFakeCluster) -> None:
    """A roll ends the connections of the broker, and the port stays the same."""
    cluster = fake_cluster(2, controllers=1)
    port = cluster.broker(1).port
    with fg.Discoverer(cluster.bootstrap) as features:
        gate = features.gate("new", "group.version>=1")
        features.refresh()
        assert gate.open
        cluster.roll(1, "3.9")
        assert [broker.failure.kind for broker in features.refresh().missing] == ["ConnectFailed"]
        cluster.roll(1, "4.3")
        assert not features.refresh().missing
    assert cluster.broker(1).port == port
