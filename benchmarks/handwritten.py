"""The loops that a careful author writes by hand with confluent-kafka, one for each model: the peers of the switch.

Nothing of featuregate is in here. Each loop takes its transactional ids before it reads offsets, sends the group's
metadata taken just before (legacy excepted: it has none), and rewinds what an aborted transaction held.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

if TYPE_CHECKING:
    from switching import Meter, Options

SECONDS = 30.0
"""Nothing that a broker is asked for may take longer."""


class Handwritten:
    """Consume, transform and produce; how many producers there are is the business of the model."""

    def __init__(self, options: Options, meter: Meter) -> None:
        self.options = options
        self.meter = meter
        self.stopping = False
        self.rebalanced = False
        self.consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": options.group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                **options.consumer,
            }
        )

    def run(self) -> None:
        self.consumer.subscribe(
            [self.options.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked
        )
        try:
            while not self.stopping:
                messages = [
                    message
                    for message in self.consumer.consume(self.options.batch, self.options.wait)
                    if not failed(message)
                ]
                if self.rebalanced:  # some may be another's by now
                    self.rebalanced = False
                    self.rewind(messages)
                elif messages:
                    self.meter.received()
                    self.work_on(messages)
        finally:
            self.consumer.close()

    def stop(self) -> None:
        self.stopping = True

    def assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Take ids here, before the consumer reads the offsets to begin with."""
        self.rebalanced = True
        self.gain(partitions)

    def revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalanced = True
        self.lose(partitions)

    def gain(self, partitions: Iterable[TopicPartition]) -> None:
        raise NotImplementedError

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        raise NotImplementedError

    def work_on(self, messages: Sequence[Message]) -> None:
        raise NotImplementedError

    def metadata(self) -> Any:
        """Give what the broker checks: who we are in which generation, at this moment."""
        return self.consumer.consumer_group_metadata()

    def new_producer(self, transactional_id: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.options.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 10_000,
                **self.options.producer,
            }
        )
        producer.init_transactions(SECONDS)
        return producer

    def transact(self, producer: Producer, messages: Sequence[Message]) -> None:
        """Commit one transaction, or abort it and consume its messages again."""
        began = time.perf_counter()
        producer.begin_transaction()
        try:
            for message in messages:
                self.produce(producer, message)
            producer.send_offsets_to_transaction(ends(messages), self.metadata(), SECONDS)
            self.commit(producer)
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            if not error.txn_requires_abort():
                raise
            producer.abort_transaction(SECONDS)
            self.rewind(messages)
        else:
            self.meter.committed(len(messages), time.perf_counter() - began)

    def produce(self, producer: Producer, message: Message) -> None:
        while True:
            try:
                producer.produce(self.options.output, value=message.value(), key=message.key())
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def commit(self, producer: Producer) -> None:
        while True:
            try:
                producer.commit_transaction(SECONDS)
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    raise
            else:
                return

    def rewind(self, messages: Iterable[Message]) -> None:
        owned = {(owner.topic, owner.partition) for owner in self.consumer.assignment()}
        first: dict[tuple[str, int], int] = {}
        for message in messages:
            first.setdefault(*at(message))
        for (topic, partition), offset in first.items():
            if (topic, partition) in owned:
                self.consumer.seek(TopicPartition(topic, partition, offset))


class Bridge(Handwritten):
    """One producer for each input partition."""

    def __init__(self, options: Options, meter: Meter) -> None:
        super().__init__(options, meter)
        self.producers: dict[tuple[str, int], Producer] = {}

    def gain(self, partitions: Iterable[TopicPartition]) -> None:
        for given in partitions:
            name = f"{self.options.app_id}-{given.topic}-{given.partition}"
            self.producers[given.topic, given.partition] = self.new_producer(name)

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        for taken in partitions:
            self.producers.pop((taken.topic, taken.partition), None)

    def work_on(self, messages: Sequence[Message]) -> None:
        by_partition: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            by_partition.setdefault(at(message)[0], []).append(message)
        for partition, own in by_partition.items():
            if producer := self.producers.get(partition):
                self.transact(producer, own)


class Legacy(Bridge):
    """The same, from before brokers could check: the metadata of a consumer that never joined."""

    def __init__(self, options: Options, meter: Meter) -> None:
        super().__init__(options, meter)
        stranger = Consumer({"bootstrap.servers": options.bootstrap, "group.id": options.group})
        self.unchecked = stranger.consumer_group_metadata()
        stranger.close()

    def metadata(self) -> Any:
        return self.unchecked


class V2(Handwritten):
    """One producer for the process."""

    def __init__(self, options: Options, meter: Meter) -> None:
        super().__init__(options, meter)
        self.producer: Producer | None = None

    def gain(self, partitions: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        if self.producer is None:
            self.producer = self.new_producer(f"{self.options.app_id}-{self.options.slot or uuid.uuid4()}")

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep the producer: it belongs to the process."""

    def work_on(self, messages: Sequence[Message]) -> None:
        assert self.producer is not None
        self.transact(self.producer, messages)


def failed(message: Message) -> bool:
    """Say whether this is no message but an error that goes by; raise one that does not."""
    error = message.error()
    if error is None:
        return False
    if error.fatal():
        raise KafkaException(error)
    return True


def at(message: Message) -> tuple[tuple[str, int], int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return (topic, partition), offset


def ends(messages: Iterable[Message]) -> list[TopicPartition]:
    """Give where each partition goes on after these messages."""
    last: dict[tuple[str, int], int] = {}
    for message in messages:
        partition, offset = at(message)
        last[partition] = offset
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]
