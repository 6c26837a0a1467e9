"""What to do before levels are lowered, and in which order to lower them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from featuregate.catalog import METADATA_VERSION, feature_level
from featuregate.errors import RequirementError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import parse
from featuregate_fleet.readiness.checks.views import view_after, view_before

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, GateUse
    from featuregate_fleet.readiness.moves import Finalize


def downgrade_order(evidence: Evidence, moves: Sequence[Finalize]) -> Iterator[str]:
    """Yield the steps, in sentences: hold what may open meanwhile, release what is latched, lower what depends first.

    Nothing where no level is lowered.
    """
    view = evidence.view
    lowered = [move for move in moves if view is not None and move.level < (view.level(move.feature) or 0)]
    if not lowered or view is None:
        return
    uses = [use for use in evidence.apps.gates if _loses(evidence, use, lowered)] if evidence.apps else []
    for use in uses:
        if use.policy == "sticky" and not use.latched and use.held < use.instances:
            yield f"Hold gate {use.gate!r} of app {use.app!r} closed, so that it does not latch meanwhile."
    for use in uses:
        if use.latched:
            yield f"Run a release of app {use.app!r} without gate {use.gate!r}, in {_count(use)}."
    for move in _dependents_first(lowered, {move.feature: view.level(move.feature) or 0 for move in lowered}):
        yield f"Lower {move.feature} to {move.level}."


def _loses(evidence: Evidence, use: GateUse, moves: Sequence[Finalize]) -> bool:
    """Whether the requirement of a gate holds now, and not after the moves."""
    try:
        requirement = parse(use.requirement or "")
    except RequirementError:  # another check says so
        return False
    before = after = view_before(evidence.view, use)
    for move in moves:
        after = view_after(after, move)
    return evaluate(before, requirement).verdict == "open" and evaluate(after, requirement).verdict != "open"


def _count(use: GateUse) -> str:
    return "1 instance" if use.instances == 1 else f"{use.instances} instances"


def _dependents_first(moves: Sequence[Finalize], levels: Mapping[str, int]) -> list[Finalize]:
    """Sort so that a feature comes before those on which its level depends."""
    left, ordered = sorted(moves, key=lambda move: move.feature), []
    while left:
        needed = {other for move in left for other in _depends_on(move.feature, levels)}
        free = [move for move in left if move.feature not in needed] or left
        ordered += free
        left = [move for move in left if move not in free]
    return ordered


def _depends_on(feature: str, levels: Mapping[str, int]) -> set[str]:
    known = feature_level(feature, levels[feature])
    needs = set() if known is None else set(known.depends_on)
    return (needs if feature == METADATA_VERSION else {*needs, METADATA_VERSION}) - {feature}
