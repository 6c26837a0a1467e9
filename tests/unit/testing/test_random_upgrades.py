"""Random upgrades, and the invariants of an app that lives through them; the worked examples are tests, too."""

import pickle
import runpy
from pathlib import Path

import pytest
from app_model.app import App, Lie, PassTime, Poll, RestartApp, TruncateAnswer
from app_model.brokers import PASSWORD, PASSWORDS, probe
from app_model.checker import check_invariants
from app_model.expectations import AppRequirements, InvariantBroken
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from featuregate.admin.updates import downgrade, upgrade
from featuregate.gating.events import Changed
from featuregate.testing import FakeCluster, Upgrade, UpgradeStep, upgrades
from featuregate.testing.random_upgrades import happened, steps

FINALIZE = UpgradeStep("update", (upgrade({"metadata.version": 25, "group.version": 1}),))
MIXED = (
    # Lists come from broker 3, of 4.2, and from older ones in turn: the older ones do not list who is down.
    UpgradeStep("roll", (3, "4.2")),
    UpgradeStep("stop", (2,)),
    *[Poll()] * 4,
    UpgradeStep("start", (2,)),
    Poll(),
    UpgradeStep("advance_epoch", (50,)),
    UpgradeStep("stop", (2,)),
    Poll(),
)
ROLLED = tuple(UpgradeStep("roll", (node, "4.2")) for node in (3000, 3001, 3002, 1, 2, 3))
LEFT_BEHIND = (
    # The one broker that had heard of the level goes away, and the others hear nothing new.
    *ROLLED,
    Poll(),
    UpgradeStep("lag", (1,)),
    UpgradeStep("lag", (2,)),
    FINALIZE,
    Poll(),
    UpgradeStep("stop", (3,)),
    *(UpgradeStep("advance_epoch", (20,)), Poll()) * 2,
)
UPGRADE = (
    Poll(),
    *ROLLED,
    Poll(),
    FINALIZE,
    Poll(),
    UpgradeStep("lag", (2,)),
    UpgradeStep("update", (downgrade({"group.version": 0}),)),
    UpgradeStep("advance_epoch", (3,)),
    Poll(),
    RestartApp(),
    Poll(),
)
FIRST = {"brokers": 3, "controllers": 3, "release": "3.9", "cluster_id": "cluster-in-a-test-0001"}
STARTS = [FIRST, {**FIRST, "brokers": 1, "controllers": 1, "release": "4.2"}, {**FIRST, "controllers": 0}]
IDS = ["3.9", "4.2 alone", "no controllers"]


@pytest.mark.parametrize("start", STARTS, ids=IDS)
def test_the_steps_of_an_upgrade_can_happen(start: dict) -> None:

    @given(drawn=upgrades(**start))
    def happens(drawn: Upgrade) -> None:
        for (_, one), (_, other) in zip(drawn, pickle.loads(pickle.dumps(drawn)), strict=True):
            assert one.brokers
            assert (one.finalized, one.epoch, one.controller_id) == (other.finalized, other.epoch, other.controller_id)

    happens()


def test_the_strategy_chooses_from_the_releases_and_levels_that_are_named() -> None:

    @given(drawn=upgrades(releases=["4.0"], levels={"group.version": [1]}), without=upgrades(levels={}))
    def chooses(drawn: Upgrade, without: Upgrade) -> None:
        assert {step.arguments[1] for step in drawn.steps if step.method == "roll"} <= {"4.0"}
        asked = [update for step in drawn.steps if step.method == "update" for update in step.arguments[0]]
        assert all((update.feature, update.level) == ("group.version", 1) for update in asked)
        assert not any(step.method == "update" for step in without.steps)

    chooses()


def rolled_twice(drawn: Upgrade) -> bool:
    """Return whether a node is rolled twice."""
    rolled = [step.arguments[0] for step in drawn.steps if step.method == "roll"]
    return len(rolled) != len(set(rolled))


@pytest.mark.no_cover
def test_a_failing_upgrade_shrinks_to_the_steps_that_it_needs() -> None:
    found = find(upgrades(brokers=2), rolled_twice, settings=settings(derandomize=True))
    assert found.steps == (UpgradeStep("roll", (1, "3.9")), UpgradeStep("roll", (1, "3.9")))
    assert eval(repr(found), {"UpgradeStep": UpgradeStep, "Upgrade": Upgrade}) == found


def test_a_step_that_cannot_happen_is_left_out() -> None:
    """It names a node that is not there, a release without controllers, or the last broker."""
    cluster = FakeCluster(1, controllers=1)
    for step in (
        UpgradeStep("stop", (9,)),
        UpgradeStep("roll", (3000, "2.8")),
        UpgradeStep("add_broker", (1,)),
        UpgradeStep("remove_broker", (1,)),
    ):
        assert not happened(cluster, step)
    assert [node.running for node in (*cluster.brokers, *cluster.controllers)] == [True, True]


# ---------------------------------------------------------------- the invariants


def app_events(start: dict) -> st.SearchStrategy:
    """Draw what happens to the app: most often a poll."""
    cuts = st.builds(TruncateAnswer, st.integers(1, start["brokers"]), st.sampled_from((0, 3, 11, 200)))
    lies = st.builds(Lie, st.integers(1, start["brokers"]), st.integers(-1, 300), st.integers(0, 2))
    jumps = st.builds(PassTime, st.floats(-1e9, 1e9))
    kinds = [st.just(Poll())] * 8 + [cuts, lies, jumps, st.just(RestartApp())]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


@pytest.mark.parametrize("start", STARTS, ids=IDS)
@pytest.mark.no_cover
def test_the_invariants_hold_in_any_upgrade(start: dict) -> None:
    """The app polls, restarts, and gets answers that are cut off or wrong; its clock jumps."""
    either = st.sampled_from([steps(start)] * 2 + [app_events(start)]).flatmap(lambda of: of)

    @settings(max_examples=settings.default.max_examples // 3, suppress_health_check=[HealthCheck.too_slow])
    @given(events=st.lists(either, max_size=40))
    def hold(events: list) -> None:
        check_invariants(start, events)

    hold()


@pytest.mark.parametrize("events", [UPGRADE, MIXED, LEFT_BEHIND], ids=["upgrade", "mixed", "left behind"])
def test_the_invariants_hold_in_an_upgrade(events: tuple) -> None:
    """The gates of these upgrades are closed, open and held."""
    check_invariants(FIRST, events)


def test_an_error_of_a_poll_is_no_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poller goes on after any error, and a test must end with it."""
    monkeypatch.setattr("featuregate.sources.source.merge", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        App(["group.version>=1"]).poll(FakeCluster(passwords=PASSWORDS))


class ForgetfulApp(App):
    """Forgets its latches when it restarts."""

    def restart(self) -> None:
        self.latch_store.there.clear() if hasattr(self, "latch_store") else None
        super().restart()


class HastyApp(App):
    """Polls one broker only."""

    async def fetch(self):
        found = await super().fetch()
        return found._replace(answers=found.answers[:1])


class BackwardApp(App):
    """Accepts the view of each poll, whatever its epoch."""

    def poll(self, cluster, *, cut=None):
        self.features._store._last.clear()
        return super().poll(cluster, cut=cut)


class ChattyApp(App):
    """Reports the last change again when nothing has changed."""

    def poll(self, cluster, *, cut=None):
        before = self.changes()
        view = super().poll(cluster, cut=cut)
        if before and self.changes() == before:
            self.events.append(before[-1])
        return view

    def changes(self):
        return [event for event in self.events if isinstance(event, Changed)]


class DeafApp(App):
    """Loses an answer that was not truncated."""

    def poll(self, cluster, *, cut=None):
        return super().poll(cluster, cut={**(cut or {}), 1: 9})


class RememberingApp(App):
    """Keeps the answers of older connections."""

    kept = None

    async def fetch(self):
        self.kept = self.kept or await super().fetch()
        return self.kept


class MuteApp(App):
    """Reports no change."""

    def poll(self, cluster, *, cut=None):
        view = super().poll(cluster, cut=cut)
        self.events.clear()
        return view


STOPPED = (UpgradeStep("stop", (2,)), UpgradeStep("stop", (3,)))
BROKEN = [
    (ForgetfulApp, 2, UPGRADE),
    (HastyApp, 3, (UpgradeStep("roll", (1, "4.2")), Poll())),
    (BackwardApp, 1, (Poll(), UpgradeStep("lag", (1,)), UpgradeStep("advance_epoch", (9,)), Poll(), *STOPPED, Poll())),
    (ChattyApp, 4, (Poll(), UpgradeStep("advance_epoch", (1,)), Poll())),
    (DeafApp, 7, (Poll(),)),
    (RememberingApp, 6, (Poll(), UpgradeStep("roll", (1, "4.2")), Poll())),
    (RememberingApp, 1, (Poll(), UpgradeStep("stop", (1,)), Poll())),
    (MuteApp, 4, (Poll(),)),
]


@pytest.mark.parametrize(
    ("app", "number", "events"), BROKEN, ids=[f"{app.__name__}-{number}" for app, number, _ in BROKEN]
)
def test_the_model_finds_each_broken_invariant(app: type[App], number: int, events: tuple) -> None:
    """The error has the number of the invariant that the app breaks."""
    with pytest.raises(InvariantBroken) as broken:
        check_invariants(FIRST, events, app=app)
    assert broken.value.number == number


def test_invariant_12_a_secret_that_is_shown_is_found() -> None:
    """The secret is the name of a feature, so that decisions show it."""
    with pytest.raises(InvariantBroken, match="invariant 12: a secret is shown"):
        check_invariants(FIRST, [Poll()], requirements=AppRequirements("Fetch", 4, PASSWORD, 1))


# ---------------------------------------------------------------- single answers


def test_a_truncated_answer_is_a_failure_of_one_broker() -> None:
    """An answer that is truncated at any byte is complete or a failure."""
    cluster = FakeCluster(release="3.9", passwords=PASSWORDS)
    whole = probe(cluster, 1)
    answers = [probe(cluster, 1, cut_after=after) for after in range(0, 2000, 7)]
    assert whole.answered
    assert {answer.answered for answer in answers} == {True, False}
    assert all(answer.api_ranges == whole.api_ranges for answer in answers if answer.answered)
    assert answers[0].failure.kind == "ConnectionLost"


def test_a_negotiation_falls_back_to_what_the_broker_speaks() -> None:
    """A broker of 3.3 serves ApiVersions up to v3, and refuses v5 with error 35."""
    asked = [probe(FakeCluster(1, release=release, passwords=PASSWORDS), 1).asked_version for release in ("3.3", "4.2")]
    assert asked == [3, 4]


# ------------------------------------------------------------------ the worked examples are tests


FOLDER = Path(__file__).parents[3] / "examples" / "upgrades"
EXAMPLES = {path.stem: runpy.run_path(str(path)) for path in sorted(FOLDER.glob("test_*.py"))}


def test_there_are_three_of_them() -> None:
    """Each of the three examples has tests."""
    assert len(EXAMPLES) == 3
    assert all(any(name.startswith("test_") for name in names) for names in EXAMPLES.values())


globals().update({name: test for names in EXAMPLES.values() for name, test in names.items() if name[:5] == "test_"})
