"""The story of ``make demo``: it rolls the brokers, and makes a zombie in both apps at each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from demo_timeline import Timeline, show_brokers

from featuregate.testing.traffic import Loop, wait_for

if TYPE_CHECKING:
    from demo_apps import Group, Instance
    from demo_traffic import Load

    from featuregate.testing import LocalKafka

WORK_MS = 30
"""What an instance needs for one input, all of it inside the transaction."""
INTO_THE_WORK = 0.35
"""Seconds after a burst at which an instance is in the middle of a transaction: its share takes 0.6 s."""
ATTEMPTS = 10
BOUND = 90.0
"""Seconds that anything may take which usually takes less than ten."""
_T = TypeVar("_T")
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven")


@dataclass(frozen=True, slots=True)
class Step:
    """The state of the groups in one step of the roll. The texts are empty in a step without zombies."""

    name: str
    model: str = ""
    """The model of the guarded group when its zombie fell asleep."""
    coordinator: str = ""
    """The release of the broker that coordinated the naive group while its zombie slept."""
    fate: str = ""
    """What became of the commit that the naive zombie had begun."""


class Story:
    """Rolls the cluster, makes zombies, and records what happens."""

    def __init__(
        self, kafka: LocalKafka, guarded: Group, naive: Group, timeline: Timeline, load: Load, loops: Sequence[Loop]
    ) -> None:
        self.kafka, self.guarded, self.naive = kafka, guarded, naive
        self.timeline, self.load, self.loops = timeline, load, loops
        self.groups = (guarded, naive)
        self.steps: list[Step] = []

    def watch(self) -> None:
        """Record the models and gates of all instances, and the releases of the brokers."""
        told = [(one.name, status) for group in self.groups for one in group.instances if (status := one.status())]
        for name, status in told:
            self.timeline.show(name, status["model"])
        gates = [status["gate"] for _, status in told if "gate" in status]
        if gates:
            self.timeline.show("gate", "open" if all(gates) else "closed")
        show_brokers(self.kafka, self.timeline)

    # ------------------------------------------------------------ the plot

    def play(self, new: str, *, quick: bool) -> None:
        """Run all steps; with ``quick``, make zombies only before and after the roll."""
        old = self.kafka.node(1).version
        nodes = self.kafka.nodes
        self.begin(f"all {old}")
        self._wait("both groups are whole", lambda: all(group.whole() for group in self.groups))
        self.make_zombies()
        for number, node in enumerate(nodes, start=1):
            last = node == nodes[-1]
            self.begin(f"all {new}" if last else f"{NUMBERS[number - 1]} rolled")
            self.roll(node, new)
            if last:
                self.wait_for_v2()
            if last or not quick:
                self.make_zombies()

    def begin(self, name: str) -> None:
        """Begin a step."""
        self.timeline.show("step", name)
        self.steps.append(Step(name))

    def roll(self, node: int, version: str) -> None:
        """Roll one broker, and wait for the groups."""
        self.timeline.say(f"broker {node} is stopped, and comes back with {version}")
        self.kafka.roll(node, version)
        self._wait("both groups are whole", lambda: all(group.whole() for group in self.groups))

    def wait_for_v2(self) -> None:
        """Wait until the app with featuregate has switched to v2."""
        instances = self.guarded.instances
        self._wait(
            "every instance with featuregate runs v2",
            lambda: all((status := instance.status()) and status["model"] == "v2" for instance in instances),
        )
        self.timeline.say(f"{self.guarded.name} has switched to v2")

    def make_zombies(self) -> None:
        """Stop the first instance of each group in the middle of a transaction; let both go on after the takeover."""
        zombies = [group.instances[0] for group in self.groups]
        self._stop_at_work(zombies)
        asleep = zombies[1].counts()[-1]
        for zombie in zombies:
            self.timeline.show(f"{zombie.name} sleeps", "zombie")
        self.timeline.say(
            f"{' and '.join(zombie.name for zombie in zombies)} are stopped in the middle of a transaction"
        )
        model = str((zombies[0].status() or {}).get("model", ""))
        self._wait_for_takeover()
        coordinator = self._wait("the coordinator is told", lambda: self.kafka.node(self.naive.coordinator()).version)
        self.timeline.say("the others have taken over; now the zombies go on with their transactions")
        for zombie in zombies:
            zombie.child.resume()
            self.timeline.show(f"{zombie.name} sleeps", None)
        fate = self._fate(zombies[1], asleep)
        self.timeline.say(
            f"{zombies[1].name}'s commit was {fate} (its group is coordinated by a broker of {coordinator})"
        )
        self._wait("both groups are whole again", lambda: all(group.whole() for group in self.groups))
        self.steps[-1] = Step(self.steps[-1].name, model, coordinator, fate)
        self.catch_up()

    def _stop_at_work(self, zombies: Sequence[Instance]) -> None:
        """Stop instances shortly after a burst; repeat this with the next burst if they were not at work."""
        instances = [instance for group in self.groups for instance in group.instances]
        before = {instance: instance.committed() for instance in instances}
        self._wait("every instance commits", lambda: all(one.committed() > before[one] for one in instances))
        for _ in range(ATTEMPTS):
            if not self.load.wait_for_burst(BOUND):
                raise TimeoutError(f"no input was sent for {BOUND:.0f} s")
            time.sleep(INTO_THE_WORK)
            for zombie in zombies:
                zombie.child.pause()
            if all(zombie.at_work() for zombie in zombies):
                return
            for zombie in zombies:
                zombie.child.resume()
        raise TimeoutError(f"{ATTEMPTS} times, no transaction was open {INTO_THE_WORK} s after a burst")

    def _wait_for_takeover(self) -> None:
        """Wait until the committed offset of every partition rises, also of those of the zombie."""
        before = self._wait("both groups tell their offsets", lambda: {group: group.offsets() for group in self.groups})

        def moved(group: Group) -> bool:
            now = group.offsets()
            return all(now[partition] > offset for partition, offset in before[group].items())

        self._wait("the other instances take over", lambda: all(moved(group) for group in self.groups))

    def _fate(self, zombie: Instance, asleep: tuple[int, int]) -> str:
        """Return what became of the transaction in which it fell asleep, when so many were committed and aborted."""

        def ended() -> tuple[int, int]:
            later = (each for each in zombie.counts() if sum(each) > sum(asleep))
            return next(later, asleep)

        self._wait(f"{zombie.name} ends its transaction", lambda: ended() != asleep)
        return "refused" if ended()[1] > asleep[1] else "accepted"

    def catch_up(self) -> None:
        """Wait until both groups have committed all inputs so far."""
        ends = {group: dict(self.load.ends[group.input]) for group in self.groups}

        def caught_up(group: Group) -> bool:
            now = group.offsets()
            return all(now[partition] >= end for partition, end in ends[group].items())

        self._wait("both groups catch up", lambda: all(caught_up(group) for group in self.groups))

    def _wait(self, what: str, ask: Callable[[], _T]) -> _T:
        checks = [*(loop.check for loop in self.loops), *(group.check for group in self.groups)]
        return wait_for(what, ask, BOUND, *checks)
