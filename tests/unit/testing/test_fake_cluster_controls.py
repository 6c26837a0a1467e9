"""The controls of a running fake cluster, as a client sees them."""

import threading

import pytest
from raw_client import API_VERSIONS, RawClient, describe, tell

from featuregate.testing import FakeCluster
from featuregate.wire.cluster import DescribeClusterRequest

# ---------------------------------------------------------------------- one broker tells something else


def test_set_changes_what_is_given_and_nothing_else(fake_kafka: FakeCluster) -> None:
    before = tell(fake_kafka.broker(2))
    fake_kafka.broker(2).set(api_ranges={18: (0, 4), 28: (0, 1)}, epoch=7)
    after = tell(fake_kafka.broker(2))
    assert (after.api_ranges, after.epoch) == ({18: (0, 4), 28: (0, 1)}, 7)
    assert (after.supported, after.finalized) == (before.supported, before.finalized)
    assert tell(fake_kafka.broker(1)) == before


def test_upgrade_brings_another_release_on_new_connections() -> None:
    """A restart ends connections, and changes the supported but not the finalized levels."""
    with FakeCluster(brokers=2, release="3.9") as cluster, RawClient(cluster.broker(2)) as client:
        before = client.ask(API_VERSIONS, 4)
        cluster.roll(2, "4.2")
        with pytest.raises(ConnectionError):
            client.ask(API_VERSIONS, 4)
        after = tell(cluster.broker(2))
    assert after.api_ranges[28] > before.api_ranges[28]
    assert after.supported["group.version"] == (0, 1)
    assert (after.finalized, after.epoch) == (before.finalized, before.epoch)


# ---------------------------------------------------------------------- whether it answers


def test_a_stopped_broker_refuses_and_comes_back_on_its_port(fake_kafka: FakeCluster) -> None:
    broker = fake_kafka.broker(2)
    port = broker.port
    with RawClient(broker) as client:
        client.ask(API_VERSIONS, 4)
        broker.stop()
        broker.stop()
        with pytest.raises(ConnectionError):
            client.ask(API_VERSIONS, 4)
    with pytest.raises(ConnectionRefusedError):
        tell(broker)
    broker.start()
    broker.start()
    assert broker.port == port
    assert tell(broker).error_code == 0


def test_a_paused_broker_accepts_requests_and_answers_nothing(fake_kafka: FakeCluster) -> None:
    broker = fake_kafka.broker(1)
    broker.pause()
    with RawClient(broker) as client:
        client.send(API_VERSIONS, 4)
        assert fake_kafka.wait_for(lambda asked: len(asked) == 1, timeout=10)
        broker.resume()
        client.send(API_VERSIONS, 4)
        assert client.receive_frame()[:4] == b"\0\0\0\x02"


# ---------------------------------------------------------------------- what goes wrong once


def test_answers_once_is_gone_after_one_answer(fake_kafka: FakeCluster) -> None:
    broker = fake_kafka.broker(1)
    truth = tell(broker)
    broker.answers_once(epoch=3, finalized={"group.version": 9})
    stale = tell(broker)
    assert (stale.epoch, stale.finalized, stale.api_ranges) == (3, {"group.version": (9, 9)}, truth.api_ranges)
    assert tell(broker) == truth


def test_answers_once_puts_another_cluster_id_in_the_next_answer_that_has_one(fake_kafka: FakeCluster) -> None:
    """ApiVersions has no cluster id, so the fault waits for an answer that has one."""
    broker = fake_kafka.broker(1)
    broker.answers_once(cluster_id="other")
    assert tell(broker).error_code == 0
    assert describe(broker).cluster_id == "other"
    assert describe(broker).cluster_id == fake_kafka.cluster_id


def test_faults_come_in_the_order_of_the_calls(fake_kafka: FakeCluster) -> None:
    broker = fake_kafka.broker(1)
    for epoch in (5, 4):
        broker.answers_once(epoch=epoch)
    broker.error_once(7)
    assert [tell(broker).epoch for _ in range(2)] == [5, 4]
    assert tell(broker).error_code == 7
    assert tell(broker).error_code == 0


def test_error_35_always_has_a_v0_body(fake_kafka: FakeCluster) -> None:
    """A fault follows the other rules of the protocol."""
    fake_kafka.broker(1).error_once(35)
    with RawClient(fake_kafka.broker(1)) as client:
        assert client.ask(API_VERSIONS, 4, answered_in=0).error_code == 35


@pytest.mark.parametrize("api", ["Metadata", "Fetch"])
def test_an_error_needs_an_answer_that_can_carry_it(fake_kafka: FakeCluster, api: str) -> None:
    """Metadata has no error code in most versions, and fake brokers do not answer Fetch."""
    with pytest.raises(ValueError, match=api):
        fake_kafka.broker(1).error_once(7, api=api)


def test_cut_once_sends_the_first_bytes_and_hangs_up(fake_kafka: FakeCluster) -> None:
    broker = fake_kafka.broker(1)
    with RawClient(broker) as client:
        client.send(API_VERSIONS, 4)
        good = client.receive_frame()
    for size in (0, 4, 10):
        broker.cut_once(after_bytes=size)
        with RawClient(broker) as client:
            client.send(API_VERSIONS, 4)
            assert client.receive_rest() == (len(good).to_bytes(4, "big") + good)[:size]


def test_garbage_once_sends_exactly_these_bytes(fake_kafka: FakeCluster) -> None:
    """A listener can be anything but Kafka."""
    fake_kafka.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with RawClient(fake_kafka.broker(1)) as client:
        client.send(API_VERSIONS, 4)
        assert client.receive_rest() == b"HTTP/1.1 400 Bad Request\r\n\r\n"


def test_delay_once_answers_later_and_in_order(fake_kafka: FakeCluster) -> None:
    """A late answer delays later ones of its connection, but not other connections."""
    broker = fake_kafka.broker(1)
    broker.delay_once(0.2)
    with RawClient(broker) as slow:
        slow.send(API_VERSIONS, 4)
        slow.send(DescribeClusterRequest(), 2)
        assert fake_kafka.wait_for(lambda asked: len(asked) == 1, timeout=10)
        assert tell(broker).error_code == 0
        assert [slow.receive_frame()[:4] for _ in range(2)] == [b"\0\0\0\x01", b"\0\0\0\x02"]


# ---------------------------------------------------------------------- the cluster moves on


def test_finalize_raises_the_epoch_on_every_broker(fake_kafka: FakeCluster) -> None:
    fake_kafka.finalize({"transaction.version": 1, "group.version": 0})
    answers = [tell(broker) for broker in fake_kafka.brokers]
    assert {answer.epoch for answer in answers} == {fake_kafka.epoch}
    assert all(answer.finalized["transaction.version"] == (1, 1) for answer in answers)
    assert all("group.version" not in answer.finalized for answer in answers)


def test_a_lagging_broker_reports_old_content_until_it_catches_up(fake_kafka: FakeCluster) -> None:
    broker = fake_kafka.broker(2)
    old = tell(broker)
    broker.lag()
    fake_kafka.finalize({"group.version": 0})
    fake_kafka.advance_epoch()
    assert tell(broker) == old
    broker.catch_up()
    assert tell(broker) == tell(fake_kafka.broker(1)) != old


def test_a_wrong_epoch_stays_until_the_cluster_changes(fake_kafka: FakeCluster) -> None:
    """A broker with a wrong epoch reads the next one, unless it lags."""
    fake_kafka.broker(1).set(epoch=1)
    fake_kafka.advance_epoch()
    assert tell(fake_kafka.broker(1)).epoch == fake_kafka.epoch


def test_added_brokers_are_listed_and_know_what_is_finalized(fake_kafka: FakeCluster) -> None:
    """By default a new broker has the next id and the first release."""
    fake_kafka.finalize({"group.version": 0})
    added = fake_kafka.add_broker()
    assert added.node_id == 4
    assert [node.node_id for node in describe(added).brokers] == [1, 2, 3, 4]
    assert tell(added) == tell(fake_kafka.broker(1))
    assert fake_kafka.add_broker(10, release="3.9").node_id == 10
    assert fake_kafka.broker(10).address in fake_kafka.bootstrap
    with pytest.raises(ValueError, match="node 10 already"):
        fake_kafka.add_broker(10)


def test_removed_brokers_are_listed_no_more_and_refuse(fake_kafka: FakeCluster) -> None:
    removed = fake_kafka.broker(3)
    fake_kafka.remove_broker(3)
    asked = describe(fake_kafka.broker(1), include_fenced_brokers=True).brokers
    assert [node.node_id for node in asked] == [1, 2]
    with pytest.raises(ConnectionRefusedError):
        tell(removed)
    with pytest.raises(KeyError):
        fake_kafka.broker(3)


def test_rebuild_puts_another_cluster_at_the_same_addresses(fake_kafka: FakeCluster) -> None:
    before, bootstrap = tell(fake_kafka.broker(1)), fake_kafka.bootstrap
    old_id = fake_kafka.cluster_id
    fake_kafka.broker(2).lag()
    fake_kafka.finalize({"group.version": 0})
    fake_kafka.advance_epoch(1000)
    with RawClient(fake_kafka.broker(1)) as client:
        client.ask(API_VERSIONS, 4)
        fake_kafka.rebuild()
        with pytest.raises(ConnectionError):
            client.ask(API_VERSIONS, 4)
    assert fake_kafka.bootstrap == bootstrap
    assert {describe(broker).cluster_id for broker in fake_kafka.brokers} == {fake_kafka.cluster_id} != {old_id}
    assert [tell(broker) for broker in fake_kafka.brokers] == [before] * 3


# ---------------------------------------------------------------------- what was asked


def test_the_log_has_every_request(fake_kafka: FakeCluster) -> None:
    tell(fake_kafka.broker(2), 3)
    describe(fake_kafka.broker(1), 1)
    assert fake_kafka.requests == ((2, "ApiVersions", 3, "raw"), (1, "DescribeCluster", 1, "raw"))


def test_controls_may_be_used_by_many_threads(fake_kafka: FakeCluster) -> None:
    """A client never sees a part of a change."""
    seen = []

    def move() -> None:
        for level in range(50):
            fake_kafka.broker(1).set(epoch=level, finalized={"group.version": level + 1})

    mover = threading.Thread(target=move)
    mover.start()
    with RawClient(fake_kafka.broker(1)) as client:
        while mover.is_alive():
            seen.append(client.ask(API_VERSIONS, 4))
    mover.join()
    seen.append(tell(fake_kafka.broker(1)))
    assert seen[-1].epoch == 49
    halves = [
        answer
        for answer in seen[1:]
        if answer.epoch < 50 and answer.finalized != {"group.version": (answer.epoch + 1,) * 2}
    ]
    assert halves == []
