"""A processor whose transform gives a record that the client refuses, on librdkafka's mock cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from waiting import eventually

from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import DeadLetter, ExactlyOnceProcessor, Record, RecordRefused
from featuregate_confluent.events import DeadLettered, TransactionAborted, TransactionCommitted
from featuregate_confluent.member.failure_limits import REPEATED

if TYPE_CHECKING:
    from mock_kafka import MockKafka

pytestmark = pytest.mark.slow

INPUTS = 30
END_TXN = 26
TRANSACTION_ABORTABLE = 120
POISON = b"17"
LARGE = b"x" * 5000
"""More than the producer of the test may send."""


def bills(messages: Sequence[Message]) -> Iterator[Record]:
    for message in messages:
        yield Record("bills", LARGE if message.value() == POISON else message.value())


class App:
    """A processor in a thread."""

    def __init__(self, kafka: MockKafka, **options: Any) -> None:
        base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self.base = base
        self.events: list[Any] = []
        self.error: BaseException | None = None
        self.processor = ExactlyOnceProcessor(
            consumer={**base, "group.id": "billing", "auto.offset.reset": "earliest"},
            producer={**base, "message.max.bytes": 2000},
            topics=["orders"],
            app_id="billing",
            features=StaticFeatures(release_view("2.4", cluster_id=kafka.cluster_id)),
            metrics=self.events.append,
            instance_id="billing-0",
            linger=0.05,
            **{"transform": bills, **options},
        )
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.processor.run()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    @contextmanager
    def running(self) -> Iterator[None]:
        self.thread.start()
        try:
            yield
        finally:
            self.processor.stop()
            self.thread.join()

    def of(self, kind: type) -> list[Any]:
        return [event for event in tuple(self.events) if isinstance(event, kind)]

    @property
    def done(self) -> int:
        return sum(event.messages for event in self.of(TransactionCommitted))

    def letters(self) -> list[Message]:
        with Consumer({**self.base, "group.id": "reader", "enable.partition.eof": True}) as consumer:
            consumer.assign([TopicPartition("dead", 0, 0)])
            found: list[Message] = []
            while not (message := eventually(lambda: consumer.poll(0.1), "the end of the topic")).error():
                found.append(message)
            return found


def feed(kafka: MockKafka) -> None:
    for topic in ("bills", "dead"):
        kafka.create_topic(topic)
    kafka.feed("orders", INPUTS, 1)


def test_the_message_of_a_refused_record_is_found_and_dead_lettered(kafka: MockKafka) -> None:
    """The messages of its batch are processed one by one, and each that is no poison is committed."""
    feed(kafka)
    app = App(kafka, poison=DeadLetter("dead"))
    with app.running():
        eventually(lambda: app.done == INPUTS or app.error, "all inputs are done")
    assert app.error is None
    (event,) = app.of(DeadLettered)
    assert (event.topic, event.partition, event.offset) == ("orders", 0, 17)
    assert "MSG_SIZE_TOO_LARGE" in event.error
    (letter,) = app.letters()
    assert letter.value() == POISON


def test_a_message_that_is_too_large_itself_leaves_its_value_out(kafka: MockKafka) -> None:
    """The record is refused, and so is the whole dead letter."""
    feed(kafka)
    large = Producer({"bootstrap.servers": kafka.bootstrap})
    large.produce("orders", LARGE, partition=0)
    assert large.flush(30) == 0
    app = App(
        kafka, transform=lambda messages: [("bills", each.value()) for each in messages], poison=DeadLetter("dead")
    )
    with app.running():
        eventually(lambda: app.done == INPUTS + 1 or app.error, "all inputs are done")
    assert app.error is None
    assert [event.offset for event in app.of(DeadLettered)] == [INPUTS]
    refused = [event.why.partition(" was not")[0] for event in app.of(TransactionAborted)]
    assert refused[-2:] == ["a record for topic 'bills'", "a record for topic 'dead'"]


def test_without_dead_letters_the_error_names_the_one_message(kafka: MockKafka) -> None:
    """The messages before it are committed."""
    feed(kafka)
    app = App(kafka)
    with app.running():
        eventually(lambda: app.error, "run() has ended")
    assert isinstance(app.error, RecordRefused)
    assert str(app.error).startswith("a record for the message orders[0]@17 is refused")
    assert app.done == 17
    assert app.processor.health()["status"] == "failed"


def test_what_is_no_record_is_dead_lettered_before_the_transaction(kafka: MockKafka) -> None:
    """Nothing is aborted. The partition of one does not exist, the value of the other is no text."""
    feed(kafka)
    given = {b"3": ("bills", b"v", None, 99), b"17": ("bills", "\udcff")}

    def transform(messages: Sequence[Message]) -> list[Any]:
        return [given.get(message.value() or b"", ("bills", message.value())) for message in messages]

    app = App(kafka, transform=transform, poison=DeadLetter("dead"))
    with app.running():
        eventually(lambda: app.done == INPUTS or app.error, "all inputs are done")
    assert app.error is None
    assert [event.offset for event in app.of(DeadLettered)] == [3, 17]
    assert app.processor.health()["aborted"] == 0


def test_a_processor_that_only_aborts_is_not_ok(kafka: MockKafka) -> None:
    """Each commit is refused for a reason that may pass, and does not pass."""
    feed(kafka)
    kafka.answer(END_TXN, [TRANSACTION_ABORTABLE, 0] * REPEATED)
    app = App(kafka, transform=lambda _messages: [("bills", b"a bill")])
    with app.running():
        eventually(lambda: app.processor.health()["status"] == "aborting", "it aborts again and again")
        eventually(lambda: app.processor.health()["status"] == "ok", "it has committed")
