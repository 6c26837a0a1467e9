"""Clients that live through the upgrade of their broker from 3.9.2 to 4.2.0, and see a partition added afterwards.

Each is one process that copies records and commits their offsets, and is never started again. Before the upgrade it
has committed offsets, so that it looks up none; its topic grows after the upgrade, and it has to look up the first
offset of the new partition.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from client_brokers import RecordedBroker
from client_configurations import AFTER, BEFORE, CONFIGURATIONS, Configuration, of_cache, verdicts_of
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from waiting import BOUND, eventually

if TYPE_CHECKING:
    from client_installers import Installed

pytestmark = [pytest.mark.proof("clients"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(3600)]

STEADY = [each for each in CONFIGURATIONS if {"consume", "admin"} <= {*each.steps}]
"""Those that consume, each once: a client that logs in does the same afterwards."""
RECORDS = 3
"""In each partition, before the upgrade and again after it."""
GRACE = 60.0
"""Seconds that a client still has when those that work have read all."""


BEFORE_THE_UPGRADE = (RECORDS, RECORDS)
END = (2 * RECORDS, 2 * RECORDS, RECORDS)
"""The committed offset of each partition where a client has read all; the last one is the added partition."""


class Life(NamedTuple):
    """What was said of a client, and what it did."""

    began: bool
    """Whether it had committed all before the upgrade."""
    verdict: str
    alive: bool
    committed: tuple[int, ...]
    """The offset of each partition after the upgrade; -1 for none."""
    copied: int

    @property
    def went_on(self) -> bool:
        """Whether it has read, copied and committed all."""
        return self.committed == END and self.copied >= sum(END)


class Watched:
    """What clients do, seen by the listener that nobody records."""

    def __init__(self, broker: RecordedBroker) -> None:
        trusted = {"security.protocol": "SSL", "ssl.ca.location": broker.environment["TLS_CA"]}
        self._config = {"bootstrap.servers": broker.tls_bootstrap, "socket.timeout.ms": 60_000, **trusted}
        self._admin = AdminClient(self._config)

    def committed(self, topic: str, partitions: int) -> tuple[int, ...]:
        """Return the committed offsets of the group of a topic.

        An admin client would end the process where the coordinator is not there yet (librdkafka #5040).
        """
        asked = [TopicPartition(topic, each) for each in range(partitions)]
        with Consumer({**self._config, "group.id": f"{topic}.steady"}) as reader:
            return tuple(max(each.offset, -1) for each in reader.committed(asked, BOUND))

    def copied(self, topic: str) -> int:
        """Return how many records a client has written."""
        asked = {TopicPartition(f"{topic}-out", each): OffsetSpec.latest() for each in (0, 1)}
        pending = self._admin.list_offsets(asked)
        return sum(future.result(BOUND).offset for future in pending.values())

    def grow(self, topic: str) -> None:
        """Add a partition, and records to each.

        A broker tells of the partition a moment after it has agreed to it; until then no record for it is taken.
        """
        pending = self._admin.create_partitions([NewPartitions(topic, len(END))])
        pending[topic].result(BOUND)
        eventually(lambda: len(self._admin.list_topics(topic, BOUND).topics[topic].partitions) == len(END))
        delivered: list[KafkaError | None] = []
        producer = Producer(self._config)
        for partition in range(len(END)):
            for number in range(RECORDS):
                producer.produce(
                    topic,
                    f"later {number}",
                    partition=partition,
                    on_delivery=lambda error, _message: delivered.append(error),
                )
        producer.flush(BOUND)
        assert delivered == [None] * RECORDS * len(END)


@pytest.fixture(scope="module")
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Life]:
    """Start the chosen clients on a broker of 3.9.2, upgrade it under them, and let their topics grow."""
    folder = tmp_path_factory.mktemp("steady")
    chosen = {item.name for item in request.session.items}
    wanted = [each for each in STEADY if f"{test_a_steady_client_goes_on.__name__}[{each.name}]" in chosen]
    with RecordedBroker(BEFORE, {"kafka.request.logger": "DEBUG"}) as broker, ExitStack() as ends:
        installed = [(each.name, found) for each in wanted if (found := of_cache(each))]
        running = {name: ends.enter_context(started(name, found, broker, folder)) for name, found in installed}
        watched = Watched(broker)

        def began(name: str) -> bool:
            return watched.committed(topic_of(name), 2) == BEFORE_THE_UPGRADE

        until(lambda: all(map(began, running)), BOUND)
        have_begun = {name: once_answered(partial(began, name)) for name in running}
        verdicts = verdicts_of(folder, broker, "steady")
        broker.kafka.roll(1, AFTER)
        for name in running:
            watched.grow(topic_of(name))

        seen: dict[str, Life] = {}

        def went_on(name: str) -> bool:
            """Look at a client that was not seen to go on yet, and keep what it did."""
            if name not in seen or not seen[name].went_on:
                verdict, alive = verdicts.get(name, "no row"), running[name].poll() is None
                done = watched.committed(topic_of(name), len(END)), watched.copied(topic_of(name))
                seen[name] = Life(have_begun[name], verdict, alive, *done)
            return seen[name].went_on

        blocked = {name for name in running if verdicts.get(name) == "block"}
        others = running.keys() - blocked
        until(lambda: {name for name in others if went_on(name)} == others, 2 * BOUND)
        until(lambda: {name for name in blocked if went_on(name)} != set(), GRACE)
        for name in running.keys() - seen.keys():
            once_answered(partial(went_on, name))
        return seen


def once_answered(ask: Callable[[], bool]) -> bool:
    """Ask until the broker answers: so many clients can keep it busy for longer than a request may take."""
    return eventually(lambda: (ask(),), despite=(KafkaException,))[0]


def topic_of(name: str) -> str:
    """Return the topic that a client reads."""
    return f"{name}-steady"


@contextmanager
def started(name: str, client: Installed, broker: RecordedBroker, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program of a client until the block ends."""
    broker.prepare(topic_of(name))
    # The broker comes first: some of the old clients take a third of a processor each while they ask again and again.
    command = ["nice", *client.command, broker.bootstrap, broker.sasl_bootstrap, topic_of(name), "steady"]
    environment = {**(client.environment or os.environ), **broker.environment}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait(60)


def until(holds: Callable[[], bool], within: float) -> None:
    """Wait until a condition holds, or no longer: what was not reached in time is a fate, too."""
    with suppress(AssertionError):
        eventually(holds, within=within, despite=(KafkaException,))


@pytest.mark.parametrize("wanted", STEADY, ids=lambda each: each.name)
def test_a_steady_client_goes_on(wanted: Configuration, lives: dict[str, Life]) -> None:
    """It does where readiness does not block it: it reads all partitions, the added one too, copies and commits."""
    if wanted.name not in lives:
        pytest.skip("this release cannot be installed here")
    life = lives[wanted.name]
    assert life.began, life
    assert life.verdict in wanted.verdicts, life
    assert life.verdict == "unknown" or (life.verdict == "block") == (not life.went_on), life


def test_most_could_be_tried(lives: dict[str, Life]) -> None:
    """Hardly any cannot be had, and there are some of each fate."""
    assert len(lives) >= 25
    assert sum(life.verdict == "block" for life in lives.values()) >= 8
    assert sum(life.went_on for life in lives.values()) >= 12
