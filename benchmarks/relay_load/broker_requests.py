"""Requests that brokers get from many clients, each for itself or by a relay: measured for some, simulated for many."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import requests
from measuring import Row, Sample, announce, at_least

import featuregate as fg
from featuregate.polling.poll_state import next_delay
from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from featuregate.sources.source import Source

BROKERS = 3
REAL, REAL_INTERVAL, REAL_SECONDS = 200, 2.0, 10.0
MANY, INTERVAL, MINUTES = 10_000, 60.0, 10
A_POLL = BROKERS + 1
"""The list of brokers, and the versions of each."""
BOUND = 60.0


def rows() -> list[Row]:
    announce(f"  {REAL} real clients, with and without a relay")
    with FakeCluster(BROKERS) as brokers:
        alone = counted(brokers, lambda: brokers.bootstrap)
        with relay(brokers.bootstrap) as url:
            served = counted(brokers, lambda: fg.HttpSource(url))
    return [
        at_least(
            None,
            f"requests to {BROKERS} brokers of {REAL} clients, every {REAL_INTERVAL:g} s",
            Sample("by a relay", "requests/s", (served,)),
            Sample("each for itself", "requests/s", (alone,)),
        ),
        at_least(
            None,
            f"the same, simulated, and the relay at {REAL_INTERVAL:g} s",
            Sample("by a relay", "requests/s", (simulated(1, REAL_INTERVAL),)),
            Sample("each for itself", "requests/s", (simulated(REAL, REAL_INTERVAL),)),
        ),
        at_least(
            None,
            f"of {MANY:,} clients, every {INTERVAL:g} s, simulated",
            Sample("by two relays", "requests/s", (simulated(2, INTERVAL),)),
            Sample("each for itself", "requests/s", (simulated(MANY, INTERVAL),)),
        ),
    ]


def counted(brokers: FakeCluster, where: Callable[[], str | Source]) -> float:
    """Run real clients, and return how many requests the brokers get in a second."""
    with ExitStack() as running:
        for _ in range(REAL):
            source = where()
            features = (
                fg.Discoverer(source, interval=REAL_INTERVAL)
                if isinstance(source, str)
                else fg.Discoverer(source=source, interval=REAL_INTERVAL)
            )
            running.enter_context(features).refresh(BOUND)
        before, began = len(brokers.requests), time.monotonic()
        time.sleep(REAL_SECONDS)
        return (len(brokers.requests) - before) / (time.monotonic() - began)


@contextmanager
def relay(bootstrap: str) -> Iterator[str]:
    options = ["--bootstrap-server", bootstrap, "--interval", str(REAL_INTERVAL), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "featuregate", "serve", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[-1].partition("/v1/")[0]
            while requests.get(f"{url}/readyz", timeout=BOUND).status_code != 200:
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def simulated(clients: int, interval: float) -> float:
    """Return the requests a second of clients that begin at random, by the schedule of the discoverer."""
    chances = random.Random(1)
    end = MINUTES * INTERVAL
    polls = 0
    for _ in range(clients):
        now = chances.random() * interval
        while now < end:
            polls += 1
            now += next_delay(interval, failures=0, rolling=False, chance=chances.random())
    return polls * A_POLL / end
