"""No answer of any relay takes a client back: over random schedules of replicas, clients and their cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import hypothesis.strategies as st
from apps_in_process import serving
from hypothesis import HealthCheck, Phase, find, given, settings

from featuregate import HttpSource
from featuregate.errors import FeatureGateError
from featuregate.gating.gates import Gate
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.view_updater import ViewUpdater
from featuregate.requirements import parse
from featuregate.sources.floor import Floor
from featuregate.sources.source import BrokerAnswers
from featuregate.view.answers import ApiRange, BrokerAnswer
from featuregate_relay.app import Cluster, make_app

if TYPE_CHECKING:
    import pytest

    from featuregate import View

REPLICAS = 3
CLIENTS = 2
"""One behind a balancer, which picks a replica for each request, and one that knows all replicas."""
PRODUCE = 0
EXAMPLES = 60


class State(NamedTuple):
    """What every broker of the cluster reports: the level goes up and down, and the software only up."""

    epoch: int
    level: int
    produce: int


class Revision(NamedTuple):
    """What must never fall."""

    epoch: int
    asked_at: float
    """By the one true clock, that no replica has."""


def revision(view: View) -> Revision:
    return Revision(view.epoch, view.brokers[0].answered_at)


class Participant:
    """A store with its poll state, on the monotonic clock of a machine."""

    def __init__(self, clock) -> None:
        state = PollState(interval=1.0, stale_after=float("inf"), forget_after=1.0)
        self.store = Store(wall=clock, staleness=lambda: state.staleness(clock()))
        self.updater = ViewUpdater(self.store, state, clock)

    @property
    def view(self) -> View | None:
        return self.store.view

    def view_and_age(self):
        return self.updater.view_and_age()

    def health(self):
        return self.updater.health()

    def ensure_polling(self) -> None:
        """A gate asks for it; the schedule polls."""


@dataclass
class World:
    """A cluster, replicas of a relay whose clocks differ, and clients behind all of them."""

    now: float = 1000.0
    delays: list[float] = field(default_factory=list)
    falls: list[tuple[Revision, Revision]] = field(default_factory=list)
    """Each answer that took a client back: what it had, and what it got."""
    closed: list[str] = field(default_factory=list)
    answered: int = 0

    def __post_init__(self) -> None:
        self.history = [State(epoch=1, level=1, produce=1)]
        self.replicas = [Participant(self.clock_of(replica)) for replica in range(REPLICAS)]
        self.by_replica = apps = [
            make_app({"default": Cluster(self._of(index))}, floor_seconds=0) for index in range(REPLICAS)
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

            def view_and_age(self):
                return world.replicas[index].view_and_age()

            def health(self):
                return world.replicas[index].health()

        return Features()

    @staticmethod
    def _gates(client: Participant) -> list[Gate]:
        wanted = [("latched", "group.version>=2", "sticky"), ("served", "Produce>=2", "live")]
        return [
            client.store.add_gate(name, lambda: Gate(name, parse(text), policy=policy, owner=client))  # noqa: B023
            for name, text, policy in wanted
        ]

    async def balance(self, *call) -> None:
        """Pass a request on to the replica that the balancer has picked."""
        await self.by_replica[self.picked](*call)

    def clock(self) -> float:
        return self.now

    def clock_of(self, replica: int):
        """Return the clock of another machine, which shows another time."""
        return lambda: self.now + 1e6 * (replica - 1)

    def delay(self) -> None:
        self.now += self.delays.pop() if self.delays else 0.0

    # ------------------------------------------------------------------ steps

    def upgrade(self) -> None:
        state = self.history[-1]
        self.history.append(State(state.epoch + 1, state.level + 1, min(state.produce + 1, 3)))

    def downgrade(self) -> None:
        state = self.history[-1]
        self.history.append(state._replace(epoch=state.epoch + 1, level=max(state.level - 1, 0)))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def poll(self, replica: int, behind: int) -> None:
        """Ask brokers, whose levels may be those of some epochs ago. Their software is that of now."""
        self.now += 0.001
        state = self.history[max(0, len(self.history) - 1 - behind)]
        answer = BrokerAnswer(
            node_id=1,
            host="b",
            port=9092,
            epoch=state.epoch,
            finalized={"group.version": state.level},
            api_ranges={PRODUCE: ApiRange(0, self.history[-1].produce)},
            answered_at=self.now,
        )
        self.replicas[replica].updater.apply(
            BrokerAnswers(
                cluster_id="one",
                controller_id=None,
                broker_list="cluster",
                registered=True,
                role="broker",
                answers=(answer,),
                answered_at=self.clock_of(replica)(),
            )
        )

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
            self.clients[client].updater.apply(fetched)
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


def steps() -> st.SearchStrategy[tuple]:
    replicas, clients = st.integers(0, REPLICAS - 1), st.integers(0, CLIENTS - 1)
    polls = st.tuples(st.just("poll"), replicas, st.integers(0, 2))
    asks = st.tuples(st.just("ask"), clients, replicas, st.lists(st.floats(0, 3), max_size=4))
    return st.one_of(
        polls,
        asks,
        polls,
        asks,
        st.tuples(st.just("pass_time"), st.floats(0, 100)),
        st.tuples(st.sampled_from(["upgrade", "downgrade"])),
        st.tuples(st.just("restart"), replicas),
    )


SCHEDULES = st.lists(steps(), min_size=10, max_size=60)


def run(schedule: list[tuple]) -> World:
    world = World()
    with serving(world.apps, world.delay):
        for step, *arguments in schedule:
            getattr(world, step)(*arguments)
    return world


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEDULES)
def test_no_answer_takes_a_client_back(schedule: list[tuple]) -> None:
    """Whichever replica answers, however far behind, restarted, delayed or with another clock."""
    world = run(schedule)
    assert world.falls == []
    assert world.closed == []


def test_without_the_floor_answers_do_take_clients_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above would notice."""
    monkeypatch.setattr(Floor, "above", lambda *_: None)
    quick = settings(max_examples=1000, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
    find(SCHEDULES, lambda schedule: run(schedule).falls, settings=quick)


def test_clients_get_answers_from_replicas_that_are_not_behind() -> None:
    """A floor that refused everything would have the property, too."""
    world = run(
        [
            ("poll", 0, 0),
            ("ask", 1, 0, [0.5, 0.5]),
            ("upgrade",),
            ("poll", 1, 0),
            ("restart", 0),
            ("ask", 1, 0, []),
            ("pass_time", 5.0),
            ("poll", 2, 0),
            ("restart", 1),
            ("ask", 1, 0, []),
        ]
    )
    assert world.answered == 3
    assert world.clients[1].view.epoch == 2
