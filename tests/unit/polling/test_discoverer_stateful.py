"""Discoverer, store and gates against brokers that are stale, paused, rebuilt and wrong, in any order of events.

The model of the invariants is that of the app over fake clusters. It learns what a broker reported from the view, after
the test has checked that the broker could have reported it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from app_model.expectations import AppRequirements, BrokerReport, Expectations
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

TXN = 28
FEATURE = "group.version"
REQUIRED = AppRequirements("TxnOffsetCommit", 3, FEATURE, 2)
POLICIES = ("sticky", "live")
STALE_AFTER = 1234567.0
"""Seconds. The next poll must come before the view is stale, and no poll may come by itself."""
BROKER_TIMEOUT = 0.25
"""Seconds that the test waits for a paused broker. If another broker is that slow, the test polls again."""
BOUND = 60.0
"""Seconds until every running broker must have answered a poll, however busy the machine is."""
PAUSED_POLLS = 2
"""The number of polls for which a broker stays paused: each costs the timeout, and shows the same."""
NEVER = 1e7
"""The random number of the jitter. It delays the next poll by years, so that every poll is one of a rule."""


@dataclass
class ModelBroker:
    """The state of one broker."""

    reports: BrokerReport
    lagging: bool = False
    down: bool = False
    paused: bool = False
    paused_polls: int = 0
    once: list[BrokerReport | None] = field(default_factory=list)
    """Its next answers; None for an answer that cannot be read."""

    @property
    def answers(self) -> bool:
        return not self.down and not self.paused


def happens(**drawn: st.SearchStrategy[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a rule of an event of the cluster. After half of the events, the app polls at once."""

    def decorate(method: Callable[..., None]) -> Callable[..., None]:
        def happen(self: Discovery, *, polled: bool, **chosen: object) -> None:
            method(self, **chosen)
            if polled:
                self.poll()

        happen.__name__ = method.__name__
        return rule(polled=st.booleans(), **drawn)(happen)

    return decorate


class Discovery(RuleBasedStateMachine):
    """All events of a cluster, and the invariants between them."""

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
        self.expected = Expectations(REQUIRED, STALE_AFTER)
        self.start_features()

    def new_broker(self) -> ModelBroker:
        return ModelBroker(BrokerReport(self.epoch, self.level, version=2))

    def start_features(self) -> None:
        self.bootstrap = self.cluster.bootstrap.split(",")
        config = {"bootstrap.servers": self.cluster.bootstrap, "socket.timeout.ms": int(BROKER_TIMEOUT * 1000)}
        # The model polls when it says so; connections that end would poll as well.
        source = fg.BrokerSource(config, keep_connections=False)
        self.features = fg.Discoverer(
            source=source,
            interval=1000,
            stale_after=STALE_AFTER,
            forget_after=float("inf"),
            latch_store=self.folder,
            start_from="latch",
            chance=lambda: NEVER,
            clock=lambda: self.now,
        )
        self.gates = {
            policy: {
                requirement: self.features.gate(f"{requirement} ({policy})", requirement, policy=policy)
                for requirement in REQUIRED.requirements
            }
            for policy in POLICIES
        }
        self.view: fg.View | None = None
        self.known: set[int] = set()
        self.expected.restart(self.cluster.bootstrap)
        with suppress(DiscoveryError):
            self.features.refresh()  # the worker polls once by itself, and this may be that poll
        self.changes: list[fg.View] = []
        self.features.on_change(lambda change: self.changes.append(change.after))
        self.poll()

    def teardown(self) -> None:
        """Leave nothing behind, however the example ended."""
        if self.features is not None:
            self.features.close()
        if self.cluster is not None:
            self.cluster.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------ events of brokers

    def pick(self, chosen: int) -> int:
        return sorted(self.model)[chosen % len(self.model)]

    @happens(chosen=st.integers(0, 9), txn=st.integers(0, 5))
    def broker_rolls(self, chosen: int, txn: int) -> None:
        """One broker runs a newer or an older release."""
        self.rolls(self.pick(chosen), txn)

    @happens(txn=st.integers(3, 5))
    def every_broker_rolls(self, txn: int) -> None:
        """The roll ends, so that gates for APIs can open."""
        for node in self.model:
            self.rolls(node, txn)

    @precondition(lambda self: len(self.model) > 1)
    @happens(chosen=st.integers(0, 9), txn=st.integers(3, 5))
    def every_broker_rolls_but_one_that_is_away(self, chosen: int, txn: int) -> None:
        """The roll seems to have ended, but one broker is down and will come back with the old release."""
        away = self.pick(chosen)
        self.rolls(away, REQUIRED.version - 1)
        if not self.model[away].down:
            self.broker_stops_or_starts(away)
        for node in set(self.model) - {away}:
            self.rolls(node, txn)

    def rolls(self, node: int, txn: int) -> None:
        self.cluster.broker(node).set(api_ranges={**self.ranges, TXN: (0, txn)})
        self.model[node].reports = self.model[node].reports._replace(version=txn)

    @happens(chosen=st.integers(0, 9), epoch=st.integers(-1, 300), level=st.integers(1, 3))
    def broker_lies(self, chosen: int, epoch: int, level: int) -> None:
        """One broker reports wrong levels at a wrong epoch, until the cluster changes."""
        node = self.pick(chosen)
        self.cluster.broker(node).set(epoch=epoch, finalized={FEATURE: level})
        self.model[node].reports = self.model[node].reports._replace(epoch=epoch, level=level)

    @happens(chosen=st.integers(0, 9))
    def broker_lags(self, chosen: int) -> None:
        """One broker begins or ceases to lag."""
        node = self.pick(chosen)
        model = self.model[node]
        model.lagging = not model.lagging
        if model.lagging:
            self.cluster.broker(node).lag()
        else:
            self.cluster.broker(node).catch_up()
            self.update(model)

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
    def broker_pauses_or_resumes(self, chosen: int) -> None:
        """One broker is paused, or resumed."""
        node = self.pick(chosen)
        if self.model[node].paused:
            self.broker_resumes(node)
        else:
            self.cluster.broker(node).pause()
            self.model[node].paused = True

    def broker_resumes(self, node: int) -> None:
        self.cluster.broker(node).resume()
        self.model[node].paused, self.model[node].paused_polls = False, 0

    @happens(chosen=st.integers(0, 9), epoch=st.integers(-1, 150), level=st.integers(1, 3))
    def broker_is_stale_once(self, chosen: int, epoch: int, level: int) -> None:
        """One answer of one broker is stale."""
        node = self.pick(chosen)
        model = self.model[node]
        self.cluster.broker(node).answers_once(epoch=epoch, finalized={FEATURE: level})
        model.once.append(BrokerReport(epoch, level, version=-1))

    @happens(chosen=st.integers(0, 9), how=st.sampled_from(["cut", "garbage", "error"]))
    def broker_answers_garbage_once(self, chosen: int, how: str) -> None:
        """One answer of one broker cannot be read."""
        node = self.pick(chosen)
        broker = self.cluster.broker(node)
        if how == "cut":
            broker.cut_once(after_bytes=7)
        elif how == "garbage":
            broker.garbage_once(b"\x00\x00\x00\x04ouch")
        else:
            broker.error_once(7)
        self.model[node].once.append(None)

    # ------------------------------------------------------------------ events of the cluster

    def update(self, model: ModelBroker) -> None:
        if not model.lagging:
            model.reports = model.reports._replace(epoch=self.epoch, level=self.level)

    @happens(level=st.integers(0, 3))
    def operator_finalizes(self, level: int) -> None:
        """A level rises or falls, at a higher epoch."""
        self.cluster.finalize({FEATURE: level})
        self.level, self.epoch = level, self.epoch + 1
        for model in self.model.values():
            self.update(model)

    @happens(by=st.integers(1, 500))
    def epoch_advances(self, by: int) -> None:
        """Time passes, and nothing else happens."""
        self.advance(by)

    def advance(self, by: int) -> None:
        self.cluster.advance_epoch(by)
        self.epoch += by
        for model in self.model.values():
            self.update(model)

    @precondition(lambda self: len(self.model) < 5)
    @happens()
    def broker_joins(self) -> None:
        """A new broker is registered. It may have the id of a removed one."""
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
            self.update(model)

    # ------------------------------------------------------------------ events of the app

    @rule(seconds=st.floats(-1e10, 1e10))
    def clock_jumps(self, seconds: float) -> None:
        """A laptop sleeps, a virtual machine moves."""
        self.now += seconds

    @rule(seconds=st.floats(0, 1e7))
    def no_broker_answers_for_a_while(self, seconds: float) -> None:
        """All brokers are down at once, and polls fail."""
        up = [node for node, model in self.model.items() if not model.down]
        for node in up:
            self.broker_stops_or_starts(node)
        self.poll()
        self.now += seconds
        self.poll()
        for node in up:
            self.broker_stops_or_starts(node)

    @rule()
    def process_restarts(self) -> None:
        """The process restarts, with the same folder of latches."""
        if any(model.once for model in self.model.values()):
            return  # no precondition: a busy machine polls more often, and a rule would be there in one run alone
        self.features.close()
        self.start_features()

    @rule()
    def app_polls(self) -> None:
        """The app polls, and nothing else happens."""
        self.poll()

    @rule(requirement=st.sampled_from(REQUIRED.requirements), policy=st.sampled_from(POLICIES))
    def gate_is_created_late(self, requirement: str, policy: fg.Policy) -> None:
        """A new gate opens only by a view that is not stale (invariant 9)."""
        self.late += 1
        gate = self.features.gate(f"late {self.late}", requirement, policy=policy)
        assert gate.open is (requirement in self.expected.provable(self.now)), gate.decision

    def poll(self) -> bool:
        """Poll, and again if a broker was too slow by chance. Return whether one poll was enough."""
        polls, deadline = 1, time.monotonic() + BOUND
        while not self.poll_once():
            polls += 1
            assert time.monotonic() < deadline, f"a running broker answered none of {polls} polls: {self.view}"
        for node, model in self.model.items():
            model.paused_polls += model.paused
            if model.paused_polls >= PAUSED_POLLS:
                self.broker_resumes(node)
        return polls == 1

    @rule(by=st.integers(1, 500))
    def only_the_epoch_moves(self, by: int) -> None:
        """Invariant 4: a change of the epoch alone is no change.

        A paused broker is resumed between the polls, and tells then what it would have told before.
        """
        if any(model.once or model.paused for model in self.model.values()):
            return  # likewise
        self.poll()
        wrong = 0 if self.features.view is None else self.features.view.epoch
        # Past the epoch of a wrong broker: its levels count until then, and the next ones are a change of content.
        self.advance(by + max(0, wrong - self.epoch))
        self.poll()
        before = self.features.view
        self.advance(by)
        once = self.poll()
        after = self.features.view
        if once and before is not None and [b.answered for b in before.brokers] == [b.answered for b in after.brokers]:
            assert self.changes == []

    # ------------------------------------------------------------------ the model

    def poll_once(self) -> bool:
        """Poll once and check the view. Return whether each broker that runs was heard."""
        requests, before = len(self.cluster.requests), self.features.view
        self.changes.clear()
        try:
            view = self.features.refresh(timeout=60)
        except DiscoveryError:
            assert self.features.view is before
            assert self.changes == []
            self.expected.expire(self.now)
            complete = not any(self.must_be_found(node) for node in self.model)
        else:
            complete = self.check_view(before, view)
        # A request of a client that has given up may come late. It is one of this poll, and none of a check.
        self.cluster.loop.run_all(broker.listener.wait_until_clients_close() for broker in self.cluster.brokers)
        for request in self.cluster.requests[requests:]:
            model = self.model[request.broker]
            if request.api == "ApiVersions" and model.once and not model.paused:
                del model.once[0]
        return complete

    def must_be_found(self, node: int) -> bool:
        """Return whether this broker alone is enough for a poll to succeed."""
        model = self.model[node]
        return model.answers and not model.once and self.cluster.broker(node).address in self.bootstrap

    def check_view(self, before: fg.View | None, view: fg.View) -> bool:
        """Check a view against what brokers could have reported, and against the rules of merging."""
        assert view.cluster_id == self.cluster.cluster_id
        same = self.view is not None and self.view.cluster_id == view.cluster_id
        listed = {node for node, model in self.model.items() if self.lists_fenced or not model.down}
        self.known = listed if self.lists_fenced or not same else listed | self.known
        reports, complete = {}, True
        for broker in view.brokers:
            model = self.model.get(broker.node_id)
            if model is None or not model.answers:
                assert not broker.answered
            elif broker.answered:
                reports[broker.node_id] = self.report_of(model, broker)
            else:
                complete = complete and None in model.once
        self.expected.accept(view, reports, self.known, self.now)
        self.check_ranges(view, reports)
        assert len(self.changes) == int(before is None or not before.same_content(view))
        self.view = view
        return complete

    def report_of(self, model: ModelBroker, broker) -> BrokerReport:
        report = BrokerReport(broker.epoch, broker.finalized.get(FEATURE, 0), broker.api_ranges[TXN].max)
        possible = {model.reports} | {once._replace(version=model.reports.version) for once in model.once if once}
        assert report in possible
        return report

    def check_ranges(self, view: fg.View, reports: dict[int, BrokerReport]) -> None:
        """The API range of the cluster is the intersection over all answers, and incomplete if one is missing."""
        common = view.api(TXN)
        assert common.max == min(report.version for report in reports.values())
        assert common.incomplete == (set(reports) != self.known)

    # ------------------------------------------------------------------ the invariants between events

    @invariant()
    def invariant_1_the_view_never_goes_back(self) -> None:
        """The view is that of the last poll."""
        assert self.features.view is self.view

    @invariant()
    def invariant_2_a_latch_never_closes(self) -> None:
        """Latched gates and levels stay, and say why."""
        self.expected.check_latches(self.gates["sticky"], self.features.latched)
        held = self.gates["sticky"][REQUIRED.requirements[1]].decision.held
        if held is not None and self.view is not None and self.view.level(FEATURE) < self.features.latched[FEATURE]:
            assert f"fell to {self.view.level(FEATURE)}" in held

    @invariant()
    def invariant_3_only_proof_opens(self) -> None:
        """A live gate is open exactly while every known broker proves it."""
        self.expected.check_live(self.gates["live"])

    @invariant()
    def invariant_4_each_change_has_its_poll(self) -> None:
        """Every change leads to the view of a poll."""
        assert all(after is self.view for after in self.changes)

    @invariant()
    def invariant_5_checks_send_nothing(self) -> None:
        """A check of a gate sends no request and raises no error, whatever brokers do."""
        requests = len(self.cluster.requests)
        for gate in (*self.gates["sticky"].values(), *self.gates["live"].values()):
            assert bool(gate) is gate.open is gate.pin().open is gate.decision.open
            assert str(gate.decision)
        assert json.dumps(self.features.health())
        assert len(self.cluster.requests) == requests


@pytest.mark.no_cover
def test_invariants_1_to_5_hold_whatever_brokers_do() -> None:
    """Stale, paused, rebuilt and wrong brokers, in any order, with restarts and clock jumps between."""
    run_state_machine_as_test(
        Discovery,
        settings=settings(
            max_examples=settings.default.max_examples // 3,
            stateful_step_count=25,
            phases=set(Phase) - {Phase.shrink, Phase.explain},  # a paused broker costs its timeout in each repetition
            suppress_health_check=list(HealthCheck),
        ),
    )
