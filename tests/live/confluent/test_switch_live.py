"""The switch in apps that own their loop, on real brokers: pinned models, unknown marks, refusals, and leaving."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from eos.gated import GatedApp
from eos.ledger import Ledger
from eos.naive import PATIENT
from eos.pipes import BOUND, SHORT_GROUPS, SILENT, Pipe, on, provenance
from eos.processors import Running
from topics import create_topics
from waiting import eventually

from featuregate import Gate, discover, presets
from featuregate.errors import ClosedError
from featuregate.testing import LocalKafka, StaticFeatures, release_view
from featuregate_confluent import (
    CommitRefused,
    ErrorAction,
    Model,
    ModelRefused,
    MustRejoin,
    SwitchFatal,
    safe_send_offsets,
)
from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.config.options import partition_transactional_id, process_transactional_id
from featuregate_confluent.errors import UnknownMark
from featuregate_confluent.events import Fenced, LatchRead, PartitionsTakenOver, Stopped, TransactionAborted
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.member.membership import leave_group
from featuregate_confluent.producing.offsets import read_group_metadata

pytestmark = [pytest.mark.live, pytest.mark.slow]

SHORT_SESSIONS = {
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 3000,
    "group.consumer.session.timeout.ms": 3000,
}
"""What brokers need to be told so that a KIP-848 group gives up a silent member within seconds."""


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> Iterator[LocalKafka]:
    if request.param != "4.2.0":
        yield shared_kafka(request.param)
        return
    with LocalKafka(request.param, properties=SHORT_GROUPS | SHORT_SESSIONS) as cluster:
        yield cluster


def marks(pipe: Pipe) -> dict[int, tuple[int, str | None]]:
    """Read what the group has committed: offset and metadata of each partition."""
    config = {**pipe.client, "group.id": pipe.group, "isolation.level": "read_committed"}
    with Consumer(config) as consumer:
        places = [TopicPartition(pipe.source, number) for number in range(pipe.partitions)]
        return {each.partition: (each.offset, each.metadata) for each in consumer.committed(places, BOUND)}


# ---------------------------------------------------------------- pinned models


@on("4.2.0")
@pytest.mark.parametrize(
    ("model", "producers", "tag"), [("legacy", 3, "legacy"), ("bridge", 3, "bridge"), ("v2", 1, "bridge")]
)
def test_a_pinned_model_stays_and_marks_what_it_commits(
    kafka: LocalKafka, model: str, producers: int, tag: str
) -> None:
    """The cluster allows all three models: the pinned one shows in producers, tag, and the mark of each offset."""
    pipe = Pipe.on(kafka, f"pinned-{model}", partitions=3)
    with Ledger(pipe) as ledger:
        ledger.feed_now(60)
        with Running(pipe, model=model) as one:
            ledger.wait_for(60)
            one.until(lambda health: health["gate"])
            assert (one.health["model"], one.health["latch"], one.health["producers"]) == (model, model, producers)
            assert [name for name in pipe.members().values() if name.endswith(f"#fg={tag}")]
            ledger.feed_now(60)
            ledger.wait_for(120)
            assert one.health["model"] == model
        ledger.settled().assert_exactly_once()
    assert marks(pipe) == dict.fromkeys(range(3), (40, f"fg1;model={model}"))


@on("2.4.1")
def test_v2_cannot_be_pinned_on_an_old_broker(kafka: LocalKafka) -> None:
    """run() ends with an error that names the broker and what it lacks, and nothing is processed."""
    pipe = Pipe.on(kafka, "pinned")
    with Ledger(pipe) as ledger:
        ledger.feed_now(10)
        with Running(pipe, model="v2") as one:
            refused = one.ended()
        assert isinstance(refused, ModelRefused)
        assert refused.model is Model.V2
        assert "TxnOffsetCommit" in str(refused)
        assert (one.health["status"], one.health["committed"]) == ("failed", 0)
        assert not pipe.members()
        assert ledger.settled().outputs == 0


# ---------------------------------------------------------------- marks of others


@on("4.2.0")
@pytest.mark.parametrize("text", ["fg2;model=v2", "fg1;model=v9"])
def test_a_mark_of_newer_software_ends_the_member(kafka: LocalKafka, text: str) -> None:
    """An unknown mark is not ignored: nothing is committed, and the mark stays as it was."""
    pipe = Pipe.on(kafka, "newer", partitions=2)
    with Consumer({**pipe.client, "group.id": pipe.group}) as outside:
        outside.commit(offsets=[TopicPartition(pipe.source, 1, 0, text)], asynchronous=False)
    with Ledger(pipe) as ledger:
        ledger.feed_now(20)
        with Running(pipe) as one:
            failure = one.ended()
        assert isinstance(failure, UnknownMark)
        assert text in str(failure)
        assert "upgrade featuregate" in str(failure)
        assert ledger.settled().outputs == 0
    assert marks(pipe)[1] == (0, text)
    assert not pipe.members()


# ---------------------------------------------------------------- safe_send_offsets


def features_of(pipe: Pipe, *releases: str) -> StaticFeatures:
    """Return features with a view of the pipe's cluster, as if its brokers had these releases."""
    return StaticFeatures(release_view(*releases, cluster_id=discover(dict(pipe.client)).cluster_id))


class ByHand:
    """An app without processor or switch: a consumer in its group, and a transactional producer."""

    def __init__(self, pipe: Pipe, **consumer: Any) -> None:
        self.pipe = pipe
        config = {"group.id": pipe.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self.consumer = Consumer({**pipe.client, **config, **consumer})
        self.producer = self.make()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        leave_group(self.consumer)

    def make(self) -> Producer:
        producer = Producer({**self.pipe.client, "transactional.id": f"{self.pipe.group}-hand", "linger.ms": 0})
        producer.init_transactions(BOUND)
        return producer

    def take(self) -> None:
        """Subscribe, consume one input, and begin a transaction with its output."""
        self.consumer.subscribe([self.pipe.source])
        (message,) = self.consumer.consume(1, BOUND)
        self.begin(message.value())

    def begin(self, value: bytes | None = b"") -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.pipe.sink, value)
        self.producer.flush(BOUND)

    def send(self, offset: int, gate: Gate | None = None, text: str = "", **more: Any) -> int:
        """Send the offset of partition 0; by default with a gate that is open for this cluster."""
        if gate is None:  # a closed gate is false
            gate = features_of(self.pipe, "4.2").gate("kip447", presets.kip447)
        place = (
            TopicPartition(self.pipe.source, 0, offset, text) if text else TopicPartition(self.pipe.source, 0, offset)
        )
        return safe_send_offsets(self.producer, self.consumer, [place], gate=gate, **more)


@on("4.2.0")
def test_offsets_count_only_where_they_were_accepted_and_committed(kafka: LocalKafka) -> None:
    """They have the given mark, and the call returns the generation in which they were sent."""
    pipe = Pipe.on(kafka, "send")
    with Ledger(pipe) as ledger, ByHand(pipe) as app:
        ledger.feed_now(3)
        app.take()
        assert app.send(1, mark=Mark(Model.V2, "ours")) >= 1
        app.producer.abort_transaction(BOUND)
        assert marks(pipe)[0][0] < 0
        app.begin()
        app.send(1, mark=Mark(Model.V2, "ours"))
        app.producer.commit_transaction(BOUND)
        assert marks(pipe)[0] == (1, "fg1;model=v2|ours")


@on("4.2.0")
def test_a_consumer_that_is_only_assigned_is_refused_where_the_broker_would_accept(kafka: LocalKafka) -> None:
    """The broker accepts offsets without a member: they would overwrite what the group's members commit."""
    pipe = Pipe.on(kafka, "assigned")
    with Ledger(pipe) as ledger, ByHand(pipe) as member, ByHand(pipe) as app:
        ledger.feed_now(3)
        member.consumer.subscribe([pipe.source])
        assert member.consumer.consume(1, BOUND)
        app.consumer.assign([TopicPartition(pipe.source, 0, 0)])
        assert app.consumer.consume(1, BOUND)
        app.begin()
        with pytest.raises(CommitRefused, match=r"not a member of its group \(generation -1") as refused:
            app.send(1)
        assert refused.value.action is ErrorAction.ABORT
        app.producer.abort_transaction(BOUND)
        assert marks(pipe)[0][0] < 0
        app.begin()
        unguarded = [TopicPartition(pipe.source, 0, 1)], app.consumer.consumer_group_metadata()
        app.producer.send_offsets_to_transaction(*unguarded, BOUND)
        app.producer.commit_transaction(BOUND)
        assert marks(pipe)[0][0] == 1


@on("4.2.0")
def test_refusals_say_what_helps(kafka: LocalKafka) -> None:
    """A missing transaction, too long metadata and another producer with the id each have an action."""
    pipe = Pipe.on(kafka, "refused")
    with Ledger(pipe) as ledger, ByHand(pipe) as app:
        ledger.feed_now(3)
        app.take()
        app.producer.abort_transaction(BOUND)
        assert _refusal(app) == (ErrorAction.ABORT, "_STATE")
        app.begin()
        assert _refusal(app, text="x" * 5000) == (ErrorAction.FATAL, "OFFSET_METADATA_TOO_LARGE")
        app.producer.abort_transaction(BOUND)
        app.begin()
        app.make()
        assert _refusal(app) == (ErrorAction.REJOIN, "_FENCED")
    assert marks(pipe)[0][0] < 0


@on("4.2.0")
def test_a_member_that_has_left_the_group_sends_nothing(kafka: LocalKafka) -> None:
    """A classic member leaves the group if it is not polled for too long, and then has no membership."""
    pipe = Pipe.on(kafka, "left")
    bounds = {"session.timeout.ms": 4000, "max.poll.interval.ms": 4000, "heartbeat.interval.ms": 300}
    with Ledger(pipe) as ledger, ByHand(pipe, **bounds) as app:
        ledger.feed_now(3)
        app.take()
        eventually(
            lambda: not read_group_metadata(app.consumer.consumer_group_metadata()).member_id, "it has left the group"
        )
        assert _refusal(app)[0] is ErrorAction.ABORT
        app.producer.abort_transaction(BOUND)
    assert marks(pipe)[0][0] < 0


@on("4.2.0")
def test_a_member_that_was_removed_is_refused(kafka: LocalKafka) -> None:
    """In a KIP-848 group only the broker knows that the member was removed."""
    pipe = Pipe.on(kafka, "thrown-out")
    with Ledger(pipe) as ledger, ByHand(pipe, **{"group.protocol": "consumer", "max.poll.interval.ms": 1500}) as app:
        ledger.feed_now(3)
        app.take()
        eventually(lambda: not pipe.members(), "the group has thrown it out")
        assert _refusal(app)[0] is ErrorAction.REJOIN
        app.producer.abort_transaction(BOUND)
    assert marks(pipe)[0][0] < 0


def _refusal(app: ByHand, **more: Any) -> tuple[ErrorAction, str]:
    """Send offsets that are refused; return the action and the name of the error."""
    with pytest.raises(CommitRefused) as refused:
        app.send(1, **more)
    cause = refused.value.__cause__
    return refused.value.action, cause.args[0].name() if isinstance(cause, KafkaException) else ""


# ---------------------------------------------------------------- a loop of the app's own


@on("4.2.0")
def test_an_app_that_owns_its_loop_replaces_its_consumer_on_must_rejoin(kafka: LocalKafka) -> None:
    """Its transactional id is taken during the feed: another consumer joins, and each input has one output."""
    pipe = Pipe.on(kafka, "own-loop", partitions=2)
    with Ledger(pipe) as ledger:
        with GatedApp("own", pipe, consumer=PATIENT) as app:
            with ledger.load(200):
                _turn_until(app, "it is in v2", lambda: app.switch.latch is Model.V2)
                before = ledger.different
                thief = Producer({**pipe.client, "transactional.id": process_transactional_id(pipe.group, "own")})
                thief.init_transactions(BOUND)
                _turn_until(app, "it was told", lambda: _of(app, Fenced))
                _turn_until(app, "it goes on", lambda: ledger.different >= before + 200)
            _turn_until(app, "all is done", lambda: ledger.different == ledger.fed)
        with pytest.raises(ClosedError):
            app.turn()
        ledger.settled().assert_exactly_once()
    assert len(_of(app, Fenced)) == 1
    assert len(_of(app, PartitionsTakenOver)) == 2
    assert app.events[-1] == Stopped(committed=app.switch.committed, aborted=app.switch.aborted)


@on("4.2.0")
def test_an_app_that_owns_its_loop_may_leave_and_come_back(kafka: LocalKafka) -> None:
    """The group rebalances at once, and messages that were consumed but not committed come again."""
    pipe = Pipe.on(kafka, "away", partitions=2)
    with Ledger(pipe) as ledger, GatedApp("away", pipe, consumer=PATIENT) as app:
        ledger.feed_now(20)
        _turn_until(app, "it has begun", lambda: ledger.different == 20)
        ledger.feed_now(20)
        _consumed(app)
        app.switch.leave()
        assert not pipe.members()
        with pytest.raises(SwitchFatal, match="subscribe"):
            app.switch.consume()
        app.switch.subscribe(Consumer(app.switch.consumer_config, logger=SILENT))
        _turn_until(app, "all is done", lambda: ledger.different == 40)
        ledger.settled().assert_exactly_once()


@on("4.2.0")
def test_what_an_error_leaves_of_a_round_comes_again(kafka: LocalKafka) -> None:
    """The app fails at the first of three partitions, catches the error, and goes on."""
    pipe = Pipe.on(kafka, "left", partitions=3)
    with Ledger(pipe) as ledger, GatedApp("left", pipe, model="bridge", consumer=PATIENT) as app:
        ledger.feed_now(30)
        _turn_until(app, "it has begun", lambda: ledger.different == 30)
        ledger.feed_now(30)
        left = 0
        while not left:
            try:
                for count, transaction in enumerate(app.switch.transactions(app.switch.consume(100, 1.0))):
                    left = len(transaction.messages)
                    with transaction:
                        raise ValueError(count)
            except ValueError:
                continue
        _turn_until(app, "all is done", lambda: ledger.different == 60)
        ledger.settled().assert_exactly_once()


@on("4.2.0")
@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_an_app_that_goes_on_with_a_consumer_that_was_replaced_gets_nowhere(kafka: LocalKafka, model: str) -> None:
    """Its messages may be committed, or another member's: no producer is opened before it has joined again (R10)."""
    pipe = Pipe.on(kafka, "nowhere", partitions=1)
    of_process, of_partition = process_transactional_id, partition_transactional_id
    id_ = of_process(pipe.group, "nowhere") if model == "v2" else of_partition(pipe.group, (pipe.source, 0))
    with Ledger(pipe) as ledger, GatedApp("nowhere", pipe, model=model, consumer=PATIENT) as app:
        ledger.feed_now(10)
        _turn_until(app, "it has begun", lambda: ledger.different == 10)
        ledger.feed_now(10)
        app.stall(10, "before send_offsets")
        thief = Producer({**pipe.client, "transactional.id": id_})
        thief.init_transactions(BOUND)
        assert app.go_on("before send_offsets").startswith("MustRejoin")
        ledger.feed_now(10)
        for _ in range(3):
            with pytest.raises(MustRejoin, match="another consumer has to be subscribed"):
                app.switch.consume(100, 1.0)
        assert app.switch.health()["partitions"] == 0
        app.switch.subscribe(Consumer(app.switch.consumer_config, logger=SILENT))
        _turn_until(app, "all is done", lambda: ledger.different == 30)
        ledger.settled().assert_exactly_once()


@on("4.2.0")
def test_a_delivery_callback_that_fails_changes_nothing(kafka: LocalKafka, caplog: pytest.LogCaptureFixture) -> None:
    """The client would raise the error from any call, as if the commit had failed; it is logged instead."""
    pipe = Pipe.on(kafka, "callback")
    with Ledger(pipe) as ledger, GatedApp("callback", pipe, model="bridge", consumer=PATIENT) as app:
        ledger.feed_now(10)
        found = _consumed(app)
        (transaction,) = app.switch.transactions(found)
        with transaction:
            for message in transaction.messages:
                transaction.produce(
                    pipe.sink,
                    message.value(),
                    message.key(),
                    headers=provenance(message),
                    on_delivery=lambda *_: 1 // 0,
                )
        assert app.switch.committed == 1
        _turn_until(app, "all is done", lambda: ledger.different == 10)
        ledger.settled().assert_exactly_once()
    assert caplog.text.count("ZeroDivisionError") >= len(transaction.messages)


@on("4.2.0")
def test_what_is_polled_within_a_transaction_takes_it_back(kafka: LocalKafka) -> None:
    """Its messages have come again by then: to commit them would duplicate them."""
    pipe = Pipe.on(kafka, "polled", partitions=2)
    with Ledger(pipe) as ledger, GatedApp("polled", pipe, model="v2", consumer=PATIENT) as app:
        ledger.feed_now(20)
        _turn_until(app, "it has begun", lambda: ledger.different == 20)
        ledger.feed_now(20)
        found = _consumed(app)
        for transaction in app.switch.transactions(found):
            with transaction:
                app._produce(transaction)
                again = app.switch.consume(100, 1.0)
        for transaction in app.switch.transactions(again):
            with transaction:
                app._produce(transaction)
        _turn_until(app, "all is done", lambda: ledger.different == 40)
        ledger.settled().assert_exactly_once()
    assert [event.why for event in _of(app, TransactionAborted)] == [
        "the consumer was polled within the transaction, whose messages come again"
    ]


@on("4.2.0")
def test_a_member_that_has_not_committed_in_v2_goes_back_down_with_its_cluster(kafka: LocalKafka) -> None:
    """It moves between transactions, with the producers of the lower model, and up again with the brokers."""
    pipe = Pipe.on(kafka, "down", partitions=2)
    features = features_of(pipe, "4.2", "4.2")
    assert features.view is not None
    cluster_id = features.view.cluster_id
    with Ledger(pipe) as ledger, GatedApp("down", pipe, features=features, consumer=PATIENT) as app:
        _turn_until(app, "it would commit in v2", lambda: app.switch.model is Model.V2)
        features.show(release_view("4.2", "2.4", cluster_id=cluster_id))
        _turn_until(app, "it has come down", lambda: app.switch.model is Model.LEGACY)
        ledger.feed_now(20)
        _turn_until(app, "it goes on", lambda: ledger.different == 20)
        assert app.switch.latch is Model.LEGACY
        features.show(release_view("4.2", "4.2", cluster_id=cluster_id))
        _turn_until(app, "it has come up", lambda: app.switch.model is Model.V2)
        ledger.feed_now(20)
        _turn_until(app, "all is done", lambda: ledger.different == 40)
        assert app.switch.latch is Model.V2
        ledger.settled().assert_exactly_once()


@on("4.2.0")
@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_a_rebalance_within_a_transaction_takes_it_back(kafka: LocalKafka, model: str) -> None:
    """Its producer may have been closed with its partition: the transaction is aborted, which is no error."""
    pipe = Pipe.on(kafka, "rebalanced", partitions=2)
    with Ledger(pipe) as ledger, GatedApp("one", pipe, model=model, consumer=PATIENT) as one:
        ledger.feed_now(20)
        _turn_until(one, "it has begun", lambda: ledger.different == 20)
        ledger.feed_now(20)
        found: list[Any] = []
        eventually(lambda: found.extend(one.switch.consume(100, 0.1)) or found, "it has consumed")
        transaction = next(one.switch.transactions(found))
        with GatedApp("two", pipe, model=model, consumer=PATIENT) as two:
            with transaction:
                one._produce(transaction)
                given = len(_of(one, PartitionsTakenOver))
                eventually(lambda: _polled(one) and len(_of(one, PartitionsTakenOver)) > given, "it was rebalanced")
            _turn_until(one, "all is done", lambda: two.turn() >= 0 and ledger.different == 40)
        ledger.settled().assert_exactly_once()
    assert len(_of(one, TransactionAborted)) == 1


@on("4.2.0")
def test_the_latch_topic_is_written_once_and_outlives_the_offsets(kafka: LocalKafka) -> None:
    """It is written with the first commit in v2 only. A group without offsets does not start from the beginning again,
    nor from the end: an operator resets its offsets, and it goes on in the model that the topic holds."""
    pipe = Pipe.on(kafka, "latch_in_topic", partitions=2)
    topic = f"{pipe.group}-latches"
    create_topics(pipe.client, topic, cleanup_policy="compact")
    with Ledger(pipe) as ledger:
        with GatedApp("latch_in_topic", pipe, consumer=PATIENT, latch_topic=topic) as app:
            for count in range(1, 6):
                ledger.feed_now(20)
                _turn_until(app, "a round is done", lambda: ledger.different == 20 * count)  # noqa: B023 - used at once
                _turn_until(app, "it is in v2", lambda: app.switch.model is Model.V2)
        with Consumer({**pipe.client, "group.id": f"{pipe.group}-reader"}) as reader:
            _, end = reader.get_watermark_offsets(TopicPartition(topic, 0), BOUND)
        assert end == len(["the record", "that its transaction was committed"])
        admin = AdminClient(dict(pipe.client))
        admin.delete_consumer_groups([pipe.group], request_timeout=BOUND)[pipe.group].result(BOUND)
        for reset in ("earliest", "latest"):
            config = {**PATIENT, "auto.offset.reset": reset}
            with (
                GatedApp("latch_in_topic", pipe, consumer=config, latch_topic=topic) as app,
                pytest.raises(SwitchFatal, match=r"no offset of it any more.*offsets\.retention\.minutes"),
            ):
                eventually(lambda: app.switch.consume(100, 0.2), "it has joined")
        ends = [TopicPartition(pipe.source, number, 0) for number in range(2)]
        with Consumer({**pipe.client, "group.id": pipe.group}) as reset_offsets:  # as kafka-consumer-groups.sh does
            for end in ends:
                _, end.offset = reset_offsets.get_watermark_offsets(end, BOUND)
            reset_offsets.commit(offsets=ends, asynchronous=False)
        with GatedApp("latch_in_topic", pipe, consumer=PATIENT, latch_topic=topic) as app:
            _turn_until(app, "it has joined", lambda: app.switch.generation >= 0)
            assert (app.switch.model, app.switch.latch) == (Model.V2, Model.V2)
            assert [event.source for event in _of(app, LatchRead)] == ["latch topic"]
            ledger.feed_now(20)
            _turn_until(app, "it goes on", lambda: ledger.different == 120)
        ledger.settled().assert_exactly_once()


@on("4.2.0")
def test_a_latch_topic_that_cannot_be_read_now_is_read_at_the_next_joining(kafka: LocalKafka) -> None:
    """Its leader may be restarting: the member joins again, and takes over nothing before."""
    pipe = Pipe.on(kafka, "unread")
    topic = f"{pipe.group}-latches"
    create_topics(pipe.client, topic, cleanup_policy="compact")
    with Ledger(pipe) as ledger, GatedApp("unread", pipe, consumer=PATIENT, latch_topic=topic) as app:
        observer = app.switch._observer
        there, away = observer.latch_topic, {**pipe.client, "bootstrap.servers": "127.0.0.1:1"}
        observer.latch_topic = LatchTopic(topic, away, group=pipe.group, gate="kip447")
        ledger.feed_now(10)
        with pytest.raises(MustRejoin, match="Try again"):
            eventually(lambda: app.switch.consume(100, 0.2), "it has tried")
        observer.latch_topic = there
        app.switch.subscribe(Consumer(app.switch.consumer_config, logger=SILENT))
        _turn_until(app, "all is done", lambda: ledger.different == 10)
        ledger.settled().assert_exactly_once()


def _polled(app: GatedApp) -> bool:
    app.switch.consume(100, 0.1)
    return True


def _of(app: GatedApp, kind: type) -> list[Any]:
    return [event for event in app.events if isinstance(event, kind)]


def _consumed(app: GatedApp) -> list[Any]:
    found: list[Any] = []
    eventually(lambda: found.extend(app.switch.consume(100, 0.1)) or found, "it has consumed")
    return found


def _turn_until(app: GatedApp, what: str, met: Any) -> None:
    eventually(lambda: app.turn() >= 0 and met(), what)


# ---------------------------------------------------------------- leaving

SIDE_BY_SIDE = 20
THROWN_OUT = """
import sys
from concurrent.futures import ThreadPoolExecutor

from eos.gated import GatedApp
from eos.ledger import Ledger
from eos.pipes import Pipe, QUIET

def thrown_out(name):
    pipe = Pipe({"bootstrap.servers": sys.argv[1], **QUIET}, f"{name}-group", f"{name}-in", f"{name}-out")
    with Ledger(pipe) as ledger, GatedApp("first", pipe) as first:
        ledger.feed_now(5)
        first.stall(5, "before send_offsets")
        with GatedApp("heir", pipe, consumer={"session.timeout.ms": 6000, "max.poll.interval.ms": 60000}) as heir:
            assert heir.run(5) == 5
        first.switch.leave()
        return ledger.settled().exactly_once

with ThreadPoolExecutor(len(sys.argv)) as pool:
    assert all(pool.map(thrown_out, sys.argv[2:]))
print("all have left")
"""


@on("4.2.0")
def test_a_member_that_was_removed_leaves_without_blocking(kafka: LocalKafka) -> None:
    """Many members leave side by side in another process: one that blocks would hold every thread of it.

    ``Consumer.close()`` alone stands still where the group has told it more than one thing meanwhile, which is a race
    that cannot be provoked at will: hence many, and no test of the unguarded way.
    """
    names = [Pipe.on(kafka, "leave").source.removesuffix("-in") for _ in range(SIDE_BY_SIDE)]
    done = subprocess.run(
        [sys.executable, "-c", THROWN_OUT, kafka.bootstrap, *names],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=2 * BOUND,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all have left\n"), done.stderr
