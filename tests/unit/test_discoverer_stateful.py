"""Discoverer, store and gates against brokers that are stale, silent, rebuilt and lying, in any order of events.

A model that is simple enough to be believed says what must come of each look at the cluster. What a broker said is
taken from the view, after it has been checked that the broker could have said it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import featuregate as fg
from featuregate.errors import DiscoveryError
from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable

TXN = 28
FEATURE = "group.version"
WANTED_TXN, WANTED_LEVEL = 3, 2
API, LEVEL = fg.Api("TxnOffsetCommit") >= WANTED_TXN, fg.Feature(FEATURE) >= WANTED_LEVEL
REQUIREMENTS = {"api": API, "level": LEVEL, "both": API & LEVEL, "either": API | LEVEL}
STALE_AFTER = 1234567.0
"""Real seconds matter here too: the next poll comes before the view is stale, and none may come by itself."""
SECONDS_FOR_A_BROKER = 0.25
"""Only those that are silent on purpose sit it out. Should another be that slow, the look is repeated."""
LOOKS = 5
PATIENCE = 2
"""So many looks a broker stays silent for: each costs the seconds above, and shows the same."""
NEVER = 1e7
"""As the random number of the jitter it puts the next poll off for years: every look is one that a rule asks for."""


class Said(NamedTuple):
    """What one broker tells of what matters here."""

    txn: int
    epoch: int
    level: int


@dataclass
class ModelBroker:
    """What we did to one broker."""

    says: Said
    lagging: bool = False
    down: bool = False
    silent: bool = False
    times_unheard: int = 0
    once: list[Said | None] = field(default_factory=list)
    """What spoils its next answers; None for one that cannot be read."""

    @property
    def speaks(self) -> bool:
        return not self.down and not self.silent


def happens(**drawn: st.SearchStrategy[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a rule of something that happens to the cluster, which is seen at once half the time."""

    def decorate(method: Callable[..., None]) -> Callable[..., None]:
        def happen(self: Discovery, *, seen: bool, **chosen: object) -> None:
            method(self, **chosen)
            if seen:
                self.ask_everybody()

        happen.__name__ = method.__name__
        return rule(seen=st.booleans(), **drawn)(happen)

    return decorate


class Discovery(RuleBasedStateMachine):
    """Everything that may happen to a cluster, and what must be true whenever nothing happens."""

    cluster: FakeCluster | None = None
    features: fg.Discoverer | None = None

    # ------------------------------------------------------------------ life

    @initialize(brokers=st.integers(1, 3), identity=st.booleans(), lists_fenced=st.booleans())
    def begin(self, *, brokers: int, identity: bool, lists_fenced: bool) -> None:
        """Start brokers that check identities or do not, and that list fenced brokers or do not."""
        ranges = {3: (0, 12), 18: (0, 5 if identity else 4), TXN: (0, 2), 60: (0, 2 if lists_fenced else 1)}
        supported = {FEATURE: (0, 9)}
        self.cluster = FakeCluster(brokers, api_ranges=ranges, supported=supported, finalized={FEATURE: 1}).start()
        self.folder = Path(tempfile.mkdtemp(prefix="featuregate-stateful-"))
        self.now = 0.0
        self.late = 0
        self.ranges, self.lists_fenced = ranges, lists_fenced
        self.level, self.epoch = 1, self.cluster.epoch
        self.first = self.level, self.epoch
        self.model = {broker.node_id: self.new_broker() for broker in self.cluster.brokers}
        self.opened: dict[str, set[str]] = {}
        self.highest: dict[str, int] = {}
        self.start_features()

    def new_broker(self) -> ModelBroker:
        return ModelBroker(Said(2, self.epoch, self.level))

    def start_features(self) -> None:
        self.bootstrap = self.cluster.bootstrap.split(",")
        config = {"bootstrap.servers": self.cluster.bootstrap, "socket.timeout.ms": int(SECONDS_FOR_A_BROKER * 1000)}
        self.features = fg.Discoverer(
            config,
            interval=1000,
            stale_after=STALE_AFTER,
            forget_after=float("inf"),
            latch_store=self.folder,
            chance=lambda: NEVER,
            clock=lambda: self.now,
        )
        self.gates = {
            (name, policy): self.features.gate(f"{name}-{policy}", requirement, policy=policy)
            for name, requirement in REQUIREMENTS.items()
            for policy in ("sticky", "live")
        }
        self.view: fg.View | None = None
        self.known: set[int] = set()
        self.proved: set[str] = set()
        self.levels_at = 0.0
        self.answered_at: float | None = None
        for _ in range(2):  # the first look is the poller's own, and one more may be under way
            with suppress(DiscoveryError):
                self.features.refresh()
        self.changes: list[fg.View] = []
        self.features.on_change(lambda change: self.changes.append(change.after))
        self.ask_everybody()

    def teardown(self) -> None:
        """Leave nothing behind, however the example ended."""
        if self.features is not None:
            self.features.close()
        if self.cluster is not None:
            self.cluster.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------ what happens to brokers

    def pick(self, chosen: int) -> int:
        return sorted(self.model)[chosen % len(self.model)]

    @happens(chosen=st.integers(0, 9), txn=st.integers(0, 5))
    def broker_rolls(self, chosen: int, txn: int) -> None:
        """One broker gets newer or older software."""
        self.rolls(self.pick(chosen), txn)

    @happens(txn=st.integers(3, 5))
    def every_broker_rolls(self, txn: int) -> None:
        """The roll ends, so that gates over APIs open now and then."""
        for node in self.model:
            self.rolls(node, txn)

    @precondition(lambda self: len(self.model) > 1)
    @happens(chosen=st.integers(0, 9), txn=st.integers(3, 5))
    def every_broker_rolls_but_one_that_is_away(self, chosen: int, txn: int) -> None:
        """The roll seems to have ended, and one broker will come back as it was."""
        away = self.pick(chosen)
        self.rolls(away, WANTED_TXN - 1)
        if not self.model[away].down:
            self.broker_stops_or_starts(away)
        for node in set(self.model) - {away}:
            self.rolls(node, txn)

    def rolls(self, node: int, txn: int) -> None:
        self.cluster.broker(node).set(api_ranges={**self.ranges, TXN: (0, txn)})
        self.model[node].says = self.model[node].says._replace(txn=txn)

    @happens(chosen=st.integers(0, 9), epoch=st.integers(-1, 300), level=st.integers(1, 3))
    def broker_lies(self, chosen: int, epoch: int, level: int) -> None:
        """One broker tells levels and an epoch of its own, until the cluster moves on."""
        node = self.pick(chosen)
        self.cluster.broker(node).set(epoch=epoch, finalized={FEATURE: level})
        self.model[node].says = self.model[node].says._replace(epoch=epoch, level=level)

    @happens(chosen=st.integers(0, 9))
    def broker_lags(self, chosen: int) -> None:
        """One broker hears nothing new any more, or hears it all again."""
        node = self.pick(chosen)
        model = self.model[node]
        model.lagging = not model.lagging
        if model.lagging:
            self.cluster.broker(node).lag()
        else:
            self.cluster.broker(node).catch_up()
            self.hears(model)

    @happens(chosen=st.integers(0, 9))
    def broker_goes_down_or_up(self, chosen: int) -> None:
        """One broker stops, or starts again where it was."""
        self.broker_stops_or_starts(self.pick(chosen))

    def broker_stops_or_starts(self, node: int) -> None:
        model, broker = self.model[node], self.cluster.broker(node)
        model.down = not model.down
        if model.down:
            broker.stop()
        else:
            broker.start()

    @happens(chosen=st.integers(0, 9))
    def broker_falls_silent_or_speaks(self, chosen: int) -> None:
        """One broker hangs, or recovers."""
        node = self.pick(chosen)
        if self.model[node].silent:
            self.broker_speaks(node)
        else:
            self.cluster.broker(node).pause()
            self.model[node].silent = True

    def broker_speaks(self, node: int) -> None:
        self.cluster.broker(node).resume()
        self.model[node].silent, self.model[node].times_unheard = False, 0

    @happens(chosen=st.integers(0, 9), epoch=st.integers(-1, 150), level=st.integers(1, 3))
    def broker_is_stale_once(self, chosen: int, epoch: int, level: int) -> None:
        """One answer of one broker is an old one."""
        node = self.pick(chosen)
        model = self.model[node]
        self.cluster.broker(node).answers_once(epoch=epoch, finalized={FEATURE: level})
        model.once.append(Said(-1, epoch, level))

    @happens(chosen=st.integers(0, 9), how=st.sampled_from(["cut", "garbage", "error"]))
    def broker_answers_nonsense_once(self, chosen: int, how: str) -> None:
        """One answer of one broker cannot be used."""
        node = self.pick(chosen)
        broker = self.cluster.broker(node)
        if how == "cut":
            broker.cut_once(after_bytes=7)
        elif how == "garbage":
            broker.garbage_once(b"\x00\x00\x00\x04ouch")
        else:
            broker.error_once(7)
        self.model[node].once.append(None)

    # ------------------------------------------------------------------ what happens to the cluster

    def hears(self, model: ModelBroker) -> None:
        if not model.lagging:
            model.says = model.says._replace(epoch=self.epoch, level=self.level)

    @happens(level=st.integers(0, 3))
    def operator_finalizes(self, level: int) -> None:
        """A level rises or falls, at a higher epoch."""
        self.cluster.finalize({FEATURE: level})
        self.level, self.epoch = level, self.epoch + 1
        for model in self.model.values():
            self.hears(model)

    @happens(by=st.integers(1, 500))
    def epoch_advances(self, by: int) -> None:
        """Time goes by, and that is all."""
        self.advance(by)

    def advance(self, by: int) -> None:
        self.cluster.advance_epoch(by)
        self.epoch += by
        for model in self.model.values():
            self.hears(model)

    @precondition(lambda self: len(self.model) < 5)
    @happens()
    def broker_joins(self) -> None:
        """A new broker is registered; ids of removed ones are given again."""
        node = min(set(range(1, 6)) - set(self.model))
        self.cluster.add_broker(node)
        self.model[node] = self.new_broker()

    @precondition(lambda self: len(self.model) > 1)
    @happens(chosen=st.integers(0, 9))
    def broker_leaves(self, chosen: int) -> None:
        """A broker is unregistered for good."""
        node = self.pick(chosen)
        self.cluster.remove_broker(node)
        del self.model[node]

    @happens()
    def cluster_is_rebuilt(self) -> None:
        """Another cluster takes over the addresses, and its epochs start low."""
        self.cluster.rebuild()
        self.level, self.epoch = self.first
        for model in self.model.values():
            model.lagging = False
            self.hears(model)

    # ------------------------------------------------------------------ what happens to us

    @rule(seconds=st.floats(-1e10, 1e10))
    def clock_jumps(self, seconds: float) -> None:
        """A laptop sleeps, a virtual machine moves."""
        self.now += seconds

    @rule(seconds=st.floats(0, 1e7))
    def nobody_answers_for_a_while(self, seconds: float) -> None:
        """Every broker is down at once, and we ask in vain."""
        up = [node for node, model in self.model.items() if not model.down]
        for node in up:
            self.broker_stops_or_starts(node)
        self.ask_everybody()
        self.now += seconds
        self.ask_everybody()
        for node in up:
            self.broker_stops_or_starts(node)

    @precondition(lambda self: not any(model.once for model in self.model.values()))
    @rule()
    def process_restarts(self) -> None:
        """Another process begins, with the same folder for latches."""
        self.features.close()
        self.start_features()

    @rule()
    def look(self) -> None:
        """Nothing happens, and we ask every broker."""
        self.ask_everybody()

    @rule(requirement=st.sampled_from(sorted(REQUIREMENTS)), policy=st.sampled_from(["sticky", "live"]))
    def gate_is_made_late(self, requirement: str, policy: fg.Policy) -> None:
        """It opens by a view that still proves it, and by no other (invariant 10)."""
        self.late += 1
        gate = self.features.gate(f"late {self.late}", REQUIREMENTS[requirement], policy=policy)
        stale = self.answered_at is None or self.now - self.answered_at > STALE_AFTER
        assert gate.open is (requirement in self.proved and not stale), gate.decision

    def ask_everybody(self) -> None:
        """Look, and look again if somebody was too slow by chance."""
        for _ in range(LOOKS):
            if self.looked():
                break
        else:
            raise AssertionError(f"who speaks was not heard in {LOOKS} looks: {self.features.health()}")
        for node, model in self.model.items():
            model.times_unheard += model.silent
            if model.times_unheard >= PATIENCE:
                self.broker_speaks(node)

    @precondition(lambda self: not any(model.once for model in self.model.values()))
    @rule(by=st.integers(1, 500))
    def only_the_epoch_moves(self, by: int) -> None:
        """Invariant 4: nobody is told of an epoch that merely moved."""
        self.ask_everybody()
        lie = 0 if self.features.view is None else self.features.view.epoch
        # Past what a liar said: its levels count until then, and the cluster's own after it are a change of content.
        self.advance(by + max(0, lie - self.epoch))
        self.ask_everybody()
        before = self.features.view
        self.changes.clear()
        self.advance(by)
        self.ask_everybody()
        after = self.features.view
        if before is not None and [b.answered for b in before.brokers] == [b.answered for b in after.brokers]:
            assert self.changes == []

    # ------------------------------------------------------------------ the model

    def looked(self) -> bool:
        """Look once, compare, and say whether all who speak were heard."""
        heard_so_far, before = len(self.cluster.requests), self.features.view
        self.changes.clear()
        try:
            view = self.features.refresh(timeout=60)
        except DiscoveryError:
            assert self.features.view is before
            assert self.changes == []
            self.forget_what_is_stale()
            complete = not any(self.must_be_found(node) for node in self.model)
        else:
            complete = self.compare(before, view)
        for asked in self.cluster.requests[heard_so_far:]:
            model = self.model[asked.broker]
            if asked.api == "ApiVersions" and model.once and not model.silent:
                del model.once[0]
        return complete

    def must_be_found(self, node: int) -> bool:
        """Say whether this broker alone is enough for a look to succeed."""
        model = self.model[node]
        return model.speaks and not model.once and self.cluster.broker(node).address in self.bootstrap

    def forget_what_is_stale(self) -> None:
        """A look that failed leaves gates as they were, unless the view has become too old to prove anything."""
        if self.answered_at is not None and self.now - self.answered_at > STALE_AFTER:
            self.proved = set()

    def compare(self, before: fg.View | None, view: fg.View) -> bool:
        """Hold a view to what brokers could have said, and to the rules of merging."""
        assert view.cluster_id == self.cluster.cluster_id
        same = self.view is not None and self.view.cluster_id == view.cluster_id
        listed = {node for node, model in self.model.items() if self.lists_fenced or not model.down}
        self.known = listed if self.lists_fenced or not same else listed | self.known
        assert {broker.node_id for broker in view.brokers} == self.known
        said, complete = {}, True
        for broker in view.brokers:
            model = self.model.get(broker.node_id)
            if model is None or not model.speaks:
                assert not broker.answered
            elif broker.answered:
                said[broker.node_id] = self.believe(model, broker)
            else:
                complete = complete and None in model.once
        self.check_levels(view, said, self.view if same else None)
        self.check_ranges(view, said)
        self.move_gates(view, said)
        assert len(self.changes) == int(before is None or not before.same_content(view))
        self.view, self.answered_at = view, self.now
        return complete

    def believe(self, model: ModelBroker, broker) -> Said:
        said = Said(broker.api_ranges[TXN].max, broker.epoch, broker.finalized.get(FEATURE, 0))
        could = {model.says} | {once._replace(txn=model.says.txn) for once in model.once if once is not None}
        assert said in could
        return said

    def check_levels(self, view: fg.View, said: dict[int, Said], before: fg.View | None) -> None:
        """Invariant 1: the highest epoch wins, per cluster id."""
        newest = max((each.epoch for each in said.values()), default=-1)
        kept = before.epoch if before is not None else -1
        assert view.epoch == max(newest, kept)
        if view.epoch < 0:
            assert view.level(FEATURE) is None
        elif newest < kept:
            assert view.level(FEATURE) == before.level(FEATURE)
        else:
            assert view.level(FEATURE) in {each.level for each in said.values() if each.epoch == newest}

    def check_ranges(self, view: fg.View, said: dict[int, Said]) -> None:
        """Cluster API ranges are intersections over who answered, and incomplete where somebody did not."""
        common = view.api(TXN)
        assert common.max == min(each.txn for each in said.values())
        assert common.incomplete == (set(said) != self.known)

    def move_gates(self, view: fg.View, said: dict[int, Said]) -> None:
        """Work out which requirements are proved, and latch them."""
        api = set(said) == self.known and all(each.txn >= WANTED_TXN for each in said.values())
        same = self.view is not None and self.view.cluster_id == view.cluster_id
        if not same or max((each.epoch for each in said.values()), default=-1) >= view.epoch:
            self.levels_at = self.now
        level = (view.level(FEATURE) or 0) >= WANTED_LEVEL and self.now - self.levels_at <= STALE_AFTER
        proofs = {"api": api, "level": level, "both": api and level, "either": api or level}
        self.proved = {name for name, proof in proofs.items() if proof}
        self.opened.setdefault(view.cluster_id, set()).update(self.proved)
        self.highest[view.cluster_id] = max(self.highest.get(view.cluster_id, 0), view.level(FEATURE) or 0)

    # ------------------------------------------------------------------ what is true whenever nothing happens

    @invariant()
    def invariant_1_the_view_never_goes_back(self) -> None:
        """The view is the one of the last look; what was latched is the highest level of this cluster."""
        assert self.features.view is self.view
        highest = self.highest.get(self.view.cluster_id, 0) if self.view else 0
        assert self.features.latched.get(FEATURE, 0) == highest

    @invariant()
    def invariant_2_a_latch_never_closes(self) -> None:
        """What was once open for this cluster id is open, and says so where nothing proves it now."""
        opened = self.opened.get(self.view.cluster_id, set()) if self.view else set()
        for name in REQUIREMENTS:
            gate = self.gates[name, "sticky"]
            assert gate.open is (name in opened)
            assert (gate.decision.held is not None) is (name in opened - self.proved)
        held = self.gates["level", "sticky"].decision.held
        if held is not None and self.view.level(FEATURE) < self.highest[self.view.cluster_id]:
            assert f"fell to {self.view.level(FEATURE)}" in held

    @invariant()
    def invariant_3_only_proof_opens(self) -> None:
        """A live gate is open exactly while every known broker proves it."""
        assert {name for name in REQUIREMENTS if self.gates[name, "live"].open} == self.proved

    @invariant()
    def invariant_4_nothing_changes_unasked(self) -> None:
        """Every change that was told came with another content."""
        assert all(after is self.view for after in self.changes)

    @invariant()
    def invariant_5_checks_ask_nobody(self) -> None:
        """Looking at gates sends nothing and raises nothing, whatever brokers do."""
        asked = len(self.cluster.requests)
        for gate in self.gates.values():
            assert bool(gate) is gate.open is gate.pin().open is gate.decision.open
            assert str(gate.decision)
        assert json.dumps(self.features.health())
        assert len(self.cluster.requests) == asked


def test_invariants_1_to_5_hold_whatever_brokers_do() -> None:
    """Stale, silent, rebuilt and lying brokers, in any order, with restarts and clock jumps between."""
    run_state_machine_as_test(
        Discovery,
        settings=settings(
            max_examples=settings.default.max_examples // 3,
            stateful_step_count=25,
            phases=set(Phase) - {Phase.shrink, Phase.explain},  # silent brokers cost time, thousands of times over
            suppress_health_check=list(HealthCheck),
        ),
    )
