"""Who checks the invariants: a model simple enough to be believed, beside the app and the cluster.

It goes by what the cluster is, not by what the app has made of its answers.
"""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_key
from featuregate.errors import GateClosed, NotPicklable
from featuregate.gating.events import Changed
from featuregate.testing.simulator.app import FORGET_AFTER, STALE_AFTER, App
from featuregate.testing.simulator.client import PASSWORD, listed_brokers
from featuregate.view.cluster_view import View
from featuregate.wire.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.gating.latches import Policy
    from featuregate.testing.fakes.answers import Tells
    from featuregate.testing.simulator.cluster import Cluster
    from featuregate.testing.simulator.requirements import Wants

__all__ = ["InvariantBroken", "Witness"]


POLICIES: Final[tuple[Policy, ...]] = ("sticky", "live")


class InvariantBroken(AssertionError):
    """One of the invariants does not hold (docs/explanation/invariants.md)."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.problem}"


class _Said(NamedTuple):
    epoch: int
    level: int
    highest: int


class Witness:
    """Looks at the cluster with the app, and compares."""

    def __init__(self, wants: Wants) -> None:
        self.wants = wants
        self.app = App(wants.requirements)
        self._opened: dict[str, set[str]] = {}
        self._highest: dict[str, int] = {}
        self._late = 0
        self._forget()

    def _forget(self) -> None:
        self._absent: dict[str, dict[int, float]] = {}
        self._answered_at: float | None = None
        self._levels_at = 0.0
        self._last: dict[str, View] = {}
        self._proved: set[str] = set()

    def restart(self) -> None:
        """Let the app's process end and begin again."""
        self.app.restart()
        self._forget()
        self.check_checks()

    def pass_time(self, seconds: float) -> None:
        """Let time go by for the app."""
        self.app.pass_time(seconds)
        self.check_checks()

    def look(self, cluster: Cluster, cut: dict[int, int]) -> None:
        """Let the app look, and hold what it sees to what is."""
        before, told, threads = self.app.view, len(self.app.events), set(threading.enumerate())
        view = self.app.look(cluster, cut=cut)
        if set(threading.enumerate()) - threads:
            raise InvariantBroken(8, "a look has begun a thread that nobody owns")
        changes = [event for event in self.app.events[told:] if isinstance(event, Changed)]
        if view is None:
            if self.app.view is not before or changes:
                raise InvariantBroken(1, "nobody answered, and yet the view is another one")
        else:
            self._compare(cluster, view, cut, before)
            self._check_changes(before, view, changes)
            self._last[cluster.cluster_id] = view
        self.check_checks()
        self._check_ownership()
        self._check_secrets()

    # ------------------------------------------------------------------ after a look

    def _compare(self, cluster: Cluster, view: View, cut: dict[int, int], last_view: View | None) -> None:
        cluster_id = cluster.cluster_id
        if view.cluster_id != cluster_id:
            raise InvariantBroken(1, f"the view is of {view.cluster_id}, and the cluster is {cluster_id}")
        said = self._believed(cluster, view, cut)
        before = self._last.get(cluster_id)
        self._check_levels(view, said, before)
        self._answered_at = self.app.elapsed
        other = last_view is None or last_view.cluster_id != cluster_id
        if other or max((each.epoch for each in said.values()), default=-1) >= view.epoch:
            self._levels_at = self.app.elapsed
        proved = self._proved_by(cluster, view, said)
        self._proved = proved
        self._opened.setdefault(cluster_id, set()).update(proved)
        self._highest[cluster_id] = max(self._highest.get(cluster_id, 0), view.level(self.wants.feature) or 0)

    def _believed(self, cluster: Cluster, view: View, cut: dict[int, int]) -> dict[int, _Said]:
        """Take what the brokers that could be heard told, as it is and not as it arrived."""
        said: dict[int, _Said] = {}
        found = listed_brokers(cluster, self.app.looks)
        asked = set(found[0] if found is not None else ()) - set(cut)
        for broker in view.brokers:
            assert broker.node_id is not None
            node = cluster.nodes.get(broker.node_id)
            speaks = node is not None and node.state == "running"
            if broker.answered and not speaks:
                raise InvariantBroken(1, f"broker {broker.node_id} does not run, and yet an answer of it is believed")
            if not broker.answered and speaks and broker.node_id in asked:
                raise InvariantBroken(7, f"broker {broker.node_id} answered, and was not heard: {broker.failure}")
            if broker.answered:
                tells = cluster.tells(broker.node_id)
                self._check_connection(broker.node_id, dict(broker.api_ranges), broker.asked_version, tells)
                highest = tells.api_ranges.get(api_key(self.wants.api), (0, -1))[1]
                said[broker.node_id] = _Said(tells.epoch, tells.finalized.get(self.wants.feature, 0), highest)
        return said

    def _check_connection(
        self, node_id: int, heard: dict[int, tuple[int, int]], asked: int | None, tells: Tells
    ) -> None:
        if heard != dict(tells.api_ranges):
            raise InvariantBroken(6, f"broker {node_id} negotiated other versions on this connection than are held")
        ours, theirs = ApiVersionsRequest.VERSIONS[1], tells.api_ranges[ApiVersionsRequest.API_KEY][1]
        if asked != min(ours, theirs):
            raise InvariantBroken(6, f"broker {node_id} speaks ApiVersions up to v{theirs}, and v{asked} was used")

    def _check_levels(self, view: View, said: dict[int, _Said], before: View | None) -> None:
        newest = max((each.epoch for each in said.values()), default=-1)
        kept = before.epoch if before is not None else -1
        if view.epoch != max(newest, kept):
            raise InvariantBroken(1, f"epochs {newest} and before it {kept} were seen, and the view has {view.epoch}")
        level = view.level(self.wants.feature)
        if view.epoch < 0:
            expected: set[int | None] = {None}
        elif newest >= kept:
            expected = {each.level for each in said.values() if each.epoch == newest}
        else:
            expected = {before.level(self.wants.feature) if before is not None else None}
        if level not in expected:
            raise InvariantBroken(1, f"{self.wants.feature} is {level}, and at epoch {view.epoch} it was {expected}")

    def _proved_by(self, cluster: Cluster, view: View, said: dict[int, _Said]) -> set[str]:
        known = self._brokers_known(cluster)
        if {broker.node_id for broker in view.brokers} != known:
            raise InvariantBroken(3, f"brokers {sorted(known)} are known, and the view has {view.brokers}")
        api = set(said) == known and all(each.highest >= self.wants.version for each in said.values())
        fresh = view.epoch < 0 or self.app.elapsed - self._levels_at <= STALE_AFTER
        level = fresh and (view.level(self.wants.feature) or 0) >= self.wants.level
        proofs = zip(self.wants.requirements, (api, level, api and level, api or level), strict=True)
        proved = {requirement for requirement, proof in proofs if proof}
        for requirement, gate in self.app.live.items():
            if gate.open is not (requirement in proved):
                number = 3 if self.wants.api in requirement else 1
                raise InvariantBroken(number, f"the live gate {requirement} is wrong: {gate.decision}")
        return proved

    def _brokers_known(self, cluster: Cluster) -> set[int]:
        """Count those that are listed, and those that were in the view until they had been absent for too long."""
        found = listed_brokers(cluster, self.app.looks)
        listed, registered = found if found is not None else ((), False)
        last = self._last.get(cluster.cluster_id)
        gone = set() if registered or last is None else {broker.node_id for broker in last.brokers} - set(listed)
        absent = self._absent.get(cluster.cluster_id, {})
        now = self.app.elapsed
        since = {node_id: absent.get(node_id, now) for node_id in gone if node_id is not None}
        self._absent[cluster.cluster_id] = since
        return {*listed, *(node_id for node_id, at in since.items() if now - at < FORGET_AFTER)}

    def _check_changes(self, before: View | None, view: View, changes: list[Changed]) -> None:
        if len(changes) > 1:
            raise InvariantBroken(4, "one look is told as more than one change")
        differ = before is None or _content(before) != _content(view)
        if differ and not changes:
            raise InvariantBroken(4, "the content changed, and nobody was told")
        if changes and not differ:
            raise InvariantBroken(4, f"a change is told where only the epoch moved to {view.epoch}")

    # ------------------------------------------------------------------ at any moment

    def check_checks(self) -> None:
        """Hold the gates to what is proved, and checks to what they may do."""
        view, proved = self.app.view, self._proved_now()
        opened = self._opened.get(view.cluster_id or "", set()) if view is not None else set()
        for requirement, gate in self.app.sticky.items():
            if gate.open is not (requirement in opened):
                number = 2 if requirement in opened else 3
                raise InvariantBroken(number, f"the sticky gate {requirement} is {gate.decision}")
            if gate.open and (gate.decision.held is not None) is (requirement in proved):
                raise InvariantBroken(2, f"{requirement} does not say rightly whether it is held: {gate.decision}")
            _check_require(gate)
        if view is not None and self.app.latched.get(self.wants.feature, 0) != self._highest[view.cluster_id or ""]:
            raise InvariantBroken(2, f"what was latched of {self.wants.feature} is not its highest level")

        for requirement, gate in self.app.live.items():
            if gate.open is not (requirement in proved):
                raise InvariantBroken(10, f"the live gate {requirement} does not go by the age of the view: {gate!r}")
        self._check_late_gates(proved)

    def _proved_now(self) -> set[str]:
        """Say what the last look proves still: nothing once it is stale."""
        stale = self._answered_at is None or self.app.elapsed - self._answered_at > STALE_AFTER
        return set() if stale else self._proved

    def _check_late_gates(self, proved: set[str]) -> None:
        """Make gates now: they go by the age of the view as those do that were there before it."""
        self._late += 1
        requirement = self.wants.requirements[self._late % len(self.wants.requirements)]
        for policy in POLICIES:
            gate = self.app.gate(requirement, policy, name=f"late {policy} {self._late}")
            if gate.open is not (requirement in proved):
                raise InvariantBroken(10, f"the {policy} gate {requirement}, made late, is wrong: {gate.decision}")

    def _check_ownership(self) -> None:
        gate = next(iter(self.app.sticky.values()))
        try:
            pickle.dumps(gate)
        except NotPicklable:
            return
        raise InvariantBroken(8, "a gate was pickled")

    def _check_secrets(self) -> None:
        texts = [str(gate.decision) for gate in self.app.sticky.values()]
        texts += [repr(self.app), *(repr(event) for event in self.app.events[-1:])]
        if self.app.view is not None:
            text = self.app.view.to_json()
            texts.append(text)
            if View.from_json(text) != self.app.view:
                raise InvariantBroken(7, "a view does not survive its own JSON")
        if any(PASSWORD in text for text in texts):
            raise InvariantBroken(9, "a secret is shown")


def _check_require(gate: Gate) -> None:
    """Only ``require`` raises, and names the gate and the requirement."""
    try:
        gate.require()
    except GateClosed as error:
        if gate.open or gate.name not in str(error) or str(gate.requirement) not in str(error):
            raise InvariantBroken(5, f"require() raised for {gate!r}: {error}") from error
    else:
        if not gate.open:
            raise InvariantBroken(5, f"require() let a closed gate pass: {gate!r}")


def _content(view: View) -> tuple[object, ...]:
    """Say what a view tells, but for epochs and times; as the page on invariants has it."""
    levels = dict(view.finalized) if view.epoch >= 0 else None
    brokers = [
        (
            broker.node_id,
            dict(broker.api_ranges),
            dict(broker.supported),
            broker.asked_version,
            broker.failure and broker.failure.kind,
            broker.epoch >= 0,
            {} if broker.epoch < 0 or dict(broker.finalized) == levels else _lags(dict(broker.finalized), levels or {}),
        )
        for broker in view.brokers
    ]
    return view.cluster_id, levels, brokers


def _lags(said: dict[str, int], levels: dict[str, int]) -> dict[str, int]:
    return {name: said.get(name, 0) for name in {*said, *levels} if said.get(name, 0) != levels.get(name, 0)}
