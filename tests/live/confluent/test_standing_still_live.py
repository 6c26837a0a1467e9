"""Real brokers that take no records for a while, and what a member says of itself meanwhile."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from eos.ledger import Ledger
from eos.pipes import BOUND, SHORT_GROUPS, Pipe
from eos.processors import Copier, Running
from small_disk import small_disk
from waiting import eventually

from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.proof("switch")]

RELEASE = "4.2.0"
INPUTS = 1_500
OUTAGE = 40.0
"""Seconds."""
OK_AT_MOST = 15.0
"""Seconds for which a member without a commit may be ok: a commit may take five, and there is work before it."""
SPACE = 96 * 1024**2
SMALL = {"log.segment.bytes": 2**20, "log.index.size.max.bytes": 2**16, "offsets.topic.num.partitions": 1}


@contextmanager
def at_work(kafka: LocalKafka) -> Iterator[tuple[Running, Ledger, Copier]]:
    """Run a member that has begun to copy, and has more to copy than it can for the whole test."""
    pipe = Pipe.on(kafka)
    slow = Copier(pipe.sink, seconds=0.3)
    with Ledger(pipe) as ledger, Running(pipe, transform=slow, batch_size=20) as member:
        ledger.feed(INPUTS).join(BOUND)
        ledger.wait_for(100)
        assert member.health["status"] == "ok"
        yield member, ledger, slow


def longest_ok(member: Running) -> float:
    """Watch a member for the time of an outage, and return for how long it was ok without a commit."""
    begin, longest = time.monotonic(), 0.0

    def watched() -> bool:
        nonlocal longest
        health = member.health
        assert member.alive, member.failure
        if health["status"] == "ok":
            longest = max(longest, min(health["seconds_since_commit"], time.monotonic() - begin))
        return time.monotonic() - begin > OUTAGE

    eventually(watched, "the outage is over", 2 * OUTAGE)
    return longest


def goes_on(member: Running, ledger: Ledger, slow: Copier) -> None:
    eventually(lambda: member.health["status"] == "ok", "it is not ok again")
    slow.seconds = 0.0
    ledger.wait_for(INPUTS)
    ledger.settled().assert_exactly_once()


def test_two_brokers_of_three_that_are_down_are_not_ok() -> None:
    """Too few replicas are in sync: the last broker takes no records."""
    with (
        LocalKafka(RELEASE, nodes=3, controllers=1, properties=SHORT_GROUPS) as kafka,
        at_work(kafka) as (member, ledger, slow),
    ):
        kafka.kill(2, 3)
        assert longest_ok(member) < OK_AT_MOST
        assert member.health["status"] != "ok"
        kafka.start(2, 3)
        goes_on(member, ledger, slow)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SPACE) as folder:
        yield folder


def fill(filler: Path) -> None:
    """Write until there is no space: the broker writes, too, so that how much is free is not known."""
    with filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**20))


def test_a_full_disk_is_not_ok(disk: Path) -> None:
    """The broker ends at its first write, and serves again once there is space."""
    properties = {**SHORT_GROUPS, **SMALL, "log.dirs": disk / "data"}
    with LocalKafka(RELEASE, properties=properties) as kafka, at_work(kafka) as (member, ledger, slow):
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            fill(filler)
        assert longest_ok(member) < OK_AT_MOST
        assert member.health["status"] != "ok"
        filler.unlink()
        kafka.kill(1)
        kafka.start(1)
        goes_on(member, ledger, slow)
