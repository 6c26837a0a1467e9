"""A model of the invariants that is simple enough to be believed: what an app must see and decide, poll by poll.

The model works with what brokers report. It takes nothing from the app's own merging, latches or gates. It is used for
an app over fake clusters without sockets, and for a discoverer over fake brokers.
"""

from collections.abc import Mapping
from typing import NamedTuple

from featuregate.gating.gates import Gate
from featuregate.view.cluster_view import View


class InvariantBroken(AssertionError):
    """An invariant does not hold (docs/explanation/invariants.md)."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.problem}"


class AppRequirements(NamedTuple):
    """One API version and one feature level. The app has gates for each of them, for both, and for either."""

    api: str
    version: int
    feature: str
    level: int

    @property
    def requirements(self) -> tuple[str, str, str, str]:
        api, level = f"{self.api}>={self.version}", f"feature:{self.feature}>={self.level}"
        return api, level, f"{api} & {level}", f"{api} | {level}"


class BrokerReport(NamedTuple):
    """What one broker reports, as far as the requirements depend on it."""

    epoch: int
    level: int
    """The finalized level of the required feature; 0 where it is not finalized."""
    version: int
    """The highest version of the required API; -1 where the broker does not serve it."""


class Expectations:
    """What an app with these requirements must see and decide.

    Parameters
    ----------
    requirements
        What the gates of the app require.
    stale_after
        Seconds without an answer after which a view is stale.
    """

    def __init__(self, requirements: AppRequirements, stale_after: float) -> None:
        self.requirements = requirements
        self._stale_after = stale_after
        self._opened: dict[str, set[str]] = {}
        self._highest: dict[str, int] = {}
        self._led_to: dict[str, str] = {}
        self.restart()

    def restart(self, bootstrap: str = "") -> None:
        """Forget the views of the process. What its latches hold stays.

        It counts before the first answer, if the process has been led to this cluster by the same bootstrap list.
        """
        self._bootstrap = bootstrap
        self._latch_cluster_id = self._led_to.get(bootstrap, "")
        self.proved: set[str] = set()
        """The requirements that live gates must find proved."""
        self._last: View | None = None
        self._last_by_cluster: dict[str, View] = {}
        self._answered_at: float | None = None
        self._levels_at = 0.0

    @property
    def _cluster_id(self) -> str:
        return (self._last.cluster_id if self._last else None) or ""

    def last_view(self, cluster_id: str) -> View | None:
        """Return the last view of this cluster since the process started."""
        return self._last_by_cluster.get(cluster_id)

    def provable(self, now: float) -> set[str]:
        """Return the requirements that a gate created at this time must find proved: none while the view is stale."""
        stale = self._answered_at is None or now - self._answered_at > self._stale_after
        return set() if stale else self.proved

    def expire(self, now: float) -> None:
        """Note the time: live gates must be unknown once the view is stale."""
        self.proved = self.provable(now)

    def accept(self, view: View, reports: Mapping[int, BrokerReport], known: set[int], now: float) -> None:
        """Check a new view, and learn from it.

        Parameters
        ----------
        view
            The view after a poll.
        reports
            Node id to what the broker reports, for each broker whose answer is in the view.
        known
            The brokers that the view must hold.
        now
            The time on the app's monotonic clock.
        """
        cluster_id, required = view.cluster_id or "", self.requirements
        newest = max((report.epoch for report in reports.values()), default=-1)
        self._check_levels(view, reports, newest)
        if {broker.node_id for broker in view.brokers} != known:
            raise InvariantBroken(3, f"brokers {sorted(known)} are known, and the view has {view.brokers}")
        if cluster_id != self._cluster_id or newest >= view.epoch:
            self._levels_at = now
        api = set(reports) == known and all(report.version >= required.version for report in reports.values())
        fresh = view.epoch < 0 or now - self._levels_at <= self._stale_after
        level = fresh and (view.level(required.feature) or 0) >= required.level
        proofs = zip(required.requirements, (api, level, api and level, api or level), strict=True)
        self.proved = {requirement for requirement, proof in proofs if proof}
        self._opened.setdefault(cluster_id, set()).update(self.proved)
        self._highest[cluster_id] = max(self._highest.get(cluster_id, 0), view.level(required.feature) or 0)
        self._latch_cluster_id = self._led_to[self._bootstrap] = cluster_id
        self._last = self._last_by_cluster[cluster_id] = view
        self._answered_at = now

    def _check_levels(self, view: View, reports: Mapping[int, BrokerReport], newest: int) -> None:
        feature, before = self.requirements.feature, self.last_view(view.cluster_id or "")
        seen = before.epoch if before is not None else -1
        if view.epoch != max(newest, seen):
            raise InvariantBroken(1, f"the newest epoch is {newest}, {seen} was seen, and the view has {view.epoch}")
        expected: set[int | None] = {None}
        if view.epoch >= 0 and newest >= seen:
            expected = {report.level for report in reports.values() if report.epoch == newest}
        elif view.epoch >= 0 and before is not None:
            expected = {before.level(feature)}
        if view.level(feature) not in expected:
            raise InvariantBroken(
                1, f"the level of {feature} is {view.level(feature)}, and at epoch {view.epoch} it is {expected}"
            )

    def check_live(self, gates: Mapping[str, Gate], number: int | None = None) -> None:
        """Check that live gates, by requirement, are open exactly while their requirement is proved.

        ``number`` is the invariant that is broken otherwise; by default 3 for APIs, and 1 for levels.
        """
        for requirement, gate in gates.items():
            if gate.open is not (requirement in self.proved):
                broken = number or (3 if self.requirements.api in requirement else 1)
                raise InvariantBroken(broken, f"the live gate {requirement} is wrong: {gate.decision}")

    def check_latches(self, gates: Mapping[str, Gate], latched: Mapping[str, int]) -> None:
        """Check that sticky gates, by requirement, and the latched level never go back in this cluster."""
        opened = self._opened.get(self._latch_cluster_id, set())
        for requirement, gate in gates.items():
            if gate.open is not (requirement in opened):
                number = 2 if requirement in opened else 3
                raise InvariantBroken(number, f"the sticky gate {requirement} is {gate.decision}")
            if (gate.decision.held is not None) is not (requirement in opened - self.proved):
                raise InvariantBroken(2, f"{requirement} is held or proved, and its decision differs: {gate.decision}")
        highest = self._highest.get(self._latch_cluster_id, 0)
        if latched.get(self.requirements.feature, 0) != highest:
            raise InvariantBroken(2, f"the latched level of {self.requirements.feature} is not {highest}, its highest")
