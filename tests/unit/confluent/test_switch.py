"""A member of a group on librdkafka's mock cluster: it takes over, commits, fails, and begins again."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition
from waiting import eventually

from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import Model, MustRejoin, ProducerSwitch, SwitchFatal
from featuregate_confluent.events import Fenced, PartitionsTakenOver, TransactionAborted
from featuregate_confluent.member import state
from featuregate_confluent.member.failure_limits import ABORTED_AT_MOST, LOST_AT_MOST, Failures
from featuregate_confluent.producing import transaction as transactions
from featuregate_confluent.producing.outcome import Lost

if TYPE_CHECKING:
    from mock_kafka import MockKafka

PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 0, 26, 28
BOUND = 30.0
SILENT = logging.getLogger("test.silent")
MESSAGES = 4


class App:
    """A loop around a switch, which the test runs round by round."""

    def __init__(self, kafka: MockKafka, **options: Any) -> None:
        base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self.events: list[object] = []
        self.values: list[bytes] = []
        self.partition = -1
        self.switch = ProducerSwitch(
            consumer={**base, "group.id": "billing", "auto.offset.reset": "earliest"},
            producer=base,
            topics=["^orders$"],
            app_id="billing",
            **{"features": StaticFeatures(release_view("2.4", cluster_id=kafka.cluster_id)), **options},
            metrics=self.events.append,
        )
        self.subscribe()

    def subscribe(self) -> None:
        self.switch.subscribe(Consumer(self.switch.consumer_config, logger=SILENT))

    def turn_until(self, done: Any) -> None:
        until = time.monotonic() + BOUND
        while not done():
            assert time.monotonic() < until, self.switch.health()
            for transaction in self.switch.transactions(self.switch.consume(10, 0.1)):
                with transaction:
                    for message in transaction.messages:
                        transaction.produce("bills", message.value(), partition=self.partition)
                        self.values.append(message.value() or b"")

    def seen(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def app_on(kafka: MockKafka, **options: Any) -> Iterator[App]:
    kafka.create_topic("bills")
    kafka.feed("orders", MESSAGES, partitions=2)
    app = App(kafka, **options)
    try:
        yield app
    finally:
        app.switch.close()


def test_a_member_takes_over_and_commits_each_partition_by_itself(kafka: MockKafka) -> None:
    """The cluster is too old for v2: the model is legacy, with a producer for each partition."""
    with app_on(kafka) as app:
        app.turn_until(lambda: app.switch.committed == 2)
        assert (app.switch.model, app.switch.latch) == (Model.LEGACY, Model.LEGACY)
        assert sorted(app.values) == [b"0", b"1", b"2", b"3"]
        assert [event.partitions for event in app.seen(PartitionsTakenOver)] == [2]
        health = app.switch.health()
        assert (health["partitions"], health["producers"], health["waiting"]) == (2, 2, False)


def test_offsets_that_are_refused_are_rolled_back_and_their_messages_come_again(kafka: MockKafka) -> None:
    kafka.answer(TXN_OFFSET_COMMIT, [KafkaError.ILLEGAL_GENERATION])
    with app_on(kafka) as app:
        app.turn_until(lambda: app.switch.committed == 2)
        assert len(app.seen(TransactionAborted)) == app.switch.aborted == 1
        assert len(app.values) == MESSAGES + 2
        assert app.switch.health()["producers"] == 2


def test_a_fenced_producer_costs_the_member_its_place(kafka: MockKafka) -> None:
    """The member owns nothing until another consumer is subscribed, which begins at the committed offsets."""
    kafka.answer(END_TXN, [KafkaError.INVALID_PRODUCER_EPOCH])
    with app_on(kafka) as app:
        with pytest.raises(MustRejoin, match=r"^_FENCED: .* transactional id is 'billing:orders-[01]'"):
            app.turn_until(lambda: app.switch.committed == 2)
        assert len(app.seen(Fenced)) == 1
        assert app.switch.health()["partitions"] == 0
        with pytest.raises(MustRejoin, match="another consumer has to be subscribed"):
            app.switch.consume()
        app.subscribe()
        assert app.switch.consume() == [], "it is on its way into the group again"


def test_a_transaction_is_left_open_where_no_broker_answers_its_offsets(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers might commit them with the producer's next transaction. The next producer ends this one."""
    monkeypatch.setattr(transactions, "SEND_SECONDS", 0.1)
    kafka.answer(TXN_OFFSET_COMMIT, [KafkaError.COORDINATOR_NOT_AVAILABLE] * 2)
    with app_on(kafka) as app:
        with pytest.raises(MustRejoin):
            app.turn_until(lambda: app.switch.committed == 2)
        gc.collect()
        assert (app.switch.aborted, kafka.count(END_TXN)) == (1, 0)


def test_aborts_without_an_end_are_told(kafka: MockKafka) -> None:
    """The app writes to a partition that is not there, and the member has joined again for that nine times."""
    with app_on(kafka) as app:
        app.partition = 7
        app.switch._state.failures = Failures(aborted=ABORTED_AT_MOST - 1, lost=LOST_AT_MOST - 1)
        with pytest.raises(SwitchFatal, match=r"^50 transactions in a row were aborted, .* not (delivered|taken)"):
            app.turn_until(lambda: False)
        assert app.switch.committed == 0


def test_a_round_that_was_not_given_to_transactions_comes_again(kafka: MockKafka) -> None:
    """The app caught an error before; a round of which it left out all messages is given as an empty one."""
    with app_on(kafka) as app:
        first: list[Any] = []
        until = time.monotonic() + BOUND
        while not first:
            assert time.monotonic() < until
            first = app.switch.consume(10, 0.1)
        app.turn_until(lambda: len(app.values) == MESSAGES)
        assert sorted(app.values) == [b"0", b"1", b"2", b"3"]


def test_a_switch_that_was_made_before_a_fork_says_so(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients have no threads in the child, and would time out for ever; what it closes is its parent's."""
    with app_on(kafka) as app:
        app.turn_until(lambda: app.switch.committed == 2)
        with monkeypatch.context() as forked:
            forked.setattr("os.getpid", lambda: 1)
            for call in (app.subscribe, app.switch.consume):
                with pytest.raises(SwitchFatal, match="made in another process"):
                    call()
            app.switch.leave()
        app.turn_until(lambda: app.switch.health()["partitions"] == 2)


def test_a_missing_right_ends_the_member(kafka: MockKafka) -> None:
    """A new member would lack the right as well."""
    kafka.answer(TXN_OFFSET_COMMIT, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with app_on(kafka) as app, pytest.raises(SwitchFatal, match="right"):
        app.turn_until(lambda: app.switch.committed == 2)


def test_a_member_that_has_left_needs_another_consumer(kafka: MockKafka) -> None:
    """Its producers are closed when the other consumer subscribes: the last failure may be theirs."""
    with app_on(kafka) as app:
        app.turn_until(lambda: app.switch.health()["partitions"] == 2)
        app.switch.leave()
        with pytest.raises(SwitchFatal, match="no consumer"):
            app.switch.consume()
        app.subscribe()
        assert (app.switch.health()["partitions"], app.switch.health()["producers"]) == (0, 0)
        assert app.switch.consume() == []


@pytest.mark.parametrize("model", ["auto", "legacy"])
def test_features_of_another_cluster_are_refused(kafka: MockKafka, model: str) -> None:
    """The view of a new cluster would open the gate on brokers that cannot fence, in a test's view as well."""
    other = StaticFeatures(release_view("4.2"))
    with pytest.raises(SwitchFatal, match=r"decided for cluster 'static', but .* connected to cluster 'mockCluster"):
        App(kafka, features=other, model=model)


def test_a_gate_that_was_forced_open_is_refused(kafka: MockKafka) -> None:
    """No broker of any cluster has proved it."""
    forced = StaticFeatures()
    forced.force_open("kip447")
    with pytest.raises(SwitchFatal, match="decided for no cluster"):
        App(kafka, features=forced)


def test_features_that_come_to_show_another_cluster_end_the_member(kafka: MockKafka) -> None:
    """The first view came after the member had subscribed."""
    late = StaticFeatures()
    with app_on(kafka, features=late) as app:
        app.turn_until(lambda: app.switch.committed == 2)
        late.show(release_view("4.2"))
        with pytest.raises(SwitchFatal, match="decided for cluster 'static'"):
            app.turn_until(lambda: False)


def test_a_commit_of_the_app_s_own_consumer_commits_nothing(kafka: MockKafka) -> None:
    """Without arguments it would commit what was consumed, without the mark that latches the group."""
    with app_on(kafka) as app:
        app.turn_until(lambda: app.switch.committed == 2)
        consumer = app.switch._membership.consumer
        with pytest.raises(KafkaException, match="No offset stored"):
            consumer.commit(asynchronous=False)
        places = [TopicPartition("orders", number) for number in range(2)]
        # The mock cluster does not apply the offsets of transactions.
        assert [place.offset for place in consumer.committed(places, BOUND)] == [OFFSET_INVALID] * 2


def test_a_commit_that_hangs_is_said(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The member is in order again once brokers have answered, and knows when that was."""
    monkeypatch.setattr(state, "COMMIT_SECONDS", 0.3)
    with app_on(kafka) as app:
        assert app.switch.health()["seconds_since_commit"] is None
        kafka.answer(END_TXN, [KafkaError.NO_ERROR], after_ms=3000)
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(app.turn_until, lambda: app.switch.committed == 2)
            eventually(lambda: app.switch.health()["waiting"], "it says so")
            health = app.switch.health()
            assert health["commit_seconds"] > 0.3
            assert health["why"].startswith("brokers have not answered a commit or abort for")
            ended.result(BOUND)
        health = app.switch.health()
        assert (health["waiting"], health["commit_seconds"], health["seconds_since_commit"] >= 0) == (False, 0.0, True)


@pytest.mark.parametrize(
    ("slow", "advice"), [(True, "consume fewer messages in a round"), (False, "brokers were slow")]
)
def test_fewer_messages_are_advised_only_where_the_app_s_code_was_slow(
    kafka: MockKafka, *, slow: bool, advice: str
) -> None:
    """A full disk or a quota is not mended by smaller rounds."""
    with app_on(kafka) as app:
        app.turn_until(lambda: app.switch.committed == 2)
        conclusions = app.switch._conclusions
        limit = conclusions.rounds.limits.transaction
        transaction: Any = SimpleNamespace(seconds=limit + 1, own_seconds=limit if slow else 0.1)
        words = conclusions._timed_out(transaction, Lost(why="_FENCED", fenced=True))
        assert advice in words
        assert "transaction.timeout.ms" in words
