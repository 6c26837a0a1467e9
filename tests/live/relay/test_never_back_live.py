"""Two relays behind a balancer over a real cluster that its operator upgrades and downgrades: nothing goes back.

One relay lags and is paused for a while; one restarts without what it has latched, and one from a backup of before the
gate opened. Clients with a floor, of flags with an entity tag, and of events with an id see no gate close and no
revision fall; beside them the same clients without these do. ``RELAY_CLIENTS=200`` is a fleet of them.
"""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import pytest
import requests
from balancing import balancing
from event_source import listening
from waiting import BOUND, eventually, line_with

import featuregate as fg
from featuregate.admin.updates import downgrade, upgrade
from featuregate.gating.events import Event, GateMoved
from featuregate.sources.seen import Floor, Seen
from featuregate.sources.source import MergedView
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("relay"), pytest.mark.live, pytest.mark.slow]

FEATURE = "transaction.version"
GATE = "transactions-2"
REQUIREMENT = f"{FEATURE}>=2"
CLIENTS = int(os.environ.get("RELAY_CLIENTS", "12"))
WITHOUT_FLOOR = 2
OFTEN = 0.5
"""Seconds between the polls of a client without a floor. Those that have one let a relay that is behind ask its brokers
each second: only a client that polls more often than that still meets older answers."""
INTERVAL = max(0.5, CLIENTS / 40)
"""Seconds between the polls of a client: the balancer is a thread of this process."""
LAG = 2 * INTERVAL
"""Seconds between the polls of the slow relay. Clients that poll less often than it would never meet older answers."""
POLLS = 6
"""What each client has done in a phase before the next one begins."""


class Relay:
    """``featuregate serve`` in a process of its own, on a port that it keeps, with latches of its own."""

    def __init__(self, bootstrap: str, interval: float, latches: Path) -> None:
        self._options = ["--bootstrap-server", bootstrap, "--interval", str(interval), "--latches", str(latches)]
        self._latches = latches
        latches.mkdir()
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "featuregate", "serve", *self._options, "--gate", f"{GATE}={REQUIREMENT}"]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = line_with(self._process.stderr, "serving ")
        self.port = int(line.rpartition("127.0.0.1:")[2].partition("/")[0])
        eventually(lambda: requests.get(f"{self.url}/readyz", timeout=BOUND).status_code == 200)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def level(self) -> object:
        return self.flag(f"level.{FEATURE}")

    def flag(self, key: str) -> object:
        """Return the value for a client that has seen nothing."""
        return requests.post(f"{self.url}/ofrep/v1/evaluate/flags/{key}", json={}, timeout=BOUND).json()["value"]

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

    def back_up(self, backup: Path) -> None:
        shutil.copytree(self._latches, backup)

    def restart(self, backup: Path | None = None) -> None:
        """Be killed, lose the disk, and start from a backup or from nothing."""
        self.kill()
        shutil.rmtree(self._latches)
        self._latches.mkdir() if backup is None else shutil.copytree(backup, self._latches)
        self.start()


class Revision(NamedTuple):
    """What must not fall."""

    epoch: int
    seen_at: float = 0.0
    """When the broker answered, by the clock that both relays share."""


class Client:
    """What one client has seen, and what of it has gone back."""

    def __init__(self) -> None:
        self.answers = 0
        self.backwards: list[str] = []
        self._revision = Revision(-1)
        self.was_open = False

    def saw_view(self, revision: Revision) -> None:
        self.answers += 1
        if revision.epoch < self._revision.epoch or revision.seen_at < self._revision.seen_at:
            self.backwards.append(f"{self._revision} -> {revision}")
        self._revision = revision

    def saw_gate(self, *, is_open: bool) -> None:
        if self.was_open and not is_open:
            self.backwards.append("the gate closed")
        self.was_open = is_open

    def __call__(self, event: Event) -> None:
        """Take the events of a discoverer."""
        if isinstance(event, GateMoved):
            self.saw_gate(is_open=event.open)


class NotedSource(fg.HttpSource):
    """Notes each view that a relay gave, before the discoverer compares it with its own; with a floor, or without."""

    def __init__(self, url: str, client: Client, *, has_floor: bool) -> None:
        super().__init__(url, timeout=5, wait=2 if has_floor else 0)
        self._client = client
        self._has_floor = has_floor

    async def fetch(self) -> MergedView:
        if not self._has_floor:
            self._seen = None
        fetched = await super().fetch()
        self._client.saw_view(Revision(fetched.view.epoch, fetched.view.seen_at))
        return fetched


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
            self.client.saw_gate(is_open=bool(values[GATE]))
        if answer.status_code in {200, 304}:
            self._tag = answer.headers["ETag"]
            self.client.answers += 1


class Events(Asking):
    """A client of events that comes back to the other relay after each, and may send back the id."""

    def __init__(self, *relays: Relay, sends_id: bool) -> None:
        super().__init__("")
        self._relays = itertools.cycle(relays)
        self._sends_id = sends_id
        self._last_id = ""

    def ask(self, _url: str) -> None:
        headers = {"Last-Event-ID": self._last_id} if self._sends_id and self._last_id else {}
        with listening(f"{next(self._relays).url}/v1/clusters/default/events", **headers) as events:
            event = next((event for event in events if event.kind != "heartbeat"), None)
        if event is not None:
            self.client.saw_gate(is_open=event.data["gates"][GATE])
            self._last_id = event.ident or ""
            self.client.answers += 1


class Checks(Asking):
    """A client of decisions, which may have a floor as the headers say."""

    def __init__(self, url: str, *, has_floor: bool) -> None:
        super().__init__(url)
        self._has_floor = has_floor
        self._seen: tuple[Floor, float] | None = None

    def ask(self, url: str) -> None:
        query = {"require": REQUIREMENT}
        if self._has_floor and self._seen is not None:
            floor, since = self._seen
            query |= replace(floor, age=floor.age + time.monotonic() - since).to_query()
        answer = requests.get(f"{url}/v1/clusters/default/check", params=query, timeout=BOUND)
        if answer.status_code == 200 and "Featuregate-Epoch" in answer.headers:  # not before the first view
            (seen,) = Seen.read(answer.headers["Featuregate-Seen"])
            found = Floor(seen=seen, age=float(answer.headers["Featuregate-Age"]))
            self._seen = found, time.monotonic()
            self.client.saw_view(Revision(answer.json()["epoch"]))


def test_invariant_10_nothing_goes_back_behind_a_balancer(tmp_path: Path) -> None:
    """And without floor and tag it does, so that the test can fail."""
    backup = tmp_path / "backup"
    with LocalKafka("4.2.0") as kafka, ExitStack() as running:
        operator = fg.Admin(kafka.bootstrap)
        assert operator.update(downgrade({FEATURE: 1})).done
        quick = Relay(kafka.bootstrap, 0.2, tmp_path / "quick")
        slow = Relay(kafka.bootstrap, LAG, tmp_path / "slow")
        for relay in (quick, slow):
            running.callback(relay.kill)
            relay.start()
        eventually(lambda: (quick.level(), slow.level()) == (1, 1))
        quick.back_up(backup)
        assert operator.update(upgrade({FEATURE: 2})).done
        balancer = running.enter_context(balancing(quick, slow)).url

        def start(*, has_floor: bool) -> tuple[Client, fg.Gate]:
            client = Client()
            source = NotedSource(balancer, client, has_floor=has_floor)
            interval = INTERVAL if has_floor else OFTEN
            features = fg.Discoverer(source=source, interval=interval, stale_after=600)
            features.on_event(client)
            return client, running.enter_context(features).gate(GATE, REQUIREMENT)

        clients, gates = zip(*(start(has_floor=True) for _ in range(CLIENTS)), strict=True)
        without_floor = [start(has_floor=False)[0] for _ in range(WITHOUT_FLOOR)]
        tagged, with_id, checks = (
            running.enter_context(asking).client
            for asking in (
                Flags(balancer, sends_tag=True),
                Events(quick, slow, sends_id=True),
                Checks(balancer, has_floor=True),
            )
        )
        others = [
            running.enter_context(asking).client
            for asking in (
                Flags(balancer, sends_tag=False),
                Events(quick, slow, sends_id=False),
                Checks(balancer, has_floor=False),
            )
        ]
        everyone = [*clients, *without_floor, tagged, with_id, checks, *others]

        def phase() -> None:
            """Let every client have some answers."""
            marks = [client.answers + POLLS for client in everyone]
            eventually(lambda: all(client.answers >= mark for client, mark in zip(everyone, marks, strict=True)))

        eventually(lambda: all(gate.open for gate in gates) and tagged.was_open and with_id.was_open)
        assert operator.update(downgrade({FEATURE: 1})).done
        eventually(lambda: (quick.level(), slow.level()) == (1, 1))
        phase()
        slow.restart()
        phase()
        quick.pause()  # and it sees the upgrade only when it is over
        assert operator.update(upgrade({FEATURE: 2})).done
        eventually(lambda: slow.level() == 2)
        assert operator.update(downgrade({FEATURE: 1})).done
        eventually(lambda: slow.level() == 1)
        quick.resume()
        phase()
        quick.restart(backup)
        slow.restart()
        assert not quick.flag(GATE)  # only clients have the latch now
        phase()
        assert all(gate.open for gate in gates)
        assert (tagged.was_open, with_id.was_open) == (True, True)
        assert [client.backwards for client in [*clients, tagged, with_id, checks] if client.backwards] == []
        eventually(lambda: any(client.backwards for client in without_floor))
        eventually(lambda: all(client.backwards for client in others))
