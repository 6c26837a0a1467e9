"""No answer of any relay takes a client back while a fake cluster rolls, fails over, lags and is updated.

Each replica reaches other brokers of it, at other times, and restarts without what it has seen.
"""

import asyncio
import random
from contextlib import suppress
from typing import ClassVar

import pytest
from app_model.brokers import PASSWORDS, UnpluggedBrokers
from app_model.checker import seconds_of
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from relay_world import CLIENTS, REPLICAS, World

from featuregate.errors import DiscoveryError
from featuregate.sources.seen import Floor
from featuregate.sources.source import BrokerAnswers
from featuregate.testing import FakeCluster, UpgradeStep
from featuregate.testing.random_upgrades import happened, steps

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

FIRST = {"brokers": 3, "controllers": 3, "release": "3.9", "cluster_id": "cluster-in-a-test-0001"}
STARTS = [FIRST, {**FIRST, "controllers": 0}]
STEPS = 200


class UpgradedWorld(World):
    """Brokers of a fake cluster that is upgraded."""

    wanted: ClassVar = [
        ("metadata", "metadata.version>=18", "sticky"),
        ("newer metadata", "metadata.version>=21", "sticky"),
    ]

    def __init__(self, start: dict) -> None:
        self.cluster = FakeCluster(**start, passwords=PASSWORDS)
        self.polls = 0
        super().__init__()

    def event(self, step: UpgradeStep) -> None:
        """Let something happen to the cluster, if it still can: the step may name a broker that has left."""
        happened(self.cluster, step)
        self.now += seconds_of(step)

    def poll(self, replica: int, how: int) -> None:
        """Poll. A replica that reaches no broker keeps what it has."""
        with suppress(DiscoveryError):
            super().poll(replica, how)

    def answers(self, replica: int, how: int) -> BrokerAnswers:
        """Ask all brokers that are listed, or only those that this replica reaches now."""
        self.polls += 1
        brokers = [broker.node_id for broker in self.cluster.brokers]
        reached = random.Random(how).sample(brokers, how % (len(brokers) + 1)) if how else brokers
        cut = {node_id: 0 for node_id in brokers if node_id not in reached}
        now = self.clock_of(replica)()
        return asyncio.run(UnpluggedBrokers(self.cluster, now=now, cut=cut, turn=self.polls).fetch())


def schedules(start: dict, *, least: int = 0) -> st.SearchStrategy[list[tuple]]:
    """Draw events of the cluster, with polls, requests and restarts between them."""
    replica, client = st.integers(0, REPLICAS - 1), st.integers(0, CLIENTS - 1)
    delays = st.lists(st.floats(0, 3), max_size=3)
    # Views of one cluster compare; of a cluster that is restored from a backup, too.
    events = steps(start).filter(lambda step: step != UpgradeStep("rebuild"))
    kinds = {
        "event": st.tuples(st.just("event"), events),
        "poll": st.tuples(st.just("poll"), replica, st.just(0) | st.integers(1, 99)),
        "ask": st.tuples(st.just("ask"), client, replica, delays),
        "pass_time": st.tuples(st.just("pass_time"), st.floats(0, 20)),
        "restart": st.tuples(st.just("restart"), replica),
    }
    weighted = [*["event"] * 4, *["poll"] * 3, *["ask"] * 3, "pass_time", "restart"]
    return st.lists(st.sampled_from(weighted).flatmap(kinds.__getitem__), min_size=least, max_size=STEPS)


@pytest.mark.parametrize("start", STARTS, ids=["3.9", "no controllers"])
def test_invariant_10_no_answer_takes_a_client_of_a_fake_cluster_back(start: dict) -> None:
    """And clients do get answers, and gates do open.

    A short schedule shows what the beginning of a long one does, and a run of short ones alone showed nothing.
    """
    answered, opened = 0, 0

    @settings(suppress_health_check=list(HealthCheck))
    @given(drawn=schedules(start, least=STEPS // 20))
    def never_back(drawn: list[tuple]) -> None:
        nonlocal answered, opened
        world = UpgradedWorld(start).run(drawn)
        assert not world.falls
        assert not world.closed
        answered += world.answered
        opened += any(gate.open for gates in world.gates for gate in gates)

    never_back()
    assert answered > 0
    assert opened > 0


@pytest.mark.parametrize("start", STARTS, ids=["3.9", "no controllers"])
def test_without_the_floor_clients_of_a_fake_cluster_are_taken_back(
    start: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property above would notice."""
    monkeypatch.setattr(Floor, "above", lambda *_: None)
    found = settings(max_examples=5_000, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    assert find(schedules(start, least=STEPS // 2), lambda drawn: UpgradedWorld(start).run(drawn).falls, settings=found)
