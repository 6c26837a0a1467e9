"""Which gates a move opens: in how many instances at once, and in how many later, by what apps reported. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from featuregate.errors import RequirementError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import parse
from featuregate_fleet.readiness.checks.views import view_after, view_before

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.readiness.evidence import Evidence, GateUse
    from featuregate_fleet.readiness.moves import Move


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOpening:
    """A gate that is closed now, and that the move opens, by its instances."""

    use: GateUse
    at_once: int = 0
    burn_in: int = 0
    held: int = 0

    def __str__(self) -> str:
        after = timedelta(seconds=round(self.use.open_after))
        parts = [
            (self.at_once, "at once"),
            (self.burn_in, f"after a burn-in of {after}"),
            (self.held, "not while an operator holds it"),
        ]
        said = (f"{'1 instance' if count == 1 else f'{count} instances'} {how}" for count, how in parts if count)
        return f"It opens with the move: {'; '.join(said)}"


def gate_openings(evidence: Evidence, move: Move) -> Iterator[GateOpening]:
    """Yield the gates that a move opens, by app and name."""
    uses = evidence.apps.gates if evidence.apps else ()
    for use in sorted(uses, key=lambda use: (use.app, use.gate or "")):
        found = None if use.gate is None or use.requirement is None else opening_of(evidence.view, use, move)
        if found is not None:
            yield found


def opening_of(seen: View | None, use: GateUse, move: Move) -> GateOpening | None:
    """Return how a gate opens with a move; None where it is open now, or stays closed."""
    try:
        requirement = parse(use.requirement or "")
    except RequirementError:  # another check says so
        return None
    after = view_after(view_before(seen, use), move)
    if not {"open", "held"}.isdisjoint(use.states) or evaluate(after, requirement).verdict != "open":
        return None
    others = max(use.instances - use.held, 0)
    waits = use.open_after > 0
    return GateOpening(
        use=use,
        at_once=0 if waits else others,
        burn_in=others if waits else 0,
        held=use.held,
    )
