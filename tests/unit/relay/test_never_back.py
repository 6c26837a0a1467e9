"""No answer of any relay takes a client back: over random schedules of replicas, clients and their cluster.

There is no network and no thread, and one true clock, which no replica has.
"""

import asyncio
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import hypothesis.strategies as st
import pytest
from apps_in_process import serving
from hypothesis import HealthCheck, find, given, settings
from schedules import ANY_EXAMPLE, carried_out

from featuregate import HttpSource, View
from featuregate.errors import FeatureGateError
from featuregate.gating.gates import Gate
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate.requirements import parse
from featuregate.sources.seen import Floor
from featuregate.sources.source import BrokerAnswers
from featuregate.view.answers import ApiRange, BrokerAnswer
from featuregate_relay.app import PolledCluster, make_app

PRODUCE = 0
EXAMPLES = 60
REPLICAS = 3
CLIENTS = 2
"""One behind a balancer, which picks a replica for each request, and one that knows all replicas."""


CLOCKS = 1e6
"""Seconds by which the clocks of two replicas differ."""


class Revision(NamedTuple):
    epoch: int
    asked_at: float
    """By the one true clock, that no replica has."""


def revision(view: View) -> Revision:
    """Return what a view is of. Clocks of replicas differ by multiples of a million seconds."""
    return Revision(view.epoch, round(view.seen_at % CLOCKS, 6))


class State(NamedTuple):
    """What every broker of the cluster reports: the level goes up and down, and the software only up."""

    epoch: int
    level: int
    produce: int


class Participant:
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

    wanted: ClassVar = [("latched", "group.version>=2", "sticky"), ("served", "Produce>=2", "live")]
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
        self.history = [State(epoch=1, level=1, produce=1)]

    def _of(self, index: int):
        world = self

        class Features:
            view = property(lambda _: world.replicas[index].view)
            holds = property(lambda _: world.replicas[index].store.holds.found.found)

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
        await self.by_replica[self.picked](*call)

    def clock(self) -> float:
        return self.now

    def clock_of(self, replica: int):
        return lambda: self.now + CLOCKS * (replica - 1)

    def run(self, schedule: list[tuple]) -> Self:
        """Do one step after the other: each is the name of a method with its arguments."""
        with serving(self.apps, self.delay):
            return carried_out(self, schedule)

    def delay(self) -> None:
        self.now += self.delays.pop() if self.delays else 0.0

    # ------------------------------------------------------------------ steps

    def upgrade(self) -> None:
        state = self.history[-1]
        self.history.append(State(state.epoch + 1, state.level + 1, min(state.produce + 1, 3)))

    def downgrade(self) -> None:
        state = self.history[-1]
        self.history.append(state._replace(epoch=state.epoch + 1, level=max(state.level - 1, 0)))

    def answers(self, replica: int, how: int) -> BrokerAnswers:
        """Levels are those of some epochs ago. The software is that of now."""
        state = self.history[max(0, len(self.history) - 1 - how)]
        answer = BrokerAnswer(
            node_id=1,
            host="b",
            port=9092,
            epoch=state.epoch,
            finalized={"group.version": state.level},
            api_ranges={PRODUCE: ApiRange(0, self.history[-1].produce)},
            answered_at=self.now,
        )
        return BrokerAnswers(
            cluster_id="one",
            controller_id=None,
            broker_list="cluster",
            registered=True,
            role="broker",
            answers=(answer,),
            answered_at=self.clock_of(replica)(),
        )

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def poll(self, replica: int, how: int) -> None:
        """Let a replica ask brokers; ``how`` chooses what they answer."""
        self.now += 0.001
        self.replicas[replica].poller.apply(self.answers(replica, how))

    def restart(self, replica: int) -> None:
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


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEDULES)
def test_invariant_10_no_answer_takes_a_client_back(schedule: list[tuple]) -> None:
    """Replicas may be far behind, restarted or delayed, and have other clocks."""
    world = World().run(schedule)
    assert world.falls == []
    assert world.closed == []


@pytest.mark.no_cover
def test_without_the_floor_answers_do_take_clients_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above would notice."""
    monkeypatch.setattr(Floor, "above", lambda *_: None)
    find(SCHEDULES, lambda schedule: World().run(schedule).falls, settings=ANY_EXAMPLE)


def test_clients_get_answers_from_replicas_that_are_not_behind() -> None:
    """A floor that refused everything would have the property, too."""
    world = World().run(
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
