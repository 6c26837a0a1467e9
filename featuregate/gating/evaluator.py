"""How one app evaluates views: with its excluded APIs, as long as they are fresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis
from featuregate.gating.decisions import FRESH, Decision, Staleness, evaluate
from featuregate.gating.latches import LatchState, Waits, decide, decide_unseen

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.requirements import Requirement
    from featuregate.view.cluster_view import View


class Evaluator:
    """Evaluates requirements for one app.

    Parameters
    ----------
    staleness
        Says why the view at hand, or its levels, prove nothing any more. Asked for each decision, because views age
        between polls too.
    exclude_apis
        API versions that do not count as served.
    """

    def __init__(
        self,
        *,
        staleness: Callable[[], Staleness] = lambda: FRESH,
        exclude_apis: ExcludedApis = NOTHING_EXCLUDED,
    ) -> None:
        self._staleness = staleness
        self._exclude_apis = exclude_apis

    def evaluate(self, view: View, requirement: Requirement) -> Decision:
        """Decide a requirement by a view."""
        return evaluate(view, requirement, self._staleness(), exclude_apis=self._exclude_apis)

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
