"""Two relays behind a balancer over a real cluster that its operator upgrades and downgrades: nothing goes back.

One relay lags, is stopped for a while, and restarts without what it has latched. Clients with a floor and clients of
flags with an entity tag see no gate close and no revision fall; beside them the same requests without floor and tag do.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import pytest
import requests
from balancing import balancing
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.admin.updates import downgrade, upgrade
from featuregate.gating.events import GateMoved, Polled
from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from featuregate.gating.events import Event

pytestmark = [pytest.mark.live, pytest.mark.slow]

FEATURE = "transaction.version"
GATE = "transactions-2"
REQUIREMENT = f"{FEATURE}>=2"
CLIENTS = 12
POLLS = 6
"""What each client has done in a phase before the next one begins."""


class Relay:
    """``featuregate serve`` in a process of its own, on a port that it keeps."""

    def __init__(self, bootstrap: str, interval: float) -> None:
        self._options = ["--bootstrap-server", bootstrap, "--interval", str(interval)]
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "featuregate", "serve", *self._options, "--gate", f"{GATE}={REQUIREMENT}"]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        self.port = int(line.rpartition("127.0.0.1:")[2].partition("/")[0])
        eventually(lambda: requests.get(f"{self.url}/readyz", timeout=BOUND).status_code == 200)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def level(self) -> object:
        flag = requests.post(f"{self.url}/ofrep/v1/evaluate/flags/level.{FEATURE}", json={}, timeout=BOUND).json()
        return flag["value"]

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


class Client:
    """What one client has seen, and what of it has gone back."""

    def __init__(self) -> None:
        self.answers = 0
        self.backwards: list[str] = []
        self._epoch = -1
        self.was_open = False

    def saw(self, *, epoch: int | None = None, is_open: bool | None = None) -> None:
        if epoch is not None:
            self.answers += 1
            if epoch < self._epoch:
                self.backwards.append(f"epoch {self._epoch} -> {epoch}")
            self._epoch = epoch
        if is_open is not None:
            if self.was_open and not is_open:
                self.backwards.append("the gate closed")
            self.was_open = is_open

    def __call__(self, event: Event) -> None:
        """Take the events of a discoverer."""
        match event:
            case Polled(epoch=epoch):
                self.saw(epoch=epoch)
            case GateMoved(open=is_open):
                self.saw(is_open=is_open)


class Asking(threading.Thread):
    """Asks again and again until it is told to stop."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.client = Client()
        self._url = url
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.05):
            try:
                self.ask(self._url)
            except requests.RequestException:
                continue

    def ask(self, url: str) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


class Flags(Asking):
    """A client of all flags, as browsers are, which may send back the entity tag."""

    def __init__(self, url: str, *, sends_tag: bool) -> None:
        super().__init__(url)
        self._sends_tag = sends_tag
        self._tag = ""

    def ask(self, url: str) -> None:
        headers = {"If-None-Match": self._tag} if self._sends_tag and self._tag else {}
        answer = requests.post(f"{url}/ofrep/v1/evaluate/flags", json={"context": {}}, headers=headers, timeout=BOUND)
        if answer.status_code == 200:
            values = {flag["key"]: flag.get("value") for flag in answer.json()["flags"]}
            self.client.saw(is_open=bool(values[GATE]))
        if answer.status_code in {200, 304}:
            self._tag = answer.headers["ETag"]
            self.client.answers += 1


class PlainViews(Asking):
    """A client of views without a floor."""

    def ask(self, url: str) -> None:
        answer = requests.get(f"{url}/v1/clusters/default/view", timeout=BOUND)
        if answer.status_code == 200:
            self.client.saw(epoch=fg.View.from_json(answer.text).epoch)


def test_invariant_10_nothing_goes_back_behind_a_balancer() -> None:
    """And without floor and tag it does, so that the test can fail."""
    with LocalKafka("4.2.0") as kafka, ExitStack() as running:
        operator = fg.Admin(kafka.bootstrap)
        quick, slow = Relay(kafka.bootstrap, 0.2), Relay(kafka.bootstrap, 1.0)
        for relay in (quick, slow):
            running.callback(relay.kill)
            relay.start()
        balancer = running.enter_context(balancing(quick, slow)).url
        clients = [Client() for _ in range(CLIENTS)]
        gates = []
        for client in clients:
            source = fg.HttpSource(balancer, timeout=5, wait=2)
            features = fg.Discoverer(source=source, interval=0.5, stale_after=60, metrics=client)
            gates.append(running.enter_context(features).gate(GATE, REQUIREMENT))
        tagged = running.enter_context(Flags(balancer, sends_tag=True)).client
        plain = [
            running.enter_context(Flags(balancer, sends_tag=False)).client,
            running.enter_context(PlainViews(balancer)).client,
        ]
        everyone = [*clients, tagged, *plain]

        def phase() -> None:
            """Let every client have some answers."""
            marks = [client.answers + POLLS for client in everyone]
            eventually(lambda: all(client.answers >= mark for client, mark in zip(everyone, marks, strict=True)))

        eventually(lambda: all(gate.open for gate in gates) and tagged.was_open)
        assert operator.update(downgrade({FEATURE: 1})).done
        eventually(lambda: (quick.level(), slow.level()) == (1, 1))
        phase()
        slow.kill()  # it forgets what it has latched
        slow.start()
        phase()
        quick.pause()  # and the other one sees the upgrade only when it is over
        assert operator.update(upgrade({FEATURE: 2})).done
        eventually(lambda: slow.level() == 2)
        assert operator.update(downgrade({FEATURE: 1})).done
        eventually(lambda: slow.level() == 1)
        quick.resume()
        phase()
        for relay in (quick, slow):  # nobody has latched anything any more, but for the clients
            relay.kill()
            relay.start()
        phase()
        assert all(gate.open for gate in gates)
        assert tagged.was_open
        assert [client.backwards for client in [*clients, tagged] if client.backwards] == []
        assert all(client.backwards for client in plain)
