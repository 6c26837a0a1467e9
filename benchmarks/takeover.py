"""How long the partitions of a member stand still after it was killed in the middle of a transaction."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Literal, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from measuring import Row, Sample, announce, progress
from members import Feed, Process, topics
from switching import LOOPS, QUIET, Options

SESSION = 6.0
"""Seconds without a heartbeat after which a member is gone: the least that brokers allow by default."""
BATCH = 16
"""Small, so that there is work for as long as it takes."""
MESSAGES = 100_000
SECONDS = 90.0
PENDING = 1.0
"""Seconds after which an offset that cannot be read stably is that of an open transaction."""
COORDINATOR_TO_COME = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
FEW_AHEAD = {"queued.min.messages": 4 * BATCH}
"""Else what was fetched of its own partition would be worked on first, and the wait for that measured, too."""
EARLIEST = {"auto.offset.reset": "earliest"}


class Kind(NamedTuple):
    """One way to go on after a death."""

    model: str
    successor: Literal["its sibling", "its restart"]
    """Who goes on: the other member, or the same one, started again at once and under its name."""

    @property
    def restarted(self) -> bool:
        return self.successor == "its restart"

    def __str__(self) -> str:
        return f"{self.model}: a member is killed, {self.successor} goes on"


KINDS = (
    Kind("legacy", "its sibling"),
    Kind("bridge", "its sibling"),
    Kind("v2", "its sibling"),
    Kind("v2", "its restart"),
)


class Takeovers(NamedTuple):
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def takeovers(bootstrap: str, rounds: int, replicas: int) -> Takeovers:
    """Kill a member of each loop in each model; those of one kind die side by side, as all of them mostly wait."""
    rows = []
    with ThreadPoolExecutor(len(LOOPS)) as pool:
        for kind in KINDS:
            announce(f"  {kind}")
            took: dict[str, list[float]] = {loop: [] for loop in LOOPS}
            for number in range(rounds):
                progress(f"{kind}: round {number + 1} of {rounds}")
                for loop, seconds in zip(
                    LOOPS, pool.map(partial(takeover, bootstrap, replicas, kind), LOOPS), strict=True
                ):
                    took[loop].append(seconds)
            progress("")
            ours, peer = (Sample(loop, "s", tuple(values)) for loop, values in took.items())
            beyond = Sample("beyond", "s beyond the session", tuple(value - SESSION for value in ours.values))
            rows.append(Row(what=str(kind), ours=ours, peer=peer, score=ours if kind.restarted else beyond))
    return Takeovers(tuple(rows), NOTES)


NOTES = (
    (
        "Takeovers: one of two members falls silent (SIGSTOP) at the worst moment, which is when its offsets are sent "
        "and its transaction is open, and is killed (SIGKILL) two seconds later. Where its sibling takes over, the "
        "clock starts at its silence; where it is started again, at once and with the same group.instance.id and slot, "
        "at its death. It stops when a read_committed reader of the output has the first new record of the dead "
        f"member's partition. session.timeout.ms is {SESSION * 1000:.0f}, heartbeats come every 500 ms, "
        "transaction.timeout.ms is 10 s, and brokers look for transactions that have timed out every 10 s."
    ),
)


def takeover(bootstrap: str, replicas: int, kind: Kind, loop: str) -> float:
    """Give the seconds from a member's end until a reader has what follows."""
    name = f"takeover-{kind.model}-{loop}-{uuid.uuid4().hex[:8]}"
    given, made = f"{name}-in", f"{name}-out"
    with topics(bootstrap, {given: 2, made: 1}, replicas), ExitStack() as stack:
        feed = Feed(bootstrap, given, partitions=2, batch=2 * BATCH)
        feed.give(MESSAGES)
        first, second = (
            Options(
                loop=loop,
                model=kind.model,
                bootstrap=bootstrap,
                group=name,
                topic=given,
                output=made,
                app_id=name,
                batch=BATCH,
                wait=0.1,
                slot=slot if kind.restarted else None,
                consumer={
                    **feed.fetching,
                    **FEW_AHEAD,
                    **QUIET,
                    "client.id": slot,
                    "session.timeout.ms": int(SESSION * 1000),
                    "heartbeat.interval.ms": 500,
                    **({"group.instance.id": slot} if kind.restarted else {}),
                },
                producer=dict(QUIET),
            )
            for slot in ("first", "second")
        )
        victim = stack.enter_context(Process(first))
        stack.enter_context(Process(second))
        own = Group(bootstrap, name).partition_of("first", among=2)
        reader = stack.enter_context(reading(bootstrap, made, feed))
        silent = freeze_in_transaction(victim, bootstrap, TopicPartition(given, own), reader)
        reader.drain(own)
        victim.kill()
        if kind.restarted:
            silent = time.monotonic()
            stack.enter_context(Process(first))
        reader.wait_for(own)
        return time.monotonic() - silent


class Group:
    """What a group shows to anybody."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._name = name

    def partition_of(self, client_id: str, among: int) -> int:
        """Wait until each of so many members has one partition, and give that of a client."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            owners = self._owners()
            if len(owners) == among:
                return next(partition for owner, partition in owners if owner.startswith(client_id))
            time.sleep(0.1)
        raise RuntimeError(f"{self._name}: the partitions were not shared out")

    def _owners(self) -> list[tuple[str, int]]:
        asked = self._admin.describe_consumer_groups([self._name])
        try:
            members = asked[self._name].result(SECONDS).members
        except KafkaException as problem:
            if problem.args[0].name() in COORDINATOR_TO_COME:
                return []
            raise
        return [
            (member.client_id, member.assignment.topic_partitions[0].partition)
            for member in members
            if len(member.assignment.topic_partitions) == 1
        ]


class Reader:
    """Reads the output as another app would, and says which input partition it came from."""

    def __init__(self, consumer: Consumer, feed: Feed) -> None:
        self._consumer = consumer
        self._feed = feed

    def let_go_by(self, seconds: float) -> None:
        """Read for a moment."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._consumer.consume(10_000, left)

    def drain(self, partition: int) -> None:
        """Read what came from a partition whose owner is silent, until no more of it comes."""
        deadline = time.monotonic() + SECONDS
        quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + PENDING:
            if self._heard_of(partition, PENDING / 10):
                quiet_since = time.monotonic()
            if quiet_since > deadline:
                raise RuntimeError(f"partition {partition} goes on, though its owner is silent")

    def wait_for(self, partition: int) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self._heard_of(partition, 0.01):
                return
        raise RuntimeError(f"nothing more came from partition {partition}")

    def _heard_of(self, partition: int, seconds: float) -> bool:
        return any(
            self._feed.partition_of(message.key()) == partition
            for message in self._consumer.consume(10_000, seconds)
            if message.error() is None
        )


@contextmanager
def reading(bootstrap: str, topic: str, feed: Feed) -> Iterator[Reader]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"reads-{topic}", "enable.auto.commit": False, **EARLIEST}
    )
    consumer.assign([TopicPartition(topic, 0)])
    try:
        yield Reader(consumer, feed)
    finally:
        consumer.close()


def freeze_in_transaction(victim: Process, bootstrap: str, own: TopicPartition, reader: Reader) -> float:
    """Stop a member again and again, until it is in a transaction that holds its offsets; give when that was."""
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": victim.options.group})
    deadline = time.monotonic() + SECONDS
    try:
        asking.committed([own], SECONDS)  # connects
        while time.monotonic() < deadline:
            silent = time.monotonic()
            victim.seen.suspend()
            if pending(asking, own):
                return silent
            victim.seen.resume()
            reader.let_go_by(0.05)
    finally:
        asking.close()
    raise RuntimeError(f"{victim.options.group}: no transaction was open at any of many moments")


def pending(asking: Consumer, partition: TopicPartition) -> bool:
    try:
        asking.committed([partition], PENDING)
    except KafkaException as problem:
        if problem.args[0].name() == "_TIMED_OUT":
            return True
        raise
    return False
