"""How one app evaluates views: with its excluded APIs, and perhaps as if brokers had an older release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis
from featuregate.gating.decisions import EMULATION, FRESH, Decision, Reason, Staleness, as_closed, evaluate
from featuregate.gating.latches import LatchState, Waits, decide, decide_unseen
from featuregate.view.emulation import emulated

if TYPE_CHECKING:
    from featuregate.catalog import CapturedRelease
    from featuregate.gating.gates import Gate
    from featuregate.gating.verdicts import GateVerdict
    from featuregate.requirements import Requirement
    from featuregate.view.cluster_view import View


class Verdicts(NamedTuple):
    """What a view proves of a requirement."""

    of_cluster: GateVerdict
    of_app: GateVerdict
    """The same, of the view that the app sees."""


class Evaluator:
    """Evaluates requirements for one app.

    Parameters
    ----------
    staleness
        Says why the view at hand, or its levels, prove nothing any more. Asked for each decision, because views age
        between polls too.
    exclude_apis
        API versions that do not count as served.
    emulates
        The release at which views are capped; None caps nothing.
    """

    def __init__(
        self,
        *,
        staleness: Callable[[], Staleness] = lambda: FRESH,
        exclude_apis: ExcludedApis = NOTHING_EXCLUDED,
        emulates: CapturedRelease | None = None,
    ) -> None:
        self.emulates = emulates
        self._staleness = staleness
        self._exclude_apis = exclude_apis
        self._capped: tuple[View, View] | None = None

    def seen_by_app(self, view: View) -> View:
        """Return the view that gates see: the same one, or what it would be with the emulated release."""
        if self.emulates is None:
            return view
        if self._capped is None or self._capped[0] is not view:
            self._capped = view, emulated(view, self.emulates)
        return self._capped[1]

    def evaluate(self, view: View, requirement: Requirement) -> Decision:
        """Decide a requirement, and say where only the emulation stands against it."""
        decision = self._evaluate(self.seen_by_app(view), requirement)
        if self.emulates is None:
            return decision
        text = f"the app emulates release {self.emulates.release}"
        if not decision.open and self._evaluate(view, requirement).open:
            return as_closed(decision, EMULATION, f"{text}, which lacks what the cluster has for the requirement")
        reason = Reason(EMULATION, None, None, decision.verdict, f"{text}: what is newer in the cluster does not count")
        return replace(decision, reasons=(*decision.reasons, reason))

    def verdicts(self, view: View, requirement: Requirement) -> Verdicts:
        """Return what a view proves of a requirement, in the cluster and for the app."""
        of_cluster = self._evaluate(view, requirement).verdict
        if self.emulates is None:
            return Verdicts(of_cluster, of_cluster)
        return Verdicts(of_cluster, self._evaluate(self.seen_by_app(view), requirement).verdict)

    def decide(self, gate: Gate, view: View | None, state: LatchState, waits: Waits) -> Decision:
        """Decide a gate by a view and by what was proved before; None: no broker has answered yet."""
        if view is None:
            return decide_unseen(state, name=gate.name, requirement=gate.requirement, policy=gate.policy, waits=waits)
        return decide(
            state,
            view,
            name=gate.name,
            requirement=gate.requirement,
            policy=gate.policy,
            staleness=self._staleness(),
            exclude_apis=self._exclude_apis,
            waits=waits,
            evaluated=self.evaluate(view, gate.requirement),
        )

    def _evaluate(self, view: View, requirement: Requirement) -> Decision:
        return evaluate(view, requirement, self._staleness(), exclude_apis=self._exclude_apis)
