"""Clients of every kind come and go at a relay while its cluster changes: each is answered, and the memory is bounded.

A run of the test suite takes ten seconds, and one of ``make soak`` ten minutes. ``RELAY_CHURN_MINUTES=60`` makes it an
hour, with ``-o faulthandler_timeout=5000``: pytest ends a test after 50 minutes otherwise.
"""

import logging
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pytest
import requests
from soak.reports import Report, write
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.testing import FakeCluster

MINUTES: Final = float(os.environ.get("RELAY_CHURN_MINUTES", "0.17"))
CLIENTS: Final = int(os.environ.get("RELAY_CHURN_CLIENTS", "30"))
GROWTH: Final = 32
"""MiB that the relay may have at the end above what it had after a sixth of the time."""
MIB: Final = 1024 * 1024
RESET: Final = struct.pack("ii", 1, 0)
"""The socket option with which a close is a reset, as when a machine vanishes behind a firewall."""

pytestmark = [pytest.mark.proof("relay"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(60 * MINUTES + 600)]
log = logging.getLogger(__name__)


class Relay:
    """``featuregate serve`` in a process of its own."""

    def __init__(self, bootstrap: str, latches: Path) -> None:
        command = [sys.executable, "-m", "featuregate", "serve", "--bootstrap-server", bootstrap, "--interval", "0.5"]
        command += ["--listen", "127.0.0.1:0", "--gate", "groups=group.version>=1", "--latches", str(latches)]
        self._said = latches / "stderr"
        with self._said.open("w") as stderr:
            self._process = subprocess.Popen(command, stderr=stderr)
        eventually(lambda: "/v1/" in self._said.read_text())
        self.url = self._said.read_text().splitlines()[0].split()[-1].partition("/v1/")[0]
        self.machine = psutil.Process(self._process.pid)
        eventually(lambda: requests.get(f"{self.url}/readyz", timeout=BOUND).status_code == 200)

    def memory(self) -> float:
        """Return the resident set in MiB."""
        return float(self.machine.memory_info().rss) / MIB

    def gone(self) -> bool:
        """Return whether no stream, no request that waits, and no connection but this one is left."""
        text = requests.get(f"{self.url}/metrics", timeout=BOUND, headers={"Connection": "close"}).text
        held = re.findall(r"^featuregate_relay_(?:streams|requests_waiting)\S* (\S+)$", text, re.MULTILINE)
        return len(held) >= 2 and set(map(float, held)) == {0.0} and self.clients() <= 1

    def clients(self) -> int:
        port = int(self.url.rpartition(":")[2])
        found = self.machine.net_connections("tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == port for one in found)

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(BOUND) == 0, self._said.read_text()
        assert "Traceback" not in self._said.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Visitor(threading.Thread):
    """A client that comes, does one thing, and goes, again and again, each time as another kind of client."""

    def __init__(self, url: str, seed: int, ended: threading.Event) -> None:
        super().__init__()
        self.answered = self.cut = 0
        self.wrong: list[str] = []
        self._url, self._ended, self._chance = url, ended, random.Random(seed)
        self._tags: dict[str, str] = {}
        self._visits: list[Callable[[], None]] = [self.poll, self.flags, self.page, self.hang_up, self.vanish, self.app]

    def run(self) -> None:
        while not self._ended.wait(self._chance.uniform(0.2, 1.8)):
            visit = self._chance.choice(self._visits)
            try:
                visit()
            except (requests.RequestException, OSError, AssertionError) as error:
                self.wrong.append(f"{visit.__name__}: {error!r}")

    def _answered(self, answer: requests.Response, *statuses: int) -> None:
        assert answer.status_code in statuses, (answer.url, answer.status_code, answer.text[:200])
        self.answered += 1

    def poll(self) -> None:
        """Fetch the view, and wait for the next one over the same connection.

        The relay ends a connection on which nothing comes for five seconds. On a busy machine the second request may be
        as late as that: a client sends it again (RFC 9112, 9.3.1).
        """
        with requests.Session() as session:
            self._fetch_view(session, "")
            try:
                self._fetch_view(session, "?wait=1")
            except requests.ConnectionError:
                self._fetch_view(session, "?wait=1")

    def _fetch_view(self, session: requests.Session, query: str) -> None:
        headers = {"If-None-Match": self._tags.get("view", "")}
        answer = session.get(f"{self._url}/v1/clusters/default/view{query}", headers=headers, timeout=BOUND)
        self._answered(answer, 200, 304)
        self._tags["view"] = answer.headers["ETag"]

    def flags(self) -> None:
        """Evaluate all flags, as an OFREP provider does."""
        headers = {"If-None-Match": self._tags.get("flags", "")}
        url = f"{self._url}/ofrep/v1/evaluate/flags"
        answer = requests.post(url, json={"context": {}}, headers=headers, timeout=BOUND)
        self._answered(answer, 200, 304)
        self._tags["flags"] = answer.headers["ETag"]

    def page(self) -> None:
        """Look at the page, at a decision, and at what is not there."""
        self._answered(requests.get(f"{self._url}/", timeout=BOUND), 200)
        check = {"require": "group.version>=1"}
        self._answered(requests.get(f"{self._url}/v1/clusters/default/check", params=check, timeout=BOUND), 200)
        self._answered(requests.get(f"{self._url}/v1/clusters/{self._chance.random()}/view", timeout=BOUND), 404)

    def hang_up(self) -> None:
        """Open a stream or a long poll, read its start, and reset the connection."""
        path = self._chance.choice(["events", "view?wait=30"])
        with self._connected() as connection:
            connection.sendall(
                f"GET /v1/clusters/default/{path} HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n".encode()
            )
            if path == "events":
                assert connection.recv(8).startswith(b"HTTP/1.1")
                self.answered += 1
            self._ended.wait(self._chance.uniform(0, 2))
        self.cut += 1

    def vanish(self) -> None:
        """Send half of a request, and reset the connection."""
        with self._connected() as connection:
            connection.sendall(
                b"POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{"
            )
            self._ended.wait(self._chance.uniform(0, 0.5))
        self.cut += 1

    def app(self) -> None:
        """Be an app that starts, opens its gate through the relay, and ends."""
        with fg.Discoverer(source=fg.HttpSource(self._url), interval=60) as features:
            assert features.gate("groups", "group.version>=1").wait(BOUND)
        self.answered += 1

    def _connected(self) -> socket.socket:
        host, port = self._url.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)), timeout=BOUND)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        return connection


def changes(brokers: FakeCluster, chance: random.Random) -> Iterator[str]:
    """Change the cluster again and again, and say how."""
    while True:
        brokers.finalize({"group.version": 0})
        yield "a feature is lowered"
        brokers.finalize({"group.version": 1})
        yield "a feature is raised"
        broker = brokers.broker(chance.randrange(1, 4))
        broker.stop()
        yield "a broker stops"
        broker.start()
        yield "a broker starts"


def test_clients_that_come_and_go_leave_nothing_at_the_relay(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Each request has its answer, the memory does not grow, and at the end no connection or stream is left."""
    chance = random.Random(pytestconfig.option.hypothesis_seed)
    ended = threading.Event()
    faults = dict.fromkeys(["a feature is lowered", "a feature is raised", "a broker stops", "a broker starts"], 0)
    with FakeCluster(3, release="4.2") as brokers, ExitStack() as running:
        relay = Relay(brokers.bootstrap, tmp_path)
        running.callback(relay.kill)
        eventually(
            lambda: requests.post(f"{relay.url}/ofrep/v1/evaluate/flags/groups", json={}, timeout=BOUND).json()["value"]
        )
        visitors = [Visitor(relay.url, chance.getrandbits(32), ended) for _ in range(CLIENTS)]
        for visitor in visitors:
            visitor.start()
            running.callback(visitor.join, BOUND)
        running.callback(ended.set)

        def report(**balance: int) -> Report:
            """Count: an input is a request, and an output its answer."""
            answered, wrong = sum(one.answered for one in visitors), sum(len(one.wrong) for one in visitors)
            cut = {"a client resets its connection": sum(one.cut for one in visitors)}
            return Report(inputs=answered + wrong, outputs=answered, faults=faults | cut, **balance)

        began = time.monotonic()
        steps = 6
        settled = memory = relay.memory()
        log.info("at the start the relay has %.1f MiB", memory)
        moves = changes(brokers, chance)
        for step in range(1, steps + 1):
            while not ended.wait(min(3.0, MINUTES)) and time.monotonic() - began < 60 * MINUTES * step / steps:
                faults[next(moves)] += 1
                write(report())
            memory = relay.memory()
            settled = memory if step == 1 else settled
            minutes, done = (time.monotonic() - began) / 60, report()
            log.info("after %.1f minutes and %d answers the relay has %.1f MiB", minutes, done.outputs, memory)
        ended.set()
        for visitor in visitors:
            visitor.join(BOUND)
        eventually(relay.gone, "no stream and no connection at the relay")
        assert [wrong for one in visitors for wrong in one.wrong] == []
        assert memory - settled <= GROWTH
        relay.stop()
        write(report(lost=0, duplicated=0, changed=0))
