"""Random upgrades, and the invariants of an app that lives through them."""

from dataclasses import replace

import pytest
from app_model.app import App, Poll, RestartApp, TruncateAnswer
from app_model.checker import check_invariants
from app_model.expectations import AppRequirements, InvariantBroken
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from featuregate.gating.events import Changed
from featuregate.testing import simulator as sim
from featuregate.testing import upgrades
from featuregate.testing.simulator.client import PASSWORD, probe
from featuregate.testing.simulator.upgrades import cluster_events

MIXED = (
    # Lists come from broker 3, of 4.2, and from older ones in turn: the older ones do not list who is down.
    sim.Roll(3, "4.2"),
    sim.Stop(2),
    *[Poll()] * 4,
    sim.Start(2),
    Poll(),
    sim.Tick(50),
    sim.Stop(2),
    Poll(),
)
ROLLED = tuple(sim.Roll(node, "4.2") for node in (3000, 3001, 3002, 1, 2, 3))
LEFT_BEHIND = (
    # The one broker that had heard of the level goes away, and the others hear nothing new.
    *ROLLED,
    Poll(),
    sim.Lag(1),
    sim.Lag(2),
    sim.upgrade({"metadata.version": 25, "group.version": 1}),
    Poll(),
    sim.Stop(3),
    *(sim.Tick(20), Poll()) * 2,
)
UPGRADE = (
    Poll(),
    *ROLLED,
    Poll(),
    sim.upgrade({"metadata.version": 25, "group.version": 1}),
    Poll(),
    sim.Lag(2),
    sim.downgrade({"group.version": 0}),
    sim.Tick(3),
    Poll(),
    RestartApp(),
    Poll(),
)
STARTS = [
    sim.KRaft("3.9"),
    sim.KRaft("4.2", brokers=1, controllers=1),
    sim.KRaft("3.9", brokers=3, controllers=0),
    sim.ZooKeeper("v1"),
    sim.ZooKeeper("old-protocol", brokers=2),
]


# ---------------------------------------------------------------- the strategy


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_a_script_of_the_strategy_can_happen(start: sim.KRaft | sim.ZooKeeper) -> None:
    """Each of its events can, and brokers are left."""

    @given(script=upgrades(start))
    def happens(script: sim.Script) -> None:
        assert script.spec == start
        assert all(any(node.is_broker for node in step.cluster.nodes.values()) for step in sim.run(script))

    happens()


def test_the_strategy_chooses_from_the_builds_and_levels_that_are_named() -> None:
    """And not from others. Without levels, nobody updates any."""

    @given(script=upgrades(builds=["4.0"], levels={"group.version": [1]}), without=upgrades(levels={}))
    def chooses(script: sim.Script, without: sim.Script) -> None:
        assert all(event.build == "4.0" for event in script.events if isinstance(event, sim.Roll | sim.Join))
        assert all(
            event.levels == {"group.version": 1} for event in script.events if isinstance(event, sim.UpdateFeatures)
        )
        assert not any(isinstance(event, sim.UpdateFeatures) for event in without.events)

    chooses()


def rolled_twice(script: sim.Script) -> bool:
    """Return whether a broker is rolled twice."""
    rolled = [event.node_id for event in script.events if isinstance(event, sim.Roll)]
    return len(rolled) != len(set(rolled))


@pytest.mark.no_cover
def test_a_failing_script_shrinks_to_the_events_that_it_needs() -> None:
    """Hypothesis leaves out all others, and the script prints as the code that creates it."""
    script = find(upgrades(sim.KRaft("3.9", brokers=2)), rolled_twice, settings=settings(derandomize=True))
    assert script.events == (sim.Roll(1, "3.9"), sim.Roll(1, "3.9"))
    assert eval(repr(script), dict(vars(sim))) == script


# ---------------------------------------------------------------- the invariants


def app_events(start: sim.KRaft | sim.ZooKeeper) -> st.SearchStrategy:
    """Draw what happens to the app: most often a poll."""
    cuts = st.builds(TruncateAnswer, st.integers(1, start.brokers), st.sampled_from((0, 3, 11, 200)))
    kinds = [st.just(Poll())] * 6 + [cuts, st.just(RestartApp())]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


def all_events(start: sim.KRaft | sim.ZooKeeper) -> st.SearchStrategy:
    """Draw what happens to the cluster and to the app."""
    return st.lists(
        st.sampled_from([cluster_events(start)] * 2 + [app_events(start)]).flatmap(lambda of: of), max_size=40
    )


@pytest.mark.parametrize("start", STARTS, ids=repr)
@pytest.mark.no_cover
def test_the_invariants_hold_in_any_upgrade(start: sim.KRaft | sim.ZooKeeper) -> None:
    """The app polls, restarts, and gets answers that are cut off."""

    @settings(max_examples=settings.default.max_examples // 3, suppress_health_check=[HealthCheck.too_slow])
    @given(events=all_events(start))
    def hold(events: list) -> None:
        check_invariants(start, events)

    hold()


@pytest.mark.parametrize("events", [UPGRADE, MIXED, LEFT_BEHIND], ids=["upgrade", "mixed", "left behind"])
def test_the_invariants_hold_in_an_upgrade(events: tuple) -> None:
    """The gates of these scripts are closed, open and held."""
    check_invariants(STARTS[0], events)


def test_an_error_of_a_poll_is_no_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poller goes on after any error, and a script must end with it."""
    monkeypatch.setattr("featuregate.sources.source.merge", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        App(["group.version>=1"]).poll(sim.KRaft("4.2").create())


class ForgetfulApp(App):
    """Forgets its latches when it restarts."""

    def restart(self) -> None:
        self.latch_store.kept.clear() if hasattr(self, "latch_store") else None
        super().restart()


class HastyApp(App):
    """Polls one broker only."""

    def poll(self, cluster, *, cut=None):
        alone = replace(cluster, registered=dict(list(cluster.registered.items())[:1]))
        return super().poll(alone, cut=cut)


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

    def poll(self, cluster, *, cut=None):
        if self.view is None:
            self.first = cluster
        return super().poll(self.first, cut=cut)


class MuteApp(App):
    """Reports no change."""

    def poll(self, cluster, *, cut=None):
        view = super().poll(cluster, cut=cut)
        self.events.clear()
        return view


BROKEN = [
    (ForgetfulApp, 2, UPGRADE),
    (HastyApp, 3, (sim.Roll(1, "4.2"), Poll())),
    (BackwardApp, 1, (Poll(), sim.Partition((1,)), sim.Tick(9), Poll(), sim.Stop(2), sim.Stop(3), Poll())),
    (ChattyApp, 4, (Poll(), sim.Tick(1), Poll())),
    (DeafApp, 7, (Poll(),)),
    (RememberingApp, 6, (Poll(), sim.Roll(1, "4.2"), Poll())),
    (RememberingApp, 1, (Poll(), sim.Stop(1), Poll())),
    (MuteApp, 4, (Poll(),)),
]


@pytest.mark.parametrize(
    ("app", "number", "events"), BROKEN, ids=[f"{app.__name__}-{number}" for app, number, _ in BROKEN]
)
def test_the_model_finds_each_broken_invariant(app: type[App], number: int, events: tuple) -> None:
    """The error has the number of the invariant that the app breaks."""
    with pytest.raises(InvariantBroken) as broken:
        check_invariants(STARTS[0], events, app=app)
    assert broken.value.number == number


def test_invariant_12_a_secret_that_is_shown_is_found() -> None:
    """The secret is the name of a feature, so that decisions show it."""
    with pytest.raises(InvariantBroken, match="invariant 12: a secret is shown"):
        check_invariants(STARTS[0], [Poll()], requirements=AppRequirements("Fetch", 4, PASSWORD, 1))


# ---------------------------------------------------------------- single answers


def test_a_truncated_answer_is_a_failure_of_one_broker() -> None:
    """An answer that is truncated at any byte is complete or a failure."""
    cluster = STARTS[0].create()
    whole = probe(cluster, 1)
    answers = [probe(cluster, 1, cut_after=after) for after in range(0, 2000, 7)]
    assert whole.answered
    assert {answer.answered for answer in answers} == {True, False}
    assert all(answer.api_ranges == whole.api_ranges for answer in answers if answer.answered)
    assert answers[0].failure.kind == "ConnectionLost"


def test_a_negotiation_falls_back_to_what_the_broker_speaks() -> None:
    """A broker of 3.3 serves ApiVersions up to v3, and refuses v5 with error 35."""
    assert probe(sim.KRaft("3.3").create(), 1).asked_version == 3
    assert probe(sim.KRaft("4.2").create(), 1).asked_version == 4


def test_every_public_name_is_there() -> None:
    """Each name exists, and there are few."""
    assert all(hasattr(sim, name) for name in sim.__all__)
    assert len(set(sim.__all__)) == len(sim.__all__) <= 30
