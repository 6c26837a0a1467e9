"""A simulated cluster over real sockets, with featuregate, librdkafka and kafka-python as clients."""

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import ask
from raw_client import API_VERSIONS, RawClient, tell

import featuregate as fg
from featuregate.errors import ConnectionLost
from featuregate.testing import SimulatedCluster
from featuregate.testing import simulator as sim
from featuregate.testing.plugin import MakeSimulatedCluster
from featuregate.wire.cluster import CONTROLLERS, DescribeClusterRequest
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that has grown old
    from kafka import KafkaAdminClient
    from kafka.errors import InvalidUpdateVersionError

EVERYBODY = (3000, 3001, 3002, 1, 2, 3)


def wants(levels: dict[str, int], upgrade_type: int = 1) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        updates=tuple(
            FeatureUpdate(feature=n, max_version_level=v, upgrade_type=upgrade_type) for n, v in levels.items()
        )
    )


def test_brokers_report_what_is_simulated(simulated_kafka: MakeSimulatedCluster) -> None:
    """Levels, epoch and ranges change with each event; a lagging broker reports what it has read."""
    cluster = simulated_kafka(sim.KRaft("3.9"))
    cluster.apply(sim.Lag(2), sim.downgrade({"metadata.version": 19}), sim.Roll(1, "4.2"), sim.Tick(5))
    view = fg.discover(cluster.bootstrap)
    assert view.cluster_id == cluster.current.cluster_id
    assert (view.level("metadata.version"), view.epoch) == (19, cluster.current.node_state(1).epoch)
    for broker in view.brokers:
        tells = cluster.current.node_state(broker.node_id)
        assert dict(broker.api_ranges) == tells.api_ranges
        assert (dict(broker.finalized), broker.epoch) == (tells.finalized, tells.epoch)
    assert view.brokers[1].finalized == {"metadata.version": 21}
    assert cluster.finalized == {"metadata.version": 19}


def test_nodes_listen_only_while_they_do_in_the_simulation(simulated_kafka: MakeSimulatedCluster) -> None:
    """Stopped, paused, fenced, refused, unregistered and new brokers behave as simulated."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    config = {"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": 400}
    cluster.apply(sim.Stop(1), sim.Pause(2))
    kinds = {broker.node_id: broker.failure and broker.failure.kind for broker in fg.discover(config).brokers}
    assert kinds == {1: "ConnectFailed", 2: "TimedOut", 3: None}
    cluster.apply(sim.Start(1), sim.Resume(2), sim.Join(4, "4.3"), sim.Leave(3))
    assert [broker.node_id for broker in fg.discover(config).brokers] == [1, 2, 4]
    cluster.apply(sim.Roll(1, "3.9"))
    assert cluster.current.nodes[1].status == "died"
    view = fg.discover(config)
    assert [broker.failure.kind for broker in view.missing] == ["ConnectFailed"]


def test_connections_end_with_the_process(simulated_kafka: MakeSimulatedCluster) -> None:
    """A roll of a broker and a rebuild of the cluster reset its connections."""
    cluster = simulated_kafka(sim.KRaft("4.2", brokers=1))
    with fg.Discoverer(cluster.bootstrap) as features:
        gate = features.gate("new", "group.version>=1")
        features.refresh()
        assert gate.open
        cluster.apply(sim.Roll(1, "4.3"), sim.Rebuild())
        assert features.refresh().cluster_id == cluster.current.cluster_id
    for event in (sim.Roll(1, "4.2"), sim.Rebuild()):
        assert _is_hung_up(cluster, event)
    assert not _is_hung_up(cluster, sim.Tick(1))


def _is_hung_up(cluster: SimulatedCluster, event) -> bool:
    async def run() -> bool:
        reader, writer = await asyncio.open_connection(cluster.broker(1).host, cluster.broker(1).port)
        writer.write(b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4test")  # ApiVersions v0, so that the broker has accepted us
        await reader.readexactly(4)
        await asyncio.to_thread(cluster.apply, event)
        try:
            rest = await asyncio.wait_for(reader.read(), 1)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        finally:
            writer.close()
        return rest is not None

    return asyncio.run(run())


def test_the_controller_answers_and_makes_an_operators_update(simulated_kafka: MakeSimulatedCluster) -> None:
    """The simulated controller answers through any broker, and brokers report the new levels."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    refused = ask(cluster.broker(2).address, wants({"group.version": 7}))
    assert refused.error_code == 95
    assert refused.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update version 7 for "
        "feature group.version. Local controller 3000 only supports versions 0-1"
    )
    done = ask(cluster.broker(2).address, wants({"group.version": 0}, upgrade_type=2))
    assert (done.error_code, done.results) == (0, ())
    assert fg.discover(cluster.bootstrap).level("group.version") == cluster.current.levels.get("group.version", 0) == 0


def test_controllers_name_the_active_one(simulated_kafka: MakeSimulatedCluster) -> None:
    """DescribeCluster names the active controller; other controllers answer NOT_CONTROLLER."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.apply(sim.Kill(3000))
    described = ask(cluster.broker(3001).address, DescribeClusterRequest(endpoint_type=CONTROLLERS), role="controller")
    assert described.controller_id == 3001
    request = wants({"group.version": 0}, upgrade_type=2)
    wrong = ask(cluster.broker(3002).address, request, role="controller")
    assert (wrong.error_code, wrong.error_message) == (41, "The active controller appears to be node 3001.")
    assert ask(cluster.broker(3001).address, request, role="controller").error_code == 0
    assert "group.version" not in cluster.current.levels


def test_without_a_quorum_no_node_answers_an_update(simulated_kafka: MakeSimulatedCluster) -> None:
    """The connection stays open without an answer, until there is a quorum again."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.apply(sim.Partition((3000,)), sim.Kill(3001))
    with pytest.raises(fg.FeatureGateError, match="timed out"):
        ask(cluster.broker(1).address, wants({"group.version": 1}), seconds=0.5)
    cluster.apply(sim.Heal())
    assert ask(cluster.broker(1).address, wants({"group.version": 1})).error_code == 0


def test_an_update_without_a_quorum_is_made_when_there_is_one(simulated_kafka: MakeSimulatedCluster) -> None:
    """The broker keeps the request for the next controller, as a real one does; later requests wait too."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.apply(sim.Partition((3000,)), sim.Kill(3001))
    disable = wants({"group.version": 0}, upgrade_type=2)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, cluster.broker(1).address, disable)
        assert cluster.wait_for(lambda requests: any(asked.api == "UpdateFeatures" for asked in requests), timeout=10)
        cluster.apply(sim.Tick(1))
        assert not answer.done()
        assert cluster.current.levels["group.version"] == 1
        cluster.apply(sim.Heal())
        assert answer.result(10).error_code == 0
    assert "group.version" not in cluster.current.levels


def test_a_fault_waits_for_the_answer_of_an_update(simulated_kafka: MakeSimulatedCluster) -> None:
    """The update is made, and the client gets no answer."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.broker(1).cut_once(api="UpdateFeatures")
    cluster.apply(sim.Kill(3000), sim.Kill(3001))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, cluster.broker(1).address, wants({"group.version": 0}, upgrade_type=2))
        assert cluster.wait_for(lambda requests: any(asked.api == "UpdateFeatures" for asked in requests), timeout=10)
        cluster.apply(sim.Start(3000))
        with pytest.raises(ConnectionLost):
            answer.result(10)
    assert "group.version" not in cluster.current.levels


def test_a_resumed_broker_answers_waiting_requests(simulated_kafka: MakeSimulatedCluster) -> None:
    """A resumed broker answers with its current state."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.apply(sim.Pause(1))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, cluster.broker(1).address, DescribeClusterRequest())
        assert cluster.wait_for(bool, timeout=10)
        cluster.apply(sim.Stop(2), sim.Resume(1))
        assert [node.node_id for node in answer.result(10).brokers] == [1, 3]


def test_a_client_that_has_disconnected_is_not_answered(simulated_kafka: MakeSimulatedCluster) -> None:
    """A fault waits for a client that is still connected."""
    cluster = simulated_kafka(sim.KRaft("4.2", brokers=1))
    for _ in range(20):
        cluster.apply(sim.Pause(1))
        with RawClient(cluster.broker(1)) as client:
            asked = len(cluster.requests)
            client.send(API_VERSIONS, 4)
            assert cluster.wait_for(lambda requests, asked=asked: len(requests) > asked, timeout=10)
        cluster.broker(1).error_once(7)
        cluster.apply(sim.Resume(1))
        assert tell(cluster.broker(1)).error_code == 7


def test_answers_come_in_the_order_of_the_requests(simulated_kafka: MakeSimulatedCluster) -> None:
    """Requests after one without an answer wait too."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.apply(sim.Kill(3000), sim.Kill(3001))
    with RawClient(cluster.broker(1)) as client:
        client.send(wants({"group.version": 1}), 2)
        client.send(API_VERSIONS, 4)
        assert cluster.wait_for(bool, timeout=10)
        cluster.apply(sim.Start(3000))
        assert [client.receive_frame()[:4] for _ in range(2)] == [b"\0\0\0\x01", b"\0\0\0\x02"]


def test_a_controller_that_an_update_kills_stops_listening(simulated_kafka: MakeSimulatedCluster) -> None:
    """An update through one socket closes the listener of another node."""
    cluster = simulated_kafka(sim.KRaft("3.3"))
    cluster.apply(sim.Partition((3002,)), *(sim.Roll(node, "3.9") for node in (3000, 3001, 1, 2, 3)), sim.Heal())
    assert ask(cluster.broker(1).address, wants({"metadata.version": 8})).results[0].error_code == 0
    assert cluster.current.nodes[3002].status == "died"
    assert _shuts(cluster, 3002)


def _shuts(cluster: SimulatedCluster, node_id: int) -> bool:
    cluster.apply(sim.Tick(0))  # goes through the loop, behind what is being shut
    return not cluster.broker(node_id).listener.is_open


def test_an_event_that_cannot_happen_changes_nothing(simulated_kafka: MakeSimulatedCluster) -> None:
    """The events before it stay."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    with pytest.raises(sim.ScriptError):
        cluster.apply(sim.Tick(5), sim.Stop(77), sim.Tick(5))
    assert cluster.current.ticks == 5
    assert fg.discover(cluster.bootstrap).epoch == cluster.current.offset


def test_what_only_a_fake_cluster_does_names_the_event_to_use(simulated_kafka: MakeSimulatedCluster) -> None:
    """The error of each method names the event to use."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    for call, event in (
        (lambda: cluster.finalize({"group.version": 1}), "apply(upgrade({'group.version': 1}))"),
        (lambda: cluster.advance_epoch(3), "apply(Tick(3))"),
        (lambda: cluster.add_broker(4, release="4.3"), "apply(Join(4, '4.3'))"),
        (lambda: cluster.remove_broker(4), "apply(Leave(4))"),
        (cluster.rebuild, "apply(Rebuild())"),
    ):
        with pytest.raises(TypeError) as refused:
            call()
        assert event in str(refused.value)


def test_a_closed_cluster_does_nothing_any_more() -> None:
    """The cluster value does not change."""
    with SimulatedCluster(sim.KRaft("4.2")) as cluster:
        before = cluster.current
    with pytest.raises(fg.FeatureGateError, match="not running"):
        cluster.apply(sim.Tick(1))
    assert cluster.current is before


def test_without_a_quorum_controllers_name_none(simulated_kafka: MakeSimulatedCluster) -> None:
    """Brokers report a live broker as the controller."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.apply(sim.Kill(3000), sim.Kill(3001))
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    assert ask(cluster.broker(3002).address, request, role="controller").controller_id == -1
    assert ask(cluster.broker(2).address, DescribeClusterRequest()).controller_id == 1


def test_controllers_describe_the_cluster_since_3_7(simulated_kafka: MakeSimulatedCluster) -> None:
    """The finalized level decides, not the release."""
    cluster = simulated_kafka(sim.KRaft("3.9", levels={"metadata.version": 14}))
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    refused = ask(cluster.broker(3000).address, request, role="controller")
    assert (refused.error_code, refused.error_message) == (
        35,
        "Direct-to-controller communication is not supported with the current MetadataVersion.",
    )
    cluster.apply(sim.upgrade({"metadata.version": 15}))
    assert ask(cluster.broker(3000).address, request, role="controller").controller_id == 3000


def test_the_last_answer_to_an_operator_is_returned(simulated_kafka: MakeSimulatedCluster) -> None:
    """A test gets the answer without a client."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    assert cluster.apply(sim.UpdateFeatures({"group.version": 9})).error_code == 95
    assert cluster.apply(sim.upgrade({"group.version": 1}), sim.Tick(1)) is None


def test_faults_of_single_answers_work_as_on_any_fake_broker(simulated_kafka: MakeSimulatedCluster) -> None:
    """The next answer has the fault, and later answers have none."""
    cluster = simulated_kafka(sim.KRaft("4.2"))
    cluster.broker(3).error_once(7)
    assert [broker.failure.kind for broker in fg.discover(cluster.bootstrap).missing] == ["REQUEST_TIMED_OUT"]
    assert not fg.discover(cluster.bootstrap).missing


def test_the_right_password_is_accepted(simulated_kafka: MakeSimulatedCluster) -> None:
    """A simulated cluster takes passwords as a fake cluster does."""
    cluster = simulated_kafka(sim.KRaft("4.2", brokers=1), passwords={"ann": "secret"})
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }
    assert fg.discover(config).level("group.version") == 1


def test_kafka_python_describes_and_updates_the_features(simulated_kafka: MakeSimulatedCluster) -> None:
    """A client that shares no code with featuregate makes a whole upgrade."""
    cluster = simulated_kafka(sim.KRaft("3.9"))
    cluster.apply(*(sim.Roll(node, "4.2") for node in EVERYBODY))
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        assert admin.describe_features()["metadata.version"]["finalized"] == (21, 21)
        with pytest.raises(InvalidUpdateVersionError, match="only supports versions 7-29"):
            admin.update_features({"metadata.version": ("UPGRADE", 30)})
        admin.update_features({"metadata.version": ("UPGRADE", 25), "group.version": ("UPGRADE", 1)})
        assert admin.describe_features()["group.version"]["finalized"] == (1, 1)
    finally:
        admin.close()
    assert cluster.current.levels == {"metadata.version": 25, "group.version": 1}


def test_a_cluster_with_zookeeper_is_served_too(simulated_kafka: MakeSimulatedCluster) -> None:
    """kafka-python gets both finalized levels, and a broker that died is not listed."""
    cluster = simulated_kafka(sim.ZooKeeper("v1-v2"))
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        found = admin.describe_features()["group_coordinator"]
    finally:
        admin.close()
    assert found == {"supported": (1, 2), "finalized": (1, 2), "finalized_epoch": 0}
    asked = ask(cluster.broker(2).address, wants({"group_coordinator": 1}, upgrade_type=1))
    assert (asked.error_code, asked.results) == (41, ())
    cluster.apply(sim.Stop(1))
    admin = KafkaAdminClient(bootstrap_servers=cluster.broker(3).address)
    try:  # it asks the new controller by itself
        admin.update_features({"group_coordinator": ("SAFE_DOWNGRADE", 1)})
    finally:
        admin.close()
    assert cluster.current.levels == {"group_coordinator": 1}
    cluster.apply(sim.Start(1), sim.upgrade({"group_coordinator": 2}), sim.Roll(3, "v1"))
    assert [broker.node_id for broker in fg.discover(cluster.bootstrap).brokers] == [1, 2]
    assert not cluster.broker(3).listener.is_open
