"""Random scripts, their checks, and how the explorer shrinks and prints a failing one."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from featuregate.gating.decisions import FRESH
from featuregate.gating.events import Changed
from featuregate.gating.gates import Gate
from featuregate.polling.poll_state import PollState
from featuregate.testing import simulator
from featuregate.testing.simulator import (
    AppRequirements,
    Build,
    InvariantBroken,
    JumpClock,
    KRaft,
    Lag,
    Partition,
    Poll,
    RestartApp,
    Roll,
    Script,
    ScriptChoices,
    ScriptError,
    ScriptFailed,
    Start,
    Stop,
    Tick,
    TruncateAnswer,
    UpdateFeatures,
    ZooKeeper,
    as_code,
    check_invariants,
    downgrade,
    explore,
    random_script,
    release_build,
    run,
    shrink,
    upgrade,
    view_of,
)
from featuregate.testing.simulator.app import FORGET_AFTER, STALE_AFTER, App
from featuregate.testing.simulator.client import PASSWORD, probe
from featuregate.testing.simulator.scripts.explorer import _WEIGHTS
from featuregate.testing.simulator.scripts.invariants import InvariantChecker
from featuregate.testing.simulator.scripts.script import check_with

if TYPE_CHECKING:
    from collections.abc import Callable

MIXED = (
    # Lists come from broker 3, of 4.2, and from older ones in turn: the older ones do not list who is down.
    Roll(3, "4.2"),
    Stop(2),
    *[Poll()] * 4,
    Start(2),
    Poll(),
    Tick(50),
    Stop(2),
    Poll(),
)
ROLLED = tuple(Roll(node, "4.2") for node in (3000, 3001, 3002, 1, 2, 3))
LEFT_BEHIND = (
    # The one broker that had heard of the level goes away, and the others hear nothing new.
    *ROLLED,
    Poll(),
    Lag(1),
    Lag(2),
    upgrade({"metadata.version": 25, "group.version": 1}),
    Poll(),
    Stop(3),
    *(Tick(20), Poll()) * 2,
)
UPGRADE = (
    Poll(),
    *ROLLED,
    Poll(),
    upgrade({"metadata.version": 25, "group.version": 1}),
    Poll(),
    Lag(2),
    downgrade({"group.version": 0}),
    Tick(3),
    Poll(),
    RestartApp(),
    JumpClock(-1e6),
    Poll(),
)
STARTS = [
    KRaft("3.9"),
    KRaft("4.2", brokers=1, controllers=1),
    KRaft("3.9", brokers=3, controllers=0),
    ZooKeeper("v1"),
    ZooKeeper("old-protocol", brokers=2),
]


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_the_invariants_hold_in_random_scripts(start: KRaft | ZooKeeper) -> None:
    """An error contains the seed of the script."""
    explore(start, seed=random.SystemRandom().getrandbits(32), scripts=4)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_the_invariants_hold_in_many_random_scripts(start: KRaft | ZooKeeper) -> None:
    """These scripts are more and longer than those of the test above."""
    explore(start, seed=random.SystemRandom().getrandbits(32), scripts=40, length=40)


def test_the_same_seed_gives_the_same_scripts() -> None:
    """A long script has all kinds of events."""
    start = ZooKeeper("v1")
    words = ScriptChoices(builds=start.default_builds, levels=start.default_levels)
    made = [random_script(start, words, random.Random(7), 400) for _ in range(2)]
    assert made[0] == made[1] != random_script(start, words, random.Random(8), 400)
    assert {type(event) for event in made[0].events} == set(_WEIGHTS)
    alone = random_script(start, ScriptChoices(builds=("v1",)), random.Random(7), 400)
    assert not any(isinstance(event, UpdateFeatures) for event in alone.events)


def test_the_invariants_hold_in_an_upgrade_and_a_downgrade() -> None:
    """The script has closed, open and held gates."""
    check_invariants(Script(STARTS[0], UPGRADE))


def test_an_error_of_a_poll_is_no_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poller goes on after any error, and a script must end with it."""
    cluster = KRaft("4.2").create()
    app = App(["group.version>=1"])
    monkeypatch.setattr("featuregate.sources.source.merge", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        app.poll(cluster)


class ForgetfulApp(App):
    """Forgets its latches when it restarts."""

    def restart(self) -> None:
        self.latch_store._kept.clear() if hasattr(self, "latch_store") else None
        super().restart()


class HastyApp(App):
    """Polls one broker only."""

    def poll(self, cluster, *, cut=None):
        alone = replace(cluster, registered=dict(list(cluster.registered.items())[:1]))
        return super().poll(alone, cut=cut)


class BackwardApp(App):
    """Accepts the view of each poll, whatever its epoch."""

    def poll(self, cluster, *, cut=None):
        self._store._last.clear()
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


class ThreadedApp(App):
    """Leaves a thread behind."""

    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, args=(60,), daemon=True)

    def poll(self, cluster, *, cut=None):
        self.thread.start()
        return super().poll(cluster, cut=cut)


class BlindApp(App):
    """Reads every level as 1."""

    def poll(self, cluster, *, cut=None):
        assert not cut
        view = replace(view_of(cluster, now=self.now), finalized={"group.version": 1})
        self._store.update(view)
        return view


class PassingApp(App):
    """Lets calls pass closed gates."""

    def poll(self, cluster, *, cut=None):
        for gate in self.sticky.values():
            gate.__class__ = PassingGate
        return super().poll(cluster, cut=cut)


class PassingGate(Gate):
    """Requires nothing."""

    __slots__ = ()

    def require(self) -> None:
        return


class OpenApp(App):
    """Pickles its gates."""

    def poll(self, cluster, *, cut=None):
        for gate in self.sticky.values():
            gate.__class__ = OpenGate
        return super().poll(cluster, cut=cut)


class OpenGate(Gate):
    """Can be pickled."""

    __slots__ = ()

    def __reduce__(self):
        return bool, ()


class PolledApp(App):
    """Polls with another poll state."""

    Memory: type[PollState]

    def restart(self) -> None:
        super().restart()
        self._updater.state = self.Memory(interval=5, stale_after=STALE_AFTER, forget_after=FORGET_AFTER)


class ForgetsEarlyApp(PolledApp):
    """Forgets a missing broker too early, because a list with fenced brokers came between."""

    class Memory(PollState):
        def vanished(self, before, cluster_id, listed, now, *, registered):
            return () if registered else super().vanished(before, cluster_id, listed, now, registered=registered)


class AgelessApp(PolledApp):
    """Accepts a view of any age."""

    class Memory(PollState):
        def staleness(self, now):
            del now
            return FRESH


class AgelessLevelsApp(PolledApp):
    """Accepts the levels of a view while any broker answers."""

    class Memory(PollState):
        def staleness(self, now):
            return super().staleness(now)._replace(levels=None)


class HastyGateApp(App):
    """Decides late gates by a view of any age."""

    def gate(self, requirement, policy, *, name=None):
        self._store._staleness, asked = (lambda: FRESH), self._store._staleness
        try:
            return super().gate(requirement, policy, name=name)
        finally:
            self._store._staleness = asked


BROKEN = [
    (ForgetfulApp, 2, UPGRADE),
    (HastyApp, 3, (Roll(1, "4.2"), Poll())),
    (BackwardApp, 1, (Poll(), Partition((1,)), Tick(9), Poll(), Stop(2), Stop(3), Poll())),
    (ChattyApp, 4, (Poll(), Tick(1), Poll())),
    (DeafApp, 7, (Poll(),)),
    (RememberingApp, 6, (Poll(), Roll(1, "4.2"), Poll())),
    (RememberingApp, 1, (Poll(), Stop(1), Poll())),
    (MuteApp, 4, (Poll(),)),
    (ThreadedApp, 8, (Poll(),)),
    (OpenApp, 8, (Poll(),)),
    (BlindApp, 1, (Poll(),)),
    (PassingApp, 5, (Poll(),)),
    (ForgetsEarlyApp, 3, MIXED),
    (AgelessApp, 2, (*ROLLED, Poll(), Tick(50))),
    (HastyGateApp, 9, (*ROLLED, Poll(), Tick(50))),
    (AgelessLevelsApp, 1, LEFT_BEHIND),
]


def survived_by(app: type[App]) -> Callable[[Script], None]:
    """Return a check of the invariants with an app of this class."""

    def survives(script: Script) -> None:
        check_with(InvariantChecker(script.spec.app_requirements, app), script)

    return survives


@pytest.mark.parametrize(
    ("app", "number", "events"), BROKEN, ids=[f"{app.__name__}-{number}" for app, number, _ in BROKEN]
)
def test_the_checker_finds_each_broken_invariant(app: type[App], number: int, events: tuple) -> None:
    """The error has the number of the invariant that the app breaks."""

    with pytest.raises(InvariantBroken) as broken:
        survived_by(app)(Script(STARTS[0], events))
    if app is ThreadedApp:
        ThreadedApp.ended.set()
        ThreadedApp.thread.join(60)
    assert broken.value.number == number
    assert str(broken.value).startswith(f"invariant {number}: ")


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("app", "start", "seed"),
    [
        # About one script in a hundred finds such an app: these seeds begin with such a script.
        (ForgetsEarlyApp, STARTS[0], 14),
        (AgelessApp, STARTS[0], 129),
        (HastyGateApp, STARTS[0], 129),
        (AgelessLevelsApp, STARTS[1], 128),
    ],
)
def test_random_scripts_find_an_app_that_ignores_age(app: type[App], start: KRaft, seed: int) -> None:
    """The explorer finds apps that forget brokers too early or believe stale answers."""
    with pytest.raises(ScriptFailed):
        explore(start, seed=seed, scripts=1, length=40, check=survived_by(app))


def test_invariant_12_a_secret_that_is_shown_is_found() -> None:
    """The secret is the name of a feature, so that decisions show it."""
    with pytest.raises(InvariantBroken, match="invariant 12: a secret is shown"):
        check_invariants(Script(STARTS[0], (Poll(),)), requirements=AppRequirements("Fetch", 4, PASSWORD, 1))


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
    assert probe(KRaft("3.3").create(), 1).asked_version == 3
    assert probe(KRaft("4.2").create(), 1).asked_version == 4


def one_broker_is_rolled_twice(script: Script) -> None:
    """Fail for a script that rolls one broker twice."""
    rolled = [event.node_id for event in script.events if isinstance(event, Roll)]
    if len(rolled) != len(set(rolled)):
        raise ValueError("a broker was rolled twice")


def test_the_explorer_shrinks_a_failing_script() -> None:
    """The shrunk script fails, and passes without any one of its events."""
    events = (*UPGRADE, Tick(2), *UPGRADE, Stop(1))
    small = shrink(Script(STARTS[0], events), one_broker_is_rolled_twice)
    assert len(small.events) == 2
    with pytest.raises(ValueError, match="rolled twice"):
        one_broker_is_rolled_twice(small)


def test_a_script_that_cannot_happen_has_not_failed() -> None:
    """Without the join, later events name a broker that does not exist."""

    def survives(script: Script) -> None:
        if any(4 in step.cluster.nodes for step in run(script)):
            raise ValueError("four brokers")

    script = Script(STARTS[0], (Tick(1), simulator.Join(4, "3.9"), Tick(1), Stop(4)))
    assert shrink(script, survives).events == (simulator.Join(4, "3.9"),)


def test_the_explorer_prints_a_failing_script_as_code() -> None:
    """The error contains the seed and a program that fails with the same error."""
    with pytest.raises(ScriptFailed) as failed:
        explore(STARTS[0], seed=11, check=one_broker_is_rolled_twice)
    assert "found with seed 11" in str(failed.value)
    assert isinstance(failed.value.__cause__, ValueError)
    code = as_code(failed.value.script, one_broker_is_rolled_twice)
    assert code in str(failed.value)
    home = f"from {__name__} import one_broker_is_rolled_twice"
    assert home in code
    names: dict[str, object] = {"one_broker_is_rolled_twice": one_broker_is_rolled_twice}
    with pytest.raises(ValueError, match="rolled twice"):
        exec(code.replace(home, ""), names)


def test_the_printed_code_of_the_invariants_runs() -> None:
    """The program contains custom builds and all values that are not defaults."""
    own = Build(
        release="4.2",
        broker_apis={3: (0, 9), 18: (0, 4), 57: (0, 2)},
        controller_apis={57: (0, 2)},
        supported=release_build("4.2").supported,
    )
    start = KRaft("own", brokers=1, controllers=0, levels={"group.version": 0}, builds={"own": own})
    script = Script(
        start, (upgrade({"group.version": 1}, dry_run=True), TruncateAnswer(1, 3), downgrade({"kraft.version": 0}))
    )
    names: dict[str, object] = {}
    code = as_code(script)
    exec(code, names)
    assert names["script"] == script
    assert code.startswith("from featuregate.testing.simulator import Build, KRaft, Script, TruncateAnswer, ")


def test_truncating_an_answer_of_an_unknown_node_is_an_error() -> None:
    """A script with a misspelled node would test nothing."""
    with pytest.raises(ScriptError, match="there is no node 77"):
        check_invariants(Script(STARTS[0], (TruncateAnswer(77, 1),)))


def test_every_public_name_is_there() -> None:
    """Each name exists, and is listed once."""
    assert all(hasattr(simulator, name) for name in simulator.__all__)
    assert len(set(simulator.__all__)) == len(simulator.__all__)
