"""Offsets that a coordinator before 2.5 shows only some time after their transaction has ended.

It answers the end of a transaction, and applies the offsets in one thread of its own. Here that thread is given less of
the processors than others, which makes it late in one of ten takeovers.
"""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from eos.pipes import Pipe
from waiting import BOUND, eventually

from featuregate.testing import LocalKafka
from featuregate_confluent.client.committed import settled_read, stable_read

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live, pytest.mark.timeout(600)]

STALE = 3
TAKEOVERS = 200
APPLIES_OFFSETS = "group-metadata-"
"""How the name of the coordinator's thread begins, of which Linux keeps 15 characters."""


def spin() -> None:
    while True:
        pass


@contextmanager
def starved(kafka: LocalKafka) -> Iterator[None]:
    """Let the thread wait for others, of which there are more than processors."""
    (late,) = [
        thread
        for thread in Path(f"/proc/{kafka.node(1).pid}/task").iterdir()
        if (thread / "comm").read_text().startswith(APPLIES_OFFSETS)
    ]
    os.setpriority(os.PRIO_PROCESS, int(late.name), 19)
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for process in busy:
            process.start()
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


class Owners:
    """The owners of a partition, each of which commits one transaction and is fenced by the next one."""

    def __init__(self, pipe: Pipe, consumer: Consumer) -> None:
        self._pipe = pipe
        self._group = consumer.consumer_group_metadata()
        self._producer = self._make()
        self.committed = 0

    def _make(self) -> Producer:
        producer = Producer({**self._pipe.client, "transactional.id": self._pipe.group})
        producer.init_transactions(BOUND)
        return producer

    def commit(self) -> None:
        self.committed += 1
        self._producer.begin_transaction()
        place = TopicPartition(self._pipe.source, 0, self.committed)
        self._producer.send_offsets_to_transaction([place], self._group, BOUND)
        self._producer.commit_transaction(BOUND)

    def take_over(self) -> None:
        self._producer = self._make()


def test_the_next_owner_reads_until_the_last_transaction_is_applied() -> None:
    """One read after ``init_transactions()`` may be of the transaction before: its outputs would come twice (R1)."""
    with LocalKafka("2.4.1") as kafka:
        pipe = Pipe.on(kafka, "shown-late")
        partition = (pipe.source, 0)
        reader = {"group.id": pipe.group, "isolation.level": "read_committed"}
        with closing(Consumer({**pipe.client, **reader})) as consumer:
            owners = Owners(pipe, consumer)
            owners.commit()
            eventually(lambda: pipe.committed() == {0: owners.committed}, "the coordinator is there")
            stale = 0
            with starved(kafka):
                while stale < STALE and owners.committed < TAKEOVERS:
                    owners.commit()
                    owners.take_over()
                    stale += stable_read(consumer, [partition], BOUND)[partition][0] != owners.committed
                    assert settled_read(consumer, [partition], BOUND)[partition][0] == owners.committed
            assert stale, f"the thread was not late in {TAKEOVERS} takeovers, so that this has tried nothing"
