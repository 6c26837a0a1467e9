"""Slow work on a real broker: an unbounded round never commits, and a bounded one does in every model."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from eos.ledger import Ledger
from eos.pipes import SILENT, Pipe, provenance
from eos.processors import Copier, Running
from waiting import eventually

from featuregate.testing import LocalKafka
from featuregate_confluent import MustRejoin, ProducerSwitch, Record, RoundTooLong
from featuregate_confluent.events import (
    RoundExceededLimit,
    RoundResized,
    SwitchEvent,
    TransactionAborted,
    TransactionCommitted,
)

pytestmark = [pytest.mark.live, pytest.mark.slow]

EACH = 0.025
"""Seconds of work for a message."""
LIMITS: dict[str, dict[str, Any]] = {
    "consumer": {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300, "max.poll.interval.ms": 4000},
    "producer": {"transaction.timeout.ms": 2000},
}
"""200 messages take 5 s, longer than either; the shared broker aborts a transaction soon after its time."""
PROOF = pytest.mark.proof("switch")
MODELS = pytest.mark.parametrize(
    "model", [pytest.param("legacy", marks=PROOF), pytest.param("bridge", marks=PROOF), "v2"]
)


class Worker(Copier):
    """A transform that takes some seconds for each message."""

    def __init__(self, sink: str, each: float = EACH) -> None:
        super().__init__(sink)
        self.each = each
        self.work = threading.Event()

    def __call__(self, messages: Sequence[Message], /) -> Iterator[Record]:
        self.work.wait(self.each * len(messages))
        return super().__call__(messages)


class Loop:
    """An app that owns its loop, and works within its transactions."""

    def __init__(self, pipe: Pipe, model: str) -> None:
        self.pipe = pipe
        self.events: list[SwitchEvent] = []
        self.left: list[float] = []
        self.switch = ProducerSwitch(
            consumer={**pipe.client, "group.id": pipe.group, "auto.offset.reset": "earliest", **LIMITS["consumer"]},
            producer={**pipe.client, "linger.ms": 0, **LIMITS["producer"]},
            topics=[pipe.source],
            app_id=pipe.group,
            instance_id="one",
            model=model,
            metrics=self.events.append,
            interval=1.0,
        )
        self._join()

    def _join(self) -> None:
        self.switch.subscribe(Consumer(self.switch.consumer_config, logger=SILENT))

    def turn(self, size: int) -> None:
        work = threading.Event()
        try:
            for transaction in self.switch.transactions(self.switch.consume(size, 1.0)):
                with transaction:
                    for message in transaction.messages:
                        transaction.produce(
                            self.pipe.sink, message.value(), key=message.key(), headers=provenance(message)
                        )
                        work.wait(EACH)
                    self.left.append(self.switch.time_left())
        except MustRejoin:
            self._join()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@MODELS
def test_a_round_that_outlives_its_limits_commits_nothing_and_a_bounded_one_gets_through(
    kafka: LocalKafka, model: str
) -> None:
    """The same loop runs first with 200 messages in a round, and then with as many as `round_size` allows."""
    pipe = Pipe.on(kafka, "own-loop")
    with Ledger(pipe) as ledger:
        ledger.feed_now(200)
        loop = Loop(pipe, model)
        with closing(loop.switch) as switch:
            eventually(lambda: loop.turn(200) or switch.aborted == 3, "three rounds have run")
            size = switch.round_size(200)
            lost = loop.of(RoundExceededLimit)
            assert (switch.committed, ledger.outputs, len(lost)) == (0, 0, 3)
            assert {event.limit for event in lost} == {"transaction.timeout.ms=2000"}
            assert size < 20
            loop.left.clear()
            aborted = switch.aborted
            eventually(lambda: loop.turn(switch.round_size(200)) or ledger.outputs == 200, "all is done")
        ledger.balance().assert_exactly_once()
    assert switch.aborted == aborted
    assert min(loop.left) > 0


@MODELS
def test_a_processor_gets_through_slow_work_without_an_abort(kafka: LocalKafka, model: str) -> None:
    """The transform becomes ten times slower, and a full batch would take longer than either limit."""
    pipe = Pipe.on(kafka, "bounded", partitions=3)
    worker = Worker(pipe.sink, EACH / 10)
    with Ledger(pipe) as ledger, Running(pipe, transform=worker, model=model, **LIMITS) as one:
        ledger.feed_now(1000)
        ledger.wait_for(500)
        worker.each = EACH
        one.until(lambda health: health["round_cut"] and health["round_size"] <= 8)
        balance = ledger.balance()
    assert one.failure is None
    assert balance.exactly_once, balance
    assert (one.of(TransactionAborted), one.health["aborted"], one.health["rejoins"]) == ([], 0, 0)
    # 120 on a quiet machine. A busy one adds seconds to some rounds, which are taken for fixed ones: 480 were seen.
    assert max(event.messages for event in one.of(TransactionCommitted)) < 500
    (cut,) = one.of(RoundResized)
    # Whichever is narrower: on a busy machine producing takes longer, while the transaction is open.
    assert (cut.most, cut.limit in {"max.poll.interval.ms=4000", "transaction.timeout.ms=2000"}) == (500, True)


def test_a_round_that_becomes_slow_leaves_the_partitions_that_it_has_not_begun(kafka: LocalKafka) -> None:
    """480 messages of 10 ms take 4.8 s, which is too long; two of the three partitions fit."""
    pipe = Pipe.on(kafka, "late", partitions=3)
    worker = Worker(pipe.sink, 0.0)
    with Ledger(pipe) as ledger, Running(pipe, transform=worker, model="bridge", linger=1.0, **LIMITS) as one:
        one.warm_up(ledger)
        worker.each = 0.01
        ledger.feed_now(480)
        balance = ledger.balance()
    assert one.failure is None
    assert balance.exactly_once, balance
    assert max(event.messages for event in one.of(TransactionCommitted)) == 160
    assert (one.of(TransactionAborted), one.health["aborted"]) == ([], 0)


def test_a_message_that_alone_takes_too_long_ends_run_with_the_name_of_the_property(kafka: LocalKafka) -> None:
    """The message was tried alone three times. It is not lost: faster work commits it later."""
    pipe = Pipe.on(kafka, "too-long")
    with Ledger(pipe) as ledger:
        ledger.feed_now(2)
        with Running(pipe, transform=Worker(pipe.sink, 5.0), model="v2", **LIMITS) as one:
            failure = one.ended()
        assert isinstance(failure, RoundTooLong)
        assert (failure.where, failure.limit) == (f"{pipe.source}[0]@0", "max.poll.interval.ms=4000")
        assert [(event.messages, event.limit) for event in one.of(RoundExceededLimit)] == [(1, failure.limit)] * 3
        assert (one.health["status"], one.health["committed"]) == ("failed", 0)
        with Running(pipe, model="v2", **LIMITS):
            ledger.balance().assert_exactly_once()
