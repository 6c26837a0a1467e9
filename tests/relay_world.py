"""Replicas of a relay and their clients over a cluster that a test moves: no network, no threads, one true clock."""

import asyncio
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

from apps_in_process import serving
from schedules import carried_out

from featuregate import HttpSource, View
from featuregate.errors import FeatureGateError
from featuregate.gating.gates import Gate
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate.requirements import parse
from featuregate.sources.source import BrokerAnswers
from featuregate_relay.app import PolledCluster, make_app

REPLICAS = 3
CLIENTS = 2
"""One behind a balancer, which picks a replica for each request, and one that knows all replicas."""


CLOCKS = 1e6
"""Seconds by which the clocks of two replicas differ."""


class Revision(NamedTuple):
    """What must never fall."""

    epoch: int
    asked_at: float
    """By the one true clock, that no replica has."""


def revision(view: View) -> Revision:
    """Return what a view is of. Clocks of replicas differ by multiples of a million seconds."""
    return Revision(view.epoch, round(view.seen_at % CLOCKS, 6))


class Participant:
    """A store with its poll state, on the monotonic clock of a machine."""

    def __init__(self, clock) -> None:
        state = PollState(interval=1.0, stale_after=float("inf"), forget_after=1.0)
        self.store = Store(wall=clock, staleness=lambda: state.staleness(clock()))
        self.poller = Poller(None, self.store, state, clock)  # type: ignore[arg-type]  # the schedule brings the views

    @property
    def view(self) -> View | None:
        return self.store.view

    def view_and_age(self):
        return self.poller.view_and_age()

    def health(self):
        return self.poller.health()

    def ensure_polling(self) -> None:
        """A gate asks for it; the schedule polls."""


@dataclass
class World:
    """A cluster, replicas of a relay whose clocks differ, and clients behind all of them."""

    wanted: ClassVar[list[tuple[str, str, str]]] = []
    """Name, requirement and policy of the gates of each client, which must not close once they are open."""
    now: float = 1000.0
    delays: list[float] = field(default_factory=list)
    falls: list[tuple[Revision, Revision]] = field(default_factory=list)
    """Each answer that took a client back: what it had, and what it got."""
    closed: list[str] = field(default_factory=list)
    answered: int = 0

    def __post_init__(self) -> None:
        self.replicas = [Participant(self.clock_of(replica)) for replica in range(REPLICAS)]
        self.by_replica = apps = [
            make_app({"default": PolledCluster(self._of(index))}, floor_seconds=0) for index in range(REPLICAS)
        ]
        self.apps = {f"replica-{index}": app for index, app in enumerate(apps)}
        urls = [f"http://{name}" for name in self.apps]
        self.apps["balancer"] = self.balance
        known = ["http://balancer", urls]
        self.sources = [HttpSource(url, clock=self.clock, chance=lambda: 0.0) for url in known]
        self.clients = [Participant(self.clock) for _ in range(CLIENTS)]
        self.gates = [self._gates(client) for client in self.clients]
        self.got: list[Revision | None] = [None] * CLIENTS
        self.picked = 0

    def _of(self, index: int):
        world = self

        class Features:
            """The discoverer of a replica, which a restart replaces."""

            view = property(lambda _: world.replicas[index].view)
            holds = property(lambda _: world.replicas[index].store.holds.texts())

            def view_and_age(self):
                return world.replicas[index].view_and_age()

            def health(self):
                return world.replicas[index].health()

        return Features()

    def _gates(self, client: Participant) -> list[Gate]:
        return [
            client.store.add_gate(name, lambda: Gate(name, parse(text), policy=policy, owner=client))  # noqa: B023
            for name, text, policy in self.wanted
        ]

    async def balance(self, *call) -> None:
        """Pass a request on to the replica that the balancer has picked."""
        await self.by_replica[self.picked](*call)

    def clock(self) -> float:
        return self.now

    def clock_of(self, replica: int):
        """Return the clock of another machine, which shows another time."""
        return lambda: self.now + CLOCKS * (replica - 1)

    def run(self, schedule: list[tuple]) -> Self:
        """Do one step after the other: each is the name of a method with its arguments."""
        with serving(self.apps, self.delay):
            return carried_out(self, schedule)

    def delay(self) -> None:
        self.now += self.delays.pop() if self.delays else 0.0

    # ------------------------------------------------------------------ steps

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def poll(self, replica: int, how: int) -> None:
        """Let a replica ask brokers; ``how`` chooses what they answer."""
        self.now += 0.001
        self.replicas[replica].poller.apply(self.answers(replica, how))

    def answers(self, replica: int, how: int) -> BrokerAnswers:
        """Return what brokers answer to a replica now."""
        raise NotImplementedError

    def restart(self, replica: int) -> None:
        """Forget everything, as a process without a store does."""
        self.replicas[replica] = Participant(self.clock_of(replica))

    def ask(self, client: int, picked: int, delays: list[float]) -> None:
        """Let a client poll, and note what moves back. The balancer picks a replica."""
        self.picked, self.delays = picked, list(delays)
        gates = self.gates[client]
        were_open = [gate for gate in gates if gate.open]
        before = self.clients[client].view
        try:
            fetched = asyncio.run(self.sources[client].fetch())
            self.note(client, revision(fetched.view))
            self.clients[client].poller.apply(fetched)
        except FeatureGateError:
            pass
        after = self.clients[client].view
        if before is not None and after.epoch < before.epoch:
            self.falls.append((revision(before), revision(after)))
        self.closed += [gate.name for gate in were_open if not gate.open]

    def note(self, client: int, new: Revision) -> None:
        had, self.got[client] = self.got[client], new
        self.answered += 1
        if had is not None and (new.epoch < had.epoch or new.asked_at < had.asked_at):
            self.falls.append((had, new))
