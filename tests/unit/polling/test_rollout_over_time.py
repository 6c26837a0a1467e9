"""Rollout control over time and order: the production discoverer over a fake cluster that is upgraded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from app_model.app import App, Poll, RestartApp
from app_model.brokers import PASSWORDS
from app_model.checker import APP_REQUIREMENTS, seconds_of
from hypothesis import given, settings
from hypothesis import strategies as st

from featuregate import Gate, evaluate
from featuregate.admin.updates import disable, upgrade
from featuregate.gating.latches import Policy
from featuregate.testing import FakeCluster, UpgradeStep
from featuregate.testing.random_upgrades import happened, steps

START = {"brokers": 3, "controllers": 3, "release": "4.2", "cluster_id": "cluster-in-a-test-0001"}
WAIT = 30.0


@dataclass(frozen=True)
class Holding:
    """An operator holds every gate, or releases them."""

    held: bool


class CarefulApp(App):
    """Its sticky gates have a burn-in, and an operator may hold them."""

    def __init__(self, holds: Path) -> None:
        holds.write_text("")
        self.holds = holds
        self.options = {"hold": holds}
        super().__init__(APP_REQUIREMENTS.requirements)

    def gate(self, requirement: str, policy: Policy, *, name: str | None = None) -> Gate:
        burn_in = timedelta(seconds=WAIT) if policy == "sticky" else None
        name = name or f"{requirement} ({policy})"
        return self.features.gate(name, requirement, policy=policy, open_after=burn_in)


class Careful:
    """What a careful app may do, from what its polls have seen of the cluster."""

    def __init__(self, app: CarefulApp) -> None:
        self.app = app
        self.held = False
        self.ended: dict[tuple[str | None, str], float] = {}
        """When a poll last saw that a requirement does not hold, by cluster id; the first poll counts as one."""
        self.latched: set[tuple[str | None, str]] = set()

    def poll(self, cluster: FakeCluster) -> None:
        """Poll, and check what opened."""
        view = self.app.poll(cluster)
        if view is None:
            self.check()
            return
        for requirement, gate in self.app.sticky.items():
            key = view.cluster_id, requirement
            if evaluate(view, requirement).verdict == "closed":
                self.ended[key] = self.app.elapsed
            began = self.ended.setdefault(key, self.app.elapsed)
            if gate.open and key not in self.latched:
                assert self.app.elapsed - began >= WAIT, f"{requirement} opened before its burn-in"
                assert not self.held, f"{requirement} opened while it was held"
                assert evaluate(view, requirement).open
                self.latched.add(key)
        self.cluster_id = view.cluster_id
        self.check()

    cluster_id: str | None = None

    def check(self) -> None:
        """Each gate that has latched in this cluster is open, also after a restart and without any broker."""
        for requirement, gate in self.app.sticky.items():
            assert gate.open is ((self.cluster_id, requirement) in self.latched), str(gate.decision)


def live_through(events: Sequence[object]) -> Careful:
    """Apply steps to a cluster and a careful app. Steps that cannot happen are left out."""
    with TemporaryDirectory() as folder:
        careful = Careful(CarefulApp(Path(folder, "holds")))
        cluster = FakeCluster(**START, passwords=PASSWORDS)
        for event in events:
            match event:
                case Poll():
                    careful.poll(cluster)
                case RestartApp():
                    careful.app.restart()
                case Holding(held):
                    careful.app.holds.write_text("*: the test\n" if held else "")
                    careful.held = held
                case _:
                    happened(cluster, event)
                    careful.app.pass_time(seconds_of(event))
            careful.check()
    return careful


WATCHED = [UpgradeStep("advance_epoch", (20,)), Poll()]
LEVELS = [
    [UpgradeStep("update", (change,)), Poll()] for change in (upgrade({"group.version": 1}), disable("group.version"))
]
HOLDS = [[Holding(True)], [Holding(False)], [Holding(False)]]  # noqa: FBT003 - a value
often = st.sampled_from([*[WATCHED] * 6, *LEVELS, *HOLDS, [RestartApp()], [RestartApp(), Poll()]])
seldom = steps(START).map(lambda event: [event])


@settings(max_examples=settings.default.max_examples // 2)
@given(st.lists(st.one_of(often, often, often, seldom), max_size=40))
def test_no_gate_opens_too_early_and_none_that_has_latched_closes(blocks: list[list[object]]) -> None:
    """In any upgrade, with restarts of the app, holds and brokers that go away."""
    live_through([event for block in blocks for event in block])


@pytest.mark.parametrize("held", [False, True])
def test_gates_of_a_quiet_cluster_open_after_their_burn_in(held: bool) -> None:  # noqa: FBT001 - pytest's
    """The property above is about gates that do open."""
    spec_polls = [each for _ in range(5) for each in WATCHED]
    careful = live_through([Holding(held), Poll(), *spec_polls, RestartApp()])
    assert bool(careful.latched) is not held


def test_a_level_that_goes_back_for_a_moment_begins_the_burn_in_again() -> None:
    """The gate of the level opens a burn-in after the level is there again, and that of the API is not delayed."""
    down_and_up = [*LEVELS[1], UpgradeStep("advance_epoch", (2,)), *LEVELS[0]]
    careful = live_through([Poll(), *WATCHED * 2, *down_and_up, *WATCHED * 2])
    api, level = careful.app.sticky["TxnOffsetCommit>=5"], careful.app.sticky["feature:group.version>=1"]
    assert (api.open, level.open) == (True, False)
    assert "counted 0:00:20 of 0:00:30" in level.decision.summary
