"""Harm that is done to members and brokers under load: chosen by a seed, written down, and survived before the next."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from waiting import eventually

from eos.counts import Counts
from eos.fleets import App, Fleet
from eos.ledger import Ledger
from eos.pipes import BOUND
from featuregate.testing import LocalKafka

logger = logging.getLogger("eos")

Kind = Literal["kill", "pause", "restart", "broker", "silence"]

NAMES: dict[Kind, str] = {
    "kill": "a member is killed",
    "pause": "a member is paused until the group has given it up",
    "restart": "a member is restarted",
    "broker": "a broker is killed",
    "silence": "a broker is silent",
}
"""The kinds of harm, as a soak counts them."""


def until(what: str, condition: Callable[[], bool], timeout: float = BOUND) -> None:
    eventually(condition, what, timeout)


class Line:
    """A pipe that is fed, the members that work on it, and those that are away for the moment."""

    def __init__(self, ledger: Ledger, fleet: Fleet) -> None:
        self.ledger = ledger
        self.fleet = fleet
        self.pipe = fleet.pipe
        self.down: list[App] = []
        self.asleep: list[App] = []

    def wake(self) -> list[App]:
        """Resume the members that the group has given up: each is a zombie now."""
        zombies = [app for app in self.asleep if self.pipe.is_member(app.name) is False]
        for app in zombies:
            self.asleep.remove(app)
            app.resume()
        return zombies

    def ensure_polling(self) -> list[App]:
        back, self.down = self.down, []
        for app in back:
            app.start()
        return back

    def is_whole(self) -> bool:
        self.fleet.check()
        return all(self.pipe.is_member(app.name) for app in self.fleet.running)


class Faults:
    """Does harm to the members of all lines, and to the brokers under them."""

    def __init__(self, kafka: LocalKafka, lines: list[Line], seed: int, *, progress: int) -> None:
        """Each line has to bring out ``progress`` inputs after a fault, before the next one."""
        self.seed = seed
        self._progress = progress
        self.counts = Counts([line.ledger for line in lines], *(kafka.node(node).version for node in kafka.nodes))
        self._kafka = kafka
        self._lines = lines
        self._random = random.Random(seed)
        self._began = time.monotonic()
        self._log: list[str] = []

    def note(self, text: str) -> None:
        self._log.append(f"{time.monotonic() - self._began:6.1f} s  {text}")
        logger.info(self._log[-1])

    @contextmanager
    def told(self) -> Iterator[None]:
        try:
            yield
        except BaseException as failure:
            failure.add_note(self.tell())
            raise

    def tell(self) -> str:
        """Say what was done, how to do it again, and how far each line came."""
        ledgers = "\n".join(f"{line.pipe.group}: {line.ledger.glance()}" for line in self._lines)
        return "\n".join([f"{self.counts.survived.total()} faults survived, seed {self.seed}", *self._log, ledgers])

    # ------------------------------------------------------------ harm

    def strike(self, *kinds: Kind) -> None:
        """Do one kind of harm after the other, in any order, and wait each time until every line goes on."""
        for kind in self._random.sample(kinds, len(kinds)):
            self.harm(kind)
            self.go_on()

    def harm(self, kind: Kind) -> None:
        self.end_harm()
        if kind == "broker":
            self.kill_broker()
        elif kind == "silence":
            self.silence_broker()
        else:
            kind = self._harm_a_member(kind)
        self.counts.fault(NAMES[kind])

    def _harm_a_member(self, kind: Kind) -> Kind:
        line = self._random.choice(self._lines)
        at_work = [app for app in line.fleet.running if app.status is not None and app.status["status"] == "ok"]
        app = self._random.choice(at_work or line.fleet.running)
        if (kind == "pause" and len(line.fleet.running) < 2) or (kind != "kill" and not at_work):
            # Another member has to take over from a paused one, and one that has just begun has nothing to give up.
            kind = "kill"
        self.note(f"{kind} {app.name}, which has told {app.status}")
        if kind == "pause":
            app.pause()
            line.asleep.append(app)
        elif kind == "restart":
            app.stop()
            app.start()
        else:
            app.kill()
            line.down.append(app)
            if len(line.fleet.running) == 0 or self._random.random() < 0.5:
                line.ensure_polling()
        return kind

    def kill_broker(self, node: int | None = None) -> None:
        """Kill a broker while a transaction is open, and start it again when the lines go on without it."""
        node = node or self._random.choice(self._kafka.nodes)
        with suppress(AssertionError):  # a line that has nothing to do has none open
            until("a transaction is open", self._lines[0].ledger.transaction_is_open, 5.0)
        self.note(f"kill broker {node}, {self._kafka.node(node).version}")
        self._kafka.kill(node)
        self.go_on()
        self._kafka.start(node)
        self.note(f"broker {node} is back")

    def silence_broker(self) -> None:
        """Stop a broker with all its connections open, and resume it when the lines go on without it."""
        node = self._random.choice(self._kafka.nodes)
        self.note(f"broker {node}, {self._kafka.node(node).version}, falls silent")
        self._kafka.pause(node)
        self.go_on()
        self._kafka.resume(node)
        self.note(f"broker {node} is heard again")

    def roll(self, node: int, version: str) -> None:
        """Restart a broker in another release, newer or older; the caller lets the lines go on.

        All replicas are in sync, as after each start of a node. A partition whose other replicas lag would keep this
        broker as its leader, so that groups get a coordinator of the old release when the broker goes back.
        """
        self.note(f"broker {node} is restarted in {version}")
        self._kafka.roll(node, version)
        self.counts.kafka = list(dict.fromkeys([*self.counts.kafka, version]))
        self.counts.fault("a broker is restarted in another release")

    # ------------------------------------------------------------ and its end

    def end_harm(self) -> None:
        """Start again who was killed, and resume who was given up by its group."""
        for line in self._lines:
            for app in line.ensure_polling():
                self.note(f"start {app.name}")
            for app in line.wake():
                self.note(f"resume {app.name}, which is a zombie now")

    def heal(self) -> None:
        """End all harm, and wait until every member is in its group again."""
        until("every paused member is given up by its group", self._no_member_sleeps)
        for line in self._lines:
            until(f"every member of {line.pipe.group} is back", line.is_whole)
        self.go_on()

    def _no_member_sleeps(self) -> bool:
        self.end_harm()
        return not any(line.asleep for line in self._lines)

    def go_on(self) -> None:
        """Wait until every line has brought out more of what it was given."""
        for line in self._lines:
            line.fleet.check()
            ledger = line.ledger
            ledger.wait_for(min(ledger.different + self._progress, ledger.planned), 2 * BOUND)
        self.counts.went_on()
