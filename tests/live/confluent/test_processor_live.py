"""The processor on a real broker: how it stops, what it does with poison, and what rebalances do to it."""

import gc
import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from eos.processors import Copier, Running, processor
from waiting import eventually

from featuregate.errors import ClosedError
from featuregate.testing import LocalKafka
from featuregate_confluent import DeadLetter, Model, Record, SwitchFatal, TransformFailed
from featuregate_confluent.events import (
    DeadLettered,
    Fenced,
    LatchRead,
    ModelChanged,
    PartitionsTakenOver,
    Rejoining,
    Stopped,
    TransactionAborted,
    TransactionCommitted,
)

pytestmark = [pytest.mark.live, pytest.mark.slow]

LONG = {"session.timeout.ms": 60_000, "max.poll.interval.ms": 60_000}
"""Who is gone without a word is missed after a minute."""
AT_ONCE = 15.0
"""Seconds: far less than that minute, also on a machine that is busy."""
SHORT = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300}

RANGE = {"partition.assignment.strategy": "range", **SHORT}
STICKY = {"partition.assignment.strategy": "cooperative-sticky", **SHORT}
KIP_848 = {"group.protocol": "consumer"}


class Halting(Copier):
    """A transform that blocks in its first call until it is released."""

    def __init__(self, sink: str) -> None:
        super().__init__(sink)
        self.reached = threading.Event()
        self.released = threading.Event()

    def __call__(self, messages: Sequence[Message], /) -> Iterator[Record]:
        self.reached.set()
        assert self.released.wait(BOUND), "the test did not let it go on"
        return super().__call__(messages)


class Choking(Copier):
    """A transform that raises at some of the inputs."""

    def __init__(self, sink: str, poison: bytes, failure: type[BaseException] = ValueError) -> None:
        super().__init__(sink)
        self.poison = poison
        self.failure = failure

    def __call__(self, messages: Sequence[Message], /) -> Iterator[Record]:
        if any(message.value() == self.poison for message in messages):
            raise self.failure(f"no such bill: {self.poison.decode()}")
        return super().__call__(messages)


def owns(partitions: int) -> Any:
    """Return the condition that a member is running and owns so many partitions."""
    return lambda health: health["status"] == "ok" and health["partitions"] == partitions


# ---------------------------------------------------------------- stopping


def footprint() -> tuple[int, int]:
    """Count the threads of this process, Python's and librdkafka's, and its files and connections."""
    gc.collect()
    this = psutil.Process()
    return this.num_threads(), this.num_fds()


@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_nothing_is_left_of_a_processor_that_has_stopped(kafka: LocalKafka, tmp_path: Path, model: str) -> None:
    """No thread, connection or file is left, and its number is free for the next process."""
    pipe = Pipe.on(kafka, "footprint", partitions=3)
    with Ledger(pipe) as ledger:
        ledger.feed_now(30)
    threads, files = footprint()
    options = {"name": None, "state_dir": tmp_path, "model": model}
    with Running(pipe, **options) as one:
        one.until(owns(3))
        eventually(lambda: sum(event.messages for event in one.of(TransactionCommitted)) == 30, "all is done")
        process = one.health["process"]
        busy = footprint()
    assert busy > (threads, files)
    eventually(lambda: footprint()[0] <= threads, "every thread has ended")
    eventually(lambda: footprint()[1] <= files, "every connection and file is closed")
    assert not pipe.members()
    with processor(pipe, **options) as other:
        assert (other.switch.process.name, other.switch.process.stable) == (process, True)


@pytest.mark.parametrize("group", [RANGE, STICKY, KIP_848], ids=["range", "sticky", "kip-848"])
def test_a_processor_that_stops_finishes_its_transaction_and_hands_over_at_once(
    kafka: LocalKafka, group: dict[str, Any]
) -> None:
    """The member leaves the group: its session would have lasted for another minute."""
    pipe = Pipe.on(kafka, "stop", partitions=2)
    halting = Halting(pipe.sink)
    consumer = group if "group.protocol" in group else {**group, **LONG}
    with (
        Ledger(pipe) as ledger,
        Running(pipe, name="one", transform=halting, consumer=consumer) as one,
        Running(pipe, name="two", consumer=consumer) as two,
    ):
        one.until(owns(1))
        two.until(owns(1))
        ledger.feed_now(100)
        assert halting.reached.wait(BOUND)
        one.processor.stop()
        assert one.health["status"] == "stopping"
        halting.released.set()
        one.wait()
        two.until(owns(2), AT_ONCE)
        ledger.feed_now(20)
        balance = ledger.balance()
    assert (one.failure, two.failure) == (None, None)
    assert balance.exactly_once, balance
    assert (one.health["status"], one.health["committed"], one.health["aborted"]) == ("stopped", 1, 0)
    assert one.events[-1] == Stopped(committed=1, aborted=0)
    assert not two.of(Fenced)


def test_stop_from_a_signal_handler(kafka: LocalKafka) -> None:
    """An app may do so on SIGTERM: the open transaction is finished, and run() returns in the main thread."""
    pipe = Pipe.on(kafka, "signal")
    with Ledger(pipe) as ledger:
        one = processor(pipe, transform=Copier(pipe.sink, seconds=0.02))
        before = signal.signal(signal.SIGUSR1, lambda *_: one.stop())
        try:
            with ledger.load(300):
                sender = threading.Thread(target=_kill_when, args=(ledger, 200), name="sender")
                sender.start()
                one.run()
                sender.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert one.health()["status"] == "stopped"
        assert not pipe.members()
        done = ledger.settled()
        assert done.outputs >= 200
        assert not done.duplicated
        with Running(pipe):
            ledger.balance().assert_exactly_once()


def _kill_when(ledger: Ledger, outputs: int) -> None:
    ledger.wait_for(outputs)
    os.kill(os.getpid(), signal.SIGUSR1)


def test_what_interrupts_the_transform_ends_run_before_its_transaction_begins(kafka: LocalKafka) -> None:
    """Ctrl-C is no poison: run() raises it, the member leaves, and nothing is lost or duplicated."""
    pipe = Pipe.on(kafka, "interrupt")
    with Ledger(pipe) as ledger:
        ledger.feed_now(50)
        one = processor(
            pipe, transform=Choking(pipe.sink, b"input 0", KeyboardInterrupt), poison=DeadLetter("dead"), consumer=LONG
        )
        with pytest.raises(KeyboardInterrupt):
            one.run()
        assert (one.health()["status"], one.health()["aborted"]) == ("failed", 0)
        assert ledger.settled().outputs == 0
        with Running(pipe, consumer=LONG) as again:
            again.until(owns(1), AT_ONCE)
            ledger.balance().assert_exactly_once()


def test_a_with_block_waits_until_the_thread_that_runs_has_closed_everything(kafka: LocalKafka) -> None:
    """After the block the transaction has ended. A processor runs once."""
    pipe = Pipe.on(kafka, "block")
    halting = Halting(pipe.sink)
    with Ledger(pipe) as ledger, Running(pipe, transform=halting) as one:
        ledger.feed_now(10)
        with one.processor as same:
            assert halting.reached.wait(BOUND)
            with pytest.raises(ClosedError, match="runs once"):
                same.run()
            threading.Timer(0.3, halting.released.set).start()
        assert halting.released.is_set()
        assert same.health()["status"] == "stopped"
        assert not pipe.members()
        with pytest.raises(ClosedError, match="runs once"):
            same.run()
        assert one.of(Stopped) == [Stopped(committed=1, aborted=0)]
        with Running(pipe):
            ledger.balance().assert_exactly_once()


# ---------------------------------------------------------------- side by side


@pytest.fixture(scope="module")
def alone() -> Iterator[LocalKafka]:
    with LocalKafka("4.2.0") as cluster:
        yield cluster


class Stalling(Copier):
    """A transform that pauses the broker in one call, and resumes it in the next, of another partition."""

    def __init__(self, sink: str, kafka: LocalKafka) -> None:
        super().__init__(sink)
        self.kafka = kafka
        self.armed = threading.Event()
        self.paused = False

    def __call__(self, messages: Sequence[Message], /) -> Iterator[Record]:
        (node,) = self.kafka.nodes
        records = list(super().__call__(messages))
        if self.armed.is_set():
            self.armed.clear()
            self.paused = True
            self.kafka.pause(node)
        elif self.paused:
            self.paused = False
            self.kafka.resume(node)
        return iter(records)


@pytest.mark.parametrize("model", ["legacy", "bridge"])
def test_a_partition_need_not_wait_for_the_commit_of_another(alone: LocalKafka, model: str) -> None:
    """The second partition is processed while the first commit cannot end; both count once."""
    pipe = Pipe.on(alone, "side-by-side", partitions=2)
    with Ledger(pipe) as ledger:
        stalling = Stalling(pipe.sink, alone)
        with Running(pipe, transform=stalling, model=model, linger=1.0) as one:
            one.warm_up(ledger)
            stalling.armed.set()
            ledger.feed_now(100)
            ledger.wait_for(ledger.fed)
        balance = ledger.balance()
    assert (one.failure, one.health["aborted"]) == (None, 0)
    assert balance.exactly_once, balance


# ---------------------------------------------------------------- poison


@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_a_transform_that_fails_ends_run_and_nothing_of_the_batch_counts(kafka: LocalKafka, model: str) -> None:
    """The error names the offsets; a restart with a corrected transform loses nothing."""
    pipe = Pipe.on(kafka, "poison")
    with Ledger(pipe) as ledger:
        ledger.feed_now(100)
        with Running(pipe, transform=Choking(pipe.sink, b"input 0"), model=model) as one:
            failure = one.ended()
        assert isinstance(failure, TransformFailed)
        assert isinstance(failure.__cause__, ValueError)
        assert "ValueError: no such bill: input 0, for " in str(failure)
        assert f"from {pipe.source}[0]@0 to {pipe.source}[0]@" in str(failure)
        assert (one.health["status"], one.health["error"]) == ("failed", f"TransformFailed: {failure}")
        assert one.events[-1] == Stopped(committed=0, aborted=0)
        assert ledger.settled().outputs == 0
        with Running(pipe, model=model):
            ledger.balance().assert_exactly_once()


def letters(pipe: Pipe, topic: str, isolation: str = "read_committed") -> list[Message]:
    config = {"group.id": "letters", "isolation.level": isolation, "enable.partition.eof": True}
    with Consumer({**pipe.client, **config}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while True:
            (message,) = consumer.consume(1, BOUND)
            if message.error() is not None:
                return found
            found.append(message)


@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_dead_letters_are_part_of_the_transaction_of_the_rest(kafka: LocalKafka, model: str) -> None:
    """They are aborted with the batch. In the end each is there once, and says why and from where.

    The batch is aborted because the transform gives a record that is too large for another message.
    """
    pipe, dead = Pipe.on(kafka, "dead"), Pipe.on(kafka, "letters").sink
    choking = Choking(pipe.sink, b"no input yet")
    huge = _AndOneMore(choking, Record(pipe.sink, b"x" * 2_000_000))
    with Ledger(pipe) as ledger:
        with Running(pipe, transform=huge, linger=1.0, poison=DeadLetter(dead), model=model) as one:
            one.warm_up(ledger)
            before = ledger.fed
            choking.poison, huge.offset = f"input {before + 3}".encode(), before
            ledger.feed_now(50)
            ledger.wait_for(before + 48)
            eventually(lambda: len(one.of(DeadLettered)) == 2, "both are committed")
        balance = ledger.settled()
    assert one.failure is None
    assert one.of(TransactionAborted)
    lost = ((0, before), (0, before + 3))
    assert (balance.outputs, balance.lost, balance.duplicated) == (before + 48, lost, ())
    large, choked = letters(pipe, dead)
    assert (large.value(), choked.value(), choked.key()) == (f"input {before}".encode(), choking.poison, b"key 0")
    words = f"ValueError: no such bill: input {before + 3}"
    assert choked.headers() == [
        ("featuregate.error", words.encode()),
        ("featuregate.topic", pipe.source.encode()),
        ("featuregate.partition", b"0"),
        ("featuregate.offset", str(before + 3).encode()),
    ]
    refused, raised = one.of(DeadLettered)
    assert (refused.offset, "MSG_SIZE_TOO_LARGE" in refused.error) == (before, True)
    assert raised == DeadLettered(topic=pipe.source, partition=0, offset=before + 3, error=words)


class _AndOneMore:
    """A transform that adds one record for the message of an offset."""

    def __init__(self, transform: Copier, record: Record) -> None:
        self.transform = transform
        self.record = record
        self.offset = -1

    def __call__(self, messages: Sequence[Message], /) -> Iterator[Record]:
        yield from self.transform(messages)
        if any(message.offset() == self.offset for message in messages):
            yield self.record


# ---------------------------------------------------------------- rebalances


@pytest.mark.parametrize("group", [RANGE, STICKY, KIP_848], ids=["range", "sticky", "kip-848"])
@pytest.mark.proof("switch")
def test_members_join_and_leave_while_the_feed_goes_on(kafka: LocalKafka, group: dict[str, Any]) -> None:
    """Transactions are open at each rebalance. In the end the group is in v2, and each input has one output."""
    pipe = Pipe.on(kafka, "rebalances", partitions=6)
    options: dict[str, Any] = {"consumer": group, "transform": Copier(pipe.sink, seconds=0.03)}
    with Ledger(pipe) as ledger:
        with ledger.load(300), Running(pipe, name="one", **options) as one:
            one.until(owns(6))
            with Running(pipe, name="two", **options) as two:
                two.until(owns(3))
                with Running(pipe, name="three", **options) as three:
                    three.until(owns(2))
                    _everyone_works(ledger, one, two, three)
                    two.stop()
                    three.until(owns(3))
                    with Running(pipe, name="four", **options) as four:
                        four.until(owns(2))
                        _everyone_works(ledger, one, three, four)
                one.until(owns(6))
            _everyone_works(ledger, one)
            one.until(lambda health: health["latch"] == health["model"] == "v2")
            members = (one, two, three, four)
        assert [each.failure for each in members] == [None] * 4
        with Running(pipe, name="last", **options) as last:
            balance = ledger.balance()
        assert last.events[0] == LatchRead(latch=Model.V2, source="all marks")
    assert balance.exactly_once, balance
    assert not [event for each in members for event in each.events if isinstance(event, Fenced | Rejoining)]


def _everyone_works(ledger: Ledger, *members: Running) -> None:
    before = [each.health["committed"] for each in members]
    eventually(
        lambda: all(each.health["committed"] > count for each, count in zip(members, before, strict=True)),
        f"all of {[each.health for each in members]} go on, {ledger.glance()}",
    )


# ---------------------------------------------------------------- static membership


@pytest.mark.parametrize("group", [{**RANGE, **LONG}, {**STICKY, **LONG}, KIP_848], ids=["range", "sticky", "kip-848"])
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    kafka: LocalKafka, group: dict[str, Any]
) -> None:
    """It comes back within its session: no other member is assigned anything meanwhile."""
    pipe = Pipe.on(kafka, "static", partitions=4)

    def member(name: str) -> Running:
        return Running(pipe, name=None, consumer={**group, "group.instance.id": name})

    with Ledger(pipe) as ledger, member("one") as one, member("two") as two:
        one.until(owns(2))
        two.until(owns(2))
        ledger.feed_now(40)
        ledger.wait_for(40)
        assert one.health["process"] == "one"
        before = two.of(PartitionsTakenOver)
        one.stop()
        ledger.feed_now(40)
        with member("one") as again:
            again.until(owns(2), AT_ONCE)
            balance = ledger.balance()
            assert two.of(PartitionsTakenOver) == before
            assert two.health["partitions"] == 2
    assert balance.exactly_once, balance


@pytest.mark.parametrize("group", [RANGE, {**KIP_848}], ids=["range", "kip-848"])
def test_two_processes_with_one_group_instance_id_are_reported(kafka: LocalKafka, group: dict[str, Any]) -> None:
    """In a classic group the older process ends; in a KIP-848 group the younger one has to wait."""
    pipe = Pipe.on(kafka, "same-instance", partitions=2)
    options: dict[str, Any] = {"consumer": {**group, "group.instance.id": "same"}}
    with Ledger(pipe) as ledger, Running(pipe, name=None, **options) as elder:
        elder.until(owns(2))
        ledger.feed_now(20)
        with Running(pipe, name=None, **options) as younger:
            if group is RANGE:
                failure, stays = elder.ended(), younger
                assert isinstance(failure, SwitchFatal)
                assert re.search("another process (has this one's|runs with this) group.instance.id", str(failure))
            else:
                eventually(lambda: younger.of(Rejoining), "it is told that the name is taken")
                assert "another member has this one's group.instance.id" in younger.of(Rejoining)[0].why
                stays = elder
            stays.until(owns(2))
            ledger.feed_now(20)
            ledger.wait_for(40)
        ledger.settled().assert_exactly_once()


def test_a_cooperative_member_beside_an_eager_one_ends_with_the_property(kafka: LocalKafka) -> None:
    """The coordinator refuses it; the other member goes on."""
    pipe = Pipe.on(kafka, "strategies", partitions=2)
    with Ledger(pipe) as ledger, Running(pipe, consumer=RANGE) as eager:
        eager.until(owns(2))
        with Running(pipe, consumer=STICKY) as cooperative:
            failure = cooperative.ended()
        assert isinstance(failure, SwitchFatal)
        assert "partition.assignment.strategy" in str(failure)
        ledger.feed_now(20)
        ledger.wait_for(20)
        ledger.settled().assert_exactly_once()
        assert eager.health["status"] == "ok"


def test_two_processes_of_one_name_end_with_its_name(kafka: LocalKafka) -> None:
    """They take each other's transactional id in turns, until one stops and says why."""
    pipe = Pipe.on(kafka, "same-name", partitions=2)
    options: dict[str, Any] = {"consumer": RANGE, "model": "v2", "transform": Copier(pipe.sink, seconds=0.02)}
    with Ledger(pipe) as ledger:
        with (
            ledger.load(100),
            Running(pipe, name="same", **options) as one,
            Running(pipe, name="same", **options) as two,
        ):
            eventually(lambda: not (one.alive and two.alive), "one has given up", 2 * BOUND)
            failure = one.failure or two.failure
            assert isinstance(failure, SwitchFatal)
            assert "Another process has its name 'same'" in str(failure)
        with Running(pipe, name="same", **options):
            ledger.balance().assert_exactly_once()


# ---------------------------------------------------------------- what it tells


def kinds(running: Running) -> list[str]:
    return [type(event).__name__ for event in running.events]


def test_the_life_of_a_group_as_its_events_tell_it(kafka: LocalKafka) -> None:
    """From a pinned member over the move to the latch, each change is one event, in order."""
    pipe = Pipe.on(kafka, "life")
    with Ledger(pipe) as ledger:
        ledger.feed_now(1)
        with Running(pipe, model="bridge") as pinned:
            assert pinned.health["status"] in {"starting", "ok"}
            ledger.wait_for(1)
            pinned.until(lambda health: health["committed"])
        assert kinds(pinned) == ["ModelChanged", "PartitionsTakenOver", "LatchRead", "TransactionCommitted", "Stopped"]
        changed, took, latched, committed, stopped = pinned.events
        assert (changed.before, changed.after) == (None, Model.BRIDGE)
        assert took.partitions == 1
        assert 0 < took.seconds < BOUND
        assert latched == LatchRead(latch=Model.BRIDGE, source="commit")
        assert (committed.model, committed.messages, committed.generation) == (Model.BRIDGE, 1, took.generation)
        assert stopped == Stopped(committed=1, aborted=0)

        with Running(pipe) as moving:
            moving.until(lambda health: health["model"] == "v2")
            ledger.feed_now(1)
            moving.until(lambda health: health["committed"])
            health = moving.health
            assert health == {
                **health,
                "status": "ok",
                "error": None,
                "rejoins": 0,
                "model": "v2",
                "waiting": False,
                "gate": True,
                "latch": "v2",
                "partitions": 1,
                "producers": 1,
                "process": "one",
                "process_is_stable": True,
                "committed": 1,
                "aborted": 0,
                "discovery": "ok",
            }
            assert health["generation"] >= 0
        assert kinds(moving) == [
            "LatchRead",
            "ModelChanged",
            "PartitionsTakenOver",
            "ModelChanged",
            "LatchRead",
            "TransactionCommitted",
            "Stopped",
        ]
        assert moving.events[0] == LatchRead(latch=Model.BRIDGE, source="all marks")
        assert [event.after for event in moving.of(ModelChanged)] == [Model.BRIDGE, Model.V2]
        assert moving.events[4] == LatchRead(latch=Model.V2, source="commit")

        ledger.feed_now(1)
        with Running(pipe) as latched_before:
            latched_before.until(lambda health: health["committed"])
        assert kinds(latched_before) == [
            "LatchRead",
            "ModelChanged",
            "PartitionsTakenOver",
            "TransactionCommitted",
            "Stopped",
        ]
        assert latched_before.of(ModelChanged)[0].after is Model.V2
        ledger.balance().assert_exactly_once()


# ---------------------------------------------------------------- brokers


@pytest.mark.proof("switch")
def test_it_goes_on_when_its_only_broker_comes_back() -> None:
    """The client may wait for ever for the previous broker: then only that producer is left behind."""
    with LocalKafka("4.2.0") as kafka, Ledger(pipe := Pipe.on(kafka, "restart", partitions=2)) as ledger:
        with ledger.load(100), Running(pipe, transform=Copier(pipe.sink, seconds=0.02), consumer=LONG) as one:
            ledger.wait_for(200)
            kafka.stop(1)
            kafka.start(1)
            before = ledger.fed
            ledger.wait_for(before + 200, 2 * BOUND)
            one.until(lambda health: health["status"] == "ok")
        with Running(pipe):
            balance = ledger.balance()
    assert one.failure is None
    assert balance.exactly_once, balance
