"""Exactly-once apps as people write them by hand, step by step, so that a zombie can be made on purpose.

A member stalls where the test does not tell it to go on: it does not poll its consumer, and librdkafka leaves the
group when ``max.poll.interval.ms`` has passed. Its transaction stays open and knows nothing of that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from eos.pipes import BOUND, Pipe, provenance
from featuregate_confluent.config.options import partition_transactional_id
from featuregate_confluent.member.membership import leave_group

Model = Literal["legacy", "bridge", "v2"]
"""``legacy``: a producer for each partition, no group metadata; ``bridge``: with it; ``v2``: one producer for all."""

Stall = Literal["before send_offsets", "after send_offsets"]
"""Where in its transaction a member stalls."""

SHORT_LIVED = {"session.timeout.ms": 4000, "heartbeat.interval.ms": 300, "max.poll.interval.ms": 4000}
"""A member with these is out of its group soon after it has stalled, and is no zombie by mistake on a busy machine."""
PATIENT = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "max.poll.interval.ms": 60_000}
"""An heir waits for a zombie's offsets, also within its rebalance callback, where it does not poll."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a transaction ended: by a commit, or by an error with what librdkafka says of it."""

    code: str = ""
    fatal: bool = False
    abortable: bool = False

    @classmethod
    def of(cls, error: KafkaError) -> Outcome:
        return cls(error.name(), error.fatal(), error.txn_requires_abort())


COMMITTED = Outcome()


class NaiveApp:
    """One member of a group in one of the three models, without featuregate."""

    def __init__(self, model: Model, name: str, pipe: Pipe, *, consumer: Mapping[str, object] | None = None) -> None:
        self.model: Model = model
        self.name = name
        self.pipe = pipe
        self.assigned_at: float | None = None
        self._batch: list[Message] = []
        self._producers: dict[int | str, Producer] = {}
        config = {
            **pipe.client,
            "group.id": pipe.group,
            "client.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
        if (consumer or {}).get("group.protocol") != "consumer":
            config |= SHORT_LIVED
        self._unsubscribed = Consumer({**pipe.client, "group.id": pipe.group})
        self._consumer = Consumer({**config, **(consumer or {})})
        if model == "v2":
            self._take_id(name)
        self._consumer.subscribe([pipe.source], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producers.clear()
        leave_group(self._consumer)
        self._unsubscribed.close()

    # ------------------------------------------------------------ the steps

    def take(self, count: int, *, patience: float = BOUND) -> list[Message]:
        """Poll until that many inputs are there; what came is this round's batch.

        It gives up when this member has had its partitions for ``patience`` seconds, or got none for long.
        """
        began = time.monotonic()
        until = began + BOUND
        self._batch = []
        while len(self._batch) < count and time.monotonic() < until:
            if self.assigned_at is not None:
                until = max(began, self.assigned_at) + patience
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            self._batch.append(message)
        return self._batch

    def produce(self) -> None:
        for id_ in self._ids():
            self._producers[id_].begin_transaction()
        for message in self._batch:
            producer = self._producers[self._id_of(message.partition())]
            producer.produce(self.pipe.sink, message.value(), message.key(), headers=provenance(message))
        for id_ in self._ids():
            self._producers[id_].flush(BOUND)

    def send_offsets(self) -> None:
        member = self._unsubscribed if self.model == "legacy" else self._consumer
        for id_, offsets in self._offsets().items():
            self._producers[id_].send_offsets_to_transaction(offsets, member.consumer_group_metadata(), BOUND)

    def commit(self) -> None:
        for id_ in self._ids():
            self._producers[id_].commit_transaction(BOUND)

    # ------------------------------------------------------------ several at once

    def stall(self, count: int, where: Stall) -> None:
        """Take that many inputs, and stop where it was said in the middle of their transaction."""
        taken = self.take(count)
        assert len(taken) == count, f"{self.name} was given {len(taken)} of {count} inputs"
        self.produce()
        if where == "after send_offsets":
            self.send_offsets()

    def go_on(self, where: Stall) -> Outcome:
        """Finish what was stalled, knowing nothing of what has happened since; an error is aborted where it can be."""
        try:
            if where == "before send_offsets":
                self.send_offsets()
            self.commit()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.txn_requires_abort():
                for id_ in self._ids():
                    self._producers[id_].abort_transaction(BOUND)
            return Outcome.of(error)
        return COMMITTED

    def run(self, count: int, *, patience: float = BOUND) -> int:
        """Take, produce and commit in one transaction; how many inputs came in time."""
        if taken := self.take(count, patience=patience):
            self.produce()
            self.send_offsets()
            self.commit()
        return len(taken)

    def leave_group(self) -> None:
        """Leave the group, as a member does that was unsubscribed; its transaction stays as it is."""
        self._consumer.unsubscribe()

    # ------------------------------------------------------------ ids

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        # The id before the offset: librdkafka asks for offsets when this has returned.
        self.assigned_at = time.monotonic()
        if self.model != "v2":
            for each in partitions:
                self._take_id(each.partition)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned_at = None
        revoked = {each.partition for each in partitions}
        self._batch = [message for message in self._batch if message.partition() not in revoked]
        if self.model != "v2":
            for each in partitions:
                self._producers.pop(each.partition, None)

    def _take_id(self, id_: int | str) -> None:
        name = id_ if isinstance(id_, str) else partition_transactional_id(self.pipe.group, (self.pipe.source, id_))
        config = {"transactional.id": name, "transaction.timeout.ms": 30_000, "linger.ms": 0}
        self._producers[id_] = Producer({**self.pipe.client, **config})
        self._producers[id_].init_transactions(BOUND)

    def _id_of(self, partition: int) -> int | str:
        return self.name if self.model == "v2" else partition

    def _ids(self) -> set[int | str]:
        return {self._id_of(message.partition()) for message in self._batch}

    def _offsets(self) -> dict[int | str, list[TopicPartition]]:
        """Say where each partition of the batch goes on, by the id that commits it."""
        nexts = {message.partition(): message.offset() + 1 for message in self._batch}
        offsets: dict[int | str, list[TopicPartition]] = {}
        for partition, offset in nexts.items():
            offsets.setdefault(self._id_of(partition), []).append(TopicPartition(self.pipe.source, partition, offset))
        return offsets


def late_heir(pipe: Pipe, partition: int) -> int:
    """Work off a partition under its own id, as a member does that is none any more and does not know; how much it was.

    It says nothing of a generation, so that no broker checks one.
    """
    place = TopicPartition(pipe.source, partition)
    config = {"group.id": pipe.group, "isolation.level": "read_committed", "enable.auto.commit": False}
    producer = Producer(
        {**pipe.client, "transactional.id": partition_transactional_id(pipe.group, (pipe.source, partition))}
    )
    with Consumer({**pipe.client, **config}) as consumer:
        producer.init_transactions(BOUND)
        (committed,) = consumer.committed([place], BOUND)
        first = max(committed.offset, 0)
        _, end = consumer.get_watermark_offsets(place, BOUND)
        consumer.assign([TopicPartition(pipe.source, partition, first)])
        producer.begin_transaction()
        for message in consumer.consume(end - first, BOUND):
            producer.produce(pipe.sink, message.value(), message.key(), headers=provenance(message))
        done = [TopicPartition(pipe.source, partition, end)]
        consumer.unassign()
        producer.send_offsets_to_transaction(done, consumer.consumer_group_metadata(), BOUND)
        producer.commit_transaction(BOUND)
    return end - first
