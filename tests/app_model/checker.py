"""The invariants, checked while an app polls a fake cluster.

The checker compares the app with what the cluster is, not with what the app has made of the brokers' answers.
"""

import pickle
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from app_model.app import FORGET_AFTER, STALE_AFTER, App, Lie, PassTime, Poll, RestartApp, TruncateAnswer
from app_model.brokers import PASSWORD, PASSWORDS, fetch_broker_list
from app_model.expectations import AppRequirements, BrokerReport, Expectations, InvariantBroken
from featuregate.catalog import api_key
from featuregate.errors import GateClosed, NotPicklable
from featuregate.gating.events import Changed
from featuregate.gating.gates import Gate
from featuregate.gating.latches import Policy
from featuregate.testing import FakeCluster, UpgradeStep
from featuregate.testing.fakes.answers import NodeState
from featuregate.testing.random_upgrades import happened
from featuregate.view.answers import BrokerAnswer
from featuregate.view.cluster_view import View
from featuregate.wire.api_versions import ApiVersionsRequest

_POLICIES: Final[tuple[Policy, ...]] = ("sticky", "live")


AppEvent = Poll | TruncateAnswer | Lie | PassTime | RestartApp


APP_REQUIREMENTS: Final = AppRequirements("TxnOffsetCommit", 5, "group.version", 1)
"""What the gates of an app require: what came with 4.0."""
IDLE_SECONDS: Final = 0.5
"""``metadata.max.idle.interval.ms``, after which an idle cluster raises its epoch by one."""


def seconds_of(step: UpgradeStep) -> float:
    """Return the time that a step takes: an epoch that rises alone is time that passes."""
    return step.arguments[0] * IDLE_SECONDS if step.method == "advance_epoch" else 0.0


def check_invariants(
    start: Mapping[str, Any],
    events: Iterable[UpgradeStep | AppEvent],
    *,
    app: type[App] = App,
    requirements: AppRequirements = APP_REQUIREMENTS,
) -> None:
    """Apply events to a cluster and an app, which polls where they say so and at the end; raises InvariantBroken.

    Events that cannot happen to the cluster are left out.
    """
    checker = InvariantChecker(requirements, app)
    cut: dict[int, int] = {}
    cluster = FakeCluster(**start, passwords=PASSWORDS)
    for event in events:
        match event:
            case Poll():
                checker.poll(cluster, cut)
                cut = {}
            case TruncateAnswer(node_id, after_bytes):
                cut[node_id] = after_bytes
            case Lie(node_id, epoch, level) if node_id in {broker.node_id for broker in cluster.brokers}:
                levels = {requirements.feature: level} if level else {}
                cluster.broker(node_id).set(epoch=epoch, finalized=levels)
            case PassTime(seconds):
                checker.pass_time(seconds)
            case RestartApp():
                checker.restart()
            case Lie():
                continue
            case _:
                happened(cluster, event)
                checker.pass_time(seconds_of(event))
    checker.poll(cluster, cut)


class InvariantChecker:
    """Polls a fake cluster with an app, and checks the app against the cluster."""

    def __init__(self, requirements: AppRequirements, app: type[App]) -> None:
        self.app = app(requirements.requirements)
        self._required = requirements
        self._expected = Expectations(requirements, STALE_AFTER)
        self._absent: dict[str, dict[int, float]] = {}
        self._late_gates = 0

    def restart(self) -> None:
        self.app.restart()
        self._expected.restart()
        self._absent = {}
        self.check_gates()

    def pass_time(self, seconds: float) -> None:
        self.app.pass_time(seconds)
        self._expected.expire(self.app.elapsed)
        self.check_gates()

    def poll(self, cluster: FakeCluster, cut: dict[int, int]) -> None:
        """Let the app poll the cluster, and compare its view with the cluster."""
        before, events, threads = self.app.view, len(self.app.events), set(threading.enumerate())
        view = self.app.poll(cluster, cut=cut)
        if set(threading.enumerate()) - threads:
            raise InvariantBroken(8, "the poll has left a thread behind")
        changes = [event for event in self.app.events[events:] if isinstance(event, Changed)]
        if view is None:
            if self.app.view is not before or changes:
                raise InvariantBroken(1, "no broker answered, and yet the view changed")
        else:
            self._check_view(cluster, view, cut)
            _check_changes(before, view, changes)
        self.check_gates()
        self._check_pickling()
        self._check_secrets()

    # ------------------------------------------------------------------ after a poll

    def _check_view(self, cluster: FakeCluster, view: View, cut: dict[int, int]) -> None:
        if view.cluster_id != cluster.cluster_id:
            raise InvariantBroken(1, f"the view is of {view.cluster_id}, and the cluster is {cluster.cluster_id}")
        reports = self._reports(cluster, view, cut)
        self._expected.accept(view, reports, self._known_brokers(cluster), self.app.elapsed)
        self._expected.check_live(self.app.live)

    def _reports(self, cluster: FakeCluster, view: View, cut: dict[int, int]) -> dict[int, BrokerReport]:
        """Return what the brokers that answered report, from the cluster and not from their answers."""
        reports: dict[int, BrokerReport] = {}
        probed = set(fetch_broker_list(cluster, self.app.poll_count).node_ids) - set(cut)
        for broker in view.brokers:
            assert broker.node_id is not None
            node = {each.node_id: each for each in cluster.brokers}.get(broker.node_id)
            running = node is not None and node.alive
            if broker.answered and not running:
                raise InvariantBroken(1, f"broker {broker.node_id} does not run, and yet the view has its answer")
            if not broker.answered and running and broker.node_id in probed:
                raise InvariantBroken(7, f"broker {broker.node_id} answered, and the view has {broker.failure}")
            if broker.answered and node is not None:
                state = node.state
                _check_connection(broker, state)
                version = state.api_ranges.get(api_key(self._required.api), (0, -1))[1]
                level = state.finalized.get(self._required.feature, 0)
                reports[broker.node_id] = BrokerReport(state.epoch, level, version)
        return reports

    def _known_brokers(self, cluster: FakeCluster) -> set[int]:
        """Return the listed brokers, and those of the last view until they have been absent for too long."""
        listed, includes_fenced = fetch_broker_list(cluster, self.app.poll_count)
        last = self._expected.last_view(cluster.cluster_id)
        gone = set() if includes_fenced or last is None else {broker.node_id for broker in last.brokers} - set(listed)
        absent, now = self._absent.get(cluster.cluster_id, {}), self.app.elapsed
        since = {node_id: absent.get(node_id, now) for node_id in gone if node_id is not None}
        self._absent[cluster.cluster_id] = since
        return {*listed, *(node_id for node_id, at in since.items() if now - at < FORGET_AFTER)}

    # ------------------------------------------------------------------ at any time

    def check_gates(self) -> None:
        self._expected.check_latches(self.app.sticky, self.app.latched)
        for gate in self.app.sticky.values():
            _check_require(gate)
        self._expected.check_live(self.app.live, number=9)
        self._check_late_gates()

    def _check_late_gates(self) -> None:
        """Create gates now. The age of the view counts for them as for older gates."""
        self._late_gates += 1
        requirement = self._required.requirements[self._late_gates % len(self._required.requirements)]
        for policy in _POLICIES:
            gate = self.app.gate(requirement, policy, name=f"late {policy} {self._late_gates}")
            if gate.open is not (requirement in self._expected.proved):
                raise InvariantBroken(9, f"the late {policy} gate {requirement} is wrong: {gate.decision}")

    def _check_pickling(self) -> None:
        gate = next(iter(self.app.sticky.values()))
        try:
            pickle.dumps(gate)
        except NotPicklable:
            return
        raise InvariantBroken(8, "a gate was pickled")

    def _check_secrets(self) -> None:
        texts = [str(gate.decision) for gate in self.app.sticky.values()]
        texts += [repr(self.app.features), *(repr(event) for event in self.app.events[-1:])]
        if self.app.view is not None:
            text = self.app.view.to_json()
            texts.append(text)
            if View.from_json(text) != self.app.view:
                raise InvariantBroken(7, "a view differs after a round trip through JSON")
        if any(PASSWORD in text for text in texts):
            raise InvariantBroken(12, "a secret is shown")


def _check_connection(answer: BrokerAnswer, state: NodeState) -> None:
    """Check that the answer is that of a new connection, at the newest version that both sides speak."""
    if dict(answer.api_ranges) != dict(state.api_ranges):
        raise InvariantBroken(6, f"the view has other versions than broker {answer.node_id} negotiated")
    ours, theirs = ApiVersionsRequest.VERSIONS[1], state.api_ranges[ApiVersionsRequest.API_KEY][1]
    if answer.asked_version != min(ours, theirs):
        raise InvariantBroken(
            6, f"broker {answer.node_id} speaks ApiVersions v{theirs}, and v{answer.asked_version} was used"
        )


def _check_changes(before: View | None, view: View, changes: list[Changed]) -> None:
    if len(changes) > 1:
        raise InvariantBroken(4, "one poll gave more than one change")
    differs = before is None or _content(before) != _content(view)
    if differs and not changes:
        raise InvariantBroken(4, "the content changed without an event")
    if changes and not differs:
        raise InvariantBroken(4, f"an event says that the view changed, and only the epoch moved, to {view.epoch}")


def _check_require(gate: Gate) -> None:
    """Check that ``require`` raises for a closed gate, with the names of the gate and the requirement."""
    try:
        gate.require()
    except GateClosed as error:
        if gate.open or gate.name not in str(error) or str(gate.requirement) not in str(error):
            raise InvariantBroken(5, f"require() raised for {gate!r}: {error}") from error
    else:
        if not gate.open:
            raise InvariantBroken(5, f"require() did not raise for a closed gate: {gate!r}")


def _content(view: View) -> tuple[object, ...]:
    """Return the content of a view without epochs and times, as the page on invariants defines it."""
    levels = dict(view.finalized) if view.epoch >= 0 else None
    brokers = [
        (
            broker.node_id,
            dict(broker.api_ranges),
            dict(broker.supported),
            broker.asked_version,
            broker.failure and broker.failure.kind,
            broker.epoch >= 0,
            {} if broker.epoch < 0 else _deviation(dict(broker.finalized), levels or {}),
        )
        for broker in view.brokers
    ]
    return view.cluster_id, levels, brokers


def _deviation(reported: dict[str, int], levels: dict[str, int]) -> dict[str, int]:
    """Return the levels that a broker reports otherwise than the cluster has them."""
    names = {*reported, *levels}
    return {name: reported.get(name, 0) for name in names if reported.get(name, 0) != levels.get(name, 0)}
