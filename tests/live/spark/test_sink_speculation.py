"""Speculative execution: Spark starts a copy of a paused task on another host, and both write the shard.

``SINK_TWINS`` is the number of such tasks, one after the other.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from eos.counts import Counts
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from streams.driving import Driving
from streams.hosts import Hosts
from streams.job import STOP

from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from psutil import Process

TWINS = int(os.environ.get("SINK_TWINS", "1"))

pytestmark = [pytest.mark.proof("sink"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900 + 100 * TWINS)]

logger = logging.getLogger("sink.speculation")

KAFKA = "4.2.0"

ADDRESSES = ("127.0.0.1", "127.0.0.2")
PER_BATCH = 12_000
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "1s",
    # Spark kills the worker of a task that lost after this, 2 s by default: here it shall go on.
    "spark.python.task.killTimeout": "120s",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two hosts: Spark never starts a copy on the host of the task itself."""
    try:
        for address in ADDRESSES:
            with socket.create_server((address, 0)):
                pass
    except OSError as refused:
        pytest.skip(f"needs several loopback addresses: {refused}")
    with Hosts(*ADDRESSES) as cluster:
        yield cluster


def until(job: Driving, done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 5 * BOUND
    while not done():
        assert job.alive, "the driver has ended by itself"
        assert time.monotonic() < end, f"it did not come true that {what}"
        time.sleep(0.05)


def is_stopped(worker: Process) -> bool:
    return bool(worker.status() == "stopped")


def test_a_task_and_its_copy_write_each_row_once(kafka: LocalKafka, hosts: Hosts) -> None:
    """A worker is paused in its transaction: the rows of the copy count, and those of the worker never do."""
    pipe = Pipe.on(kafka, "speculative", partitions=4)
    with (
        Ledger(pipe) as ledger,
        Driving(pipe, hosts.pids, master=hosts.master, shards=4, per_batch=PER_BATCH, settings=SETTINGS) as job,
    ):
        ledger.feed_now(PER_BATCH)
        until(job, lambda: ledger.different == ledger.fed, "the first batch is out")  # and its workers are warm
        counts = Counts([ledger], KAFKA)
        for _ in range(TWINS):
            ledger.feed_now(2 * PER_BATCH)
            worker = job.busy_worker(ledger)
            worker.suspend()
            until(job, lambda: ledger.different == ledger.fed, "twins have written what the stopped worker had to")
            assert is_stopped(worker)
            worker.resume()
            ledger.feed_now(PER_BATCH)
            counts.fault("a task has a speculative twin")
            until(job, lambda: ledger.different == ledger.fed, "it goes on")
            counts.went_on()
        job.kill()
        balance = ledger.settled(3 * BOUND)
        counts.balanced(balance)
    logger.info("%s", balance)
    assert balance.exactly_once, balance


def test_sparks_own_sink_doubles_the_rows_of_a_task_with_a_copy(kafka: LocalKafka, hosts: Hosts) -> None:
    """The test above can fail: the paused task has sent half of its rows."""
    pipe = Pipe.on(kafka, "speculative-built-in", partitions=4)
    with (
        Ledger(pipe) as ledger,
        Driving(pipe, hosts.pids, master=hosts.master, kind="built-in", per_batch=PER_BATCH, settings=SETTINGS) as job,
    ):
        job.orders.give(STOP)
        ledger.feed_now(PER_BATCH)
        until(job, lambda: ledger.different == ledger.fed, "twins have written all")
        job.kill()
        balance = ledger.settled(3 * BOUND)
    logger.info("%s", balance)
    assert balance.duplicated
    assert not balance.lost
