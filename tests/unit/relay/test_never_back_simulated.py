"""No answer of any relay takes a client back while a simulated cluster rolls, fails over, lags and is updated.

Each replica reaches other brokers of it, at other times, and restarts without what it has seen.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import pytest
from relay_world import CLIENTS, REPLICAS, World

from featuregate.errors import DiscoveryError
from featuregate.sources.floor import Floor
from featuregate.testing.simulator import KRaft, Rebuild, ScriptChoices, Tick, ZooKeeper, apply, random_script
from featuregate.testing.simulator.client import SimulatedBrokers
from featuregate.testing.simulator.events import TICK_SECONDS, ClusterEvent, ScriptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.sources.source import BrokerAnswers
    from featuregate.testing.simulator.cluster import ClusterSpec

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

STARTS = [KRaft("3.9"), KRaft("3.9", brokers=3, controllers=0), ZooKeeper("v1")]
SEEDS = range(12)
EVENTS = 60


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
        """Let something happen to the cluster, if it still can: it was drawn for a cluster that was built anew, too."""
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


def schedule(start: ClusterSpec, seed: int) -> list[tuple]:
    """Draw events of the cluster, with polls, requests and restarts between them."""
    chance = random.Random(seed)
    choices = ScriptChoices(builds=start.default_builds, levels=start.default_levels)
    steps: list[tuple] = []
    for event in random_script(start, choices, chance, EVENTS).events:
        if isinstance(event, ClusterEvent) and not isinstance(event, Rebuild):  # views of two clusters are not compared
            steps.append(("event", event))
        for _ in range(chance.randrange(4)):
            replica, delays = chance.randrange(REPLICAS), [chance.uniform(0, 3) for _ in range(chance.randrange(4))]
            steps.append(
                chance.choice(
                    [
                        ("poll", replica, 0),
                        ("poll", replica, chance.randrange(1, 100)),
                        ("ask", chance.randrange(CLIENTS), replica, delays),
                        ("ask", chance.randrange(CLIENTS), replica, []),
                        ("restart", replica) if chance.random() < 0.3 else ("pass_time", chance.uniform(0, 20)),
                    ]
                )
            )
    return steps


def worlds(start: ClusterSpec) -> Iterator[SimulatedWorld]:
    """Run one schedule after the other."""
    return (SimulatedWorld(start).run(schedule(start, seed)) for seed in SEEDS)


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_invariant_10_no_answer_takes_a_client_of_a_simulated_cluster_back(start: ClusterSpec) -> None:
    """And clients do get answers, and gates do open."""
    run = list(worlds(start))
    assert [(world.falls, world.closed) for world in run if world.falls or world.closed] == []
    assert sum(world.answered for world in run) > len(SEEDS)
    assert any(gate.open for world in run for gates in world.gates for gate in gates)


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_without_the_floor_clients_of_a_simulated_cluster_are_taken_back(
    start: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property above would notice."""
    monkeypatch.setattr(Floor, "above", lambda *_: None)
    assert any(world.falls for world in worlds(start))
