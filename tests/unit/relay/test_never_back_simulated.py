"""No answer of any relay takes a client back while a simulated cluster rolls, fails over, lags and is updated.

Each replica reaches other brokers of it, at other times, and restarts without what it has seen.
"""

import asyncio
import random
from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from relay_world import CLIENTS, REPLICAS, World

from featuregate.errors import DiscoveryError
from featuregate.sources.floor import Floor
from featuregate.sources.source import BrokerAnswers
from featuregate.testing.simulator import KRaft, Rebuild, ScriptError, Tick, ZooKeeper, apply
from featuregate.testing.simulator.client import SimulatedBrokers
from featuregate.testing.simulator.cluster import ClusterSpec
from featuregate.testing.simulator.events import TICK_SECONDS, ClusterEvent
from featuregate.testing.simulator.upgrades import cluster_events

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

STARTS = [KRaft("3.9"), KRaft("3.9", brokers=3, controllers=0), ZooKeeper("v1")]
STEPS = 200


class SimulatedWorld(World):
    """Brokers of a simulated cluster."""

    wanted: ClassVar = [
        ("metadata", "metadata.version>=18", "sticky"),
        ("newer metadata", "metadata.version>=21", "sticky"),
        ("coordinator", "feature:group_coordinator>=1", "sticky"),
        ("newer coordinator", "feature:group_coordinator>=2", "sticky"),
    ]

    def __init__(self, start: ClusterSpec) -> None:
        self.cluster = start.create()
        self.polls = 0
        super().__init__()

    def event(self, event: ClusterEvent) -> None:
        """Let something happen to the cluster, if it still can: the event may name a broker that has left."""
        with suppress(ScriptError):
            self.cluster = apply(self.cluster, event).cluster
        if isinstance(event, Tick):
            self.now += event.ticks * TICK_SECONDS

    def poll(self, replica: int, how: int) -> None:
        """Poll. A replica that reaches no broker keeps what it has."""
        with suppress(DiscoveryError):
            super().poll(replica, how)

    def answers(self, replica: int, how: int) -> BrokerAnswers:
        """Ask all brokers that are listed, or only those that this replica reaches now."""
        self.polls += 1
        brokers = list(self.cluster.listed_brokers)
        reached = random.Random(how).sample(brokers, how % (len(brokers) + 1)) if how else brokers
        cut = {node_id: 0 for node_id in brokers if node_id not in reached}
        now = self.clock_of(replica)()
        return asyncio.run(SimulatedBrokers(self.cluster, now=now, cut=cut, turn=self.polls).fetch())


def schedules(start: ClusterSpec, *, least: int = 0) -> st.SearchStrategy[list[tuple]]:
    """Draw events of the cluster, with polls, requests and restarts between them."""
    replica, client = st.integers(0, REPLICAS - 1), st.integers(0, CLIENTS - 1)
    delays = st.lists(st.floats(0, 3), max_size=3)
    events = cluster_events(start).filter(lambda event: not isinstance(event, Rebuild))  # views of one cluster compare
    steps = {
        "event": st.tuples(st.just("event"), events),
        "poll": st.tuples(st.just("poll"), replica, st.just(0) | st.integers(1, 99)),
        "ask": st.tuples(st.just("ask"), client, replica, delays),
        "pass_time": st.tuples(st.just("pass_time"), st.floats(0, 20)),
        "restart": st.tuples(st.just("restart"), replica),
    }
    weighted = [*["event"] * 4, *["poll"] * 3, *["ask"] * 3, "pass_time", "restart"]
    return st.lists(st.sampled_from(weighted).flatmap(steps.__getitem__), min_size=least, max_size=STEPS)


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_invariant_10_no_answer_takes_a_client_of_a_simulated_cluster_back(start: ClusterSpec) -> None:
    """And clients do get answers, and gates do open.

    A short schedule shows what the beginning of a long one does, and a run of short ones alone showed nothing.
    """
    answered, opened = 0, 0

    @settings(suppress_health_check=list(HealthCheck))
    @given(steps=schedules(start, least=STEPS // 20))
    def never_back(steps: list[tuple]) -> None:
        nonlocal answered, opened
        world = SimulatedWorld(start).run(steps)
        assert not world.falls
        assert not world.closed
        answered += world.answered
        opened += any(gate.open for gates in world.gates for gate in gates)

    never_back()
    assert answered > 0
    assert opened > 0


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_without_the_floor_clients_of_a_simulated_cluster_are_taken_back(
    start: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property above would notice."""
    monkeypatch.setattr(Floor, "above", lambda *_: None)
    found = settings(max_examples=5_000, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    assert find(
        schedules(start, least=STEPS // 2), lambda steps: SimulatedWorld(start).run(steps).falls, settings=found
    )
