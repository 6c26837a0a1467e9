"""What moves do to gates: what these see before and after, which of them open, and how levels are lowered. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import METADATA_VERSION, CapturedRelease, feature_level
from featuregate.errors import RequirementError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import Requirement, conditions_in, features_in, parse, subject_of
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move, ToRelease

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, GateUse

_ANY_BROKER: Final = BrokerAnswer(node_id=0, host="any", port=0)


def touches(move: Move, requirement: Requirement) -> bool:
    """Return whether a move may change what a requirement asks for."""
    match move:
        case ToRelease() | DowngradeTo():
            return True
        case Finalize(feature, _) | Deprecate(feature, _):
            return feature in features_in(requirement)
        case DropApi(key, _):
            return any(subject_of(condition).api == key for condition in conditions_in(requirement))


def view_before(seen: View | None, use: GateUse) -> View:
    """Return what the gate sees now: the brokers as they were asked last, and the levels that the app reported.

    Where brokers never were asked none is known, and whatever is required of their APIs is unknown.
    """
    known = {feature: level for feature, level in use.levels.items() if level is not None}
    levels = {**(seen.finalized if seen else {}), **known}
    unknown = (seen is None or seen.epoch < 0) and len(known) < len(use.levels)
    return View(
        cluster_id=None,
        epoch=-1 if unknown else 0,
        finalized=levels,
        brokers=seen.brokers if seen else (),
        api_ranges=seen.api_ranges if seen else {},
    )


def view_after(before: View, move: Move) -> View:
    """Return what the gate sees once the move is done."""
    match move:
        case ToRelease(release) | DowngradeTo(release):
            return _with_release(before, release)
        case Finalize(feature, level):
            return replace(before, finalized={**before.finalized, feature: level})
        case Deprecate(feature, level):
            if before.finalized.get(feature, 0) <= level:  # nothing is left that brokers support and the cluster has
                return replace(before, finalized={**before.finalized, feature: 0})
            return before
        case DropApi(key, lowest):
            return _without(before, key, lowest)


def _with_release(before: View, release: CapturedRelease) -> View:
    """Return a view with one broker of the release; levels that it does not support are lowered before it starts."""
    levels = {
        feature: min(level, release.features.get(feature, (0, 0))[1]) for feature, level in before.finalized.items()
    }
    ranges = {key: ApiRange(*versions) for key, versions in release.apis.items()}
    supported = {feature: SupportedRange(*found) for feature, found in release.features.items()}
    broker = replace(_ANY_BROKER, api_ranges=ranges, supported=supported)
    return replace(before, finalized=levels, brokers=(broker,), api_ranges=ranges)


def _without(before: View, key: int, lowest: int) -> View:
    brokers = tuple(replace(broker, api_ranges=_raised(broker.api_ranges, key, lowest)) for broker in before.brokers)
    return replace(before, brokers=brokers, api_ranges=_raised(before.api_ranges, key, lowest))


def _raised(ranges: Mapping[int, ApiRange], key: int, lowest: int) -> dict[int, ApiRange]:
    raised = {**ranges}
    if key in raised:
        versions = raised.pop(key)
        if versions.max >= lowest:
            raised[key] = ApiRange(max(versions.min, lowest), versions.max)
    return raised


# ---------------------------------------------------------------- what opens


class GateOpening(NamedTuple):
    """A gate that is closed now, and that the move opens, by its instances."""

    use: GateUse
    at_once: int
    burn_in: int
    held: int

    def __str__(self) -> str:
        after = timedelta(seconds=round(self.use.open_after))
        parts = [
            (self.at_once, "at once"),
            (self.burn_in, f"after a burn-in of {after}"),
            (self.held, "not while an operator holds it"),
        ]
        return f"It opens with the move: {'; '.join(f'{instances(count)} {how}' for count, how in parts if count)}"


def gate_openings(evidence: Evidence, move: Move) -> Iterator[GateOpening]:
    """Yield the gates that a move opens, by app and name."""
    uses = evidence.apps.gates if evidence.apps else ()
    for use in sorted(uses, key=lambda use: (use.app, use.gate or "")):
        found = None if use.gate is None or use.requirement is None else opening_of(evidence.view, use, move)
        if found is not None:
            yield found


def opening_of(seen: View | None, use: GateUse, move: Move) -> GateOpening | None:
    """Return how a gate opens with a move; None where it is open now, or stays closed."""
    if use.is_open or not _holds(view_after(view_before(seen, use), move), use):
        return None
    others = max(use.instances - use.held, 0)
    return GateOpening(use, *((0, others) if use.open_after > 0 else (others, 0)), use.held)


def instances(count: int) -> str:
    """Return a number of instances in words."""
    return "1 instance" if count == 1 else f"{count} instances"


def _holds(view: View, use: GateUse) -> bool:
    """Return whether the requirement of a gate is met; also False where it cannot be read, which a check says."""
    try:
        return evaluate(view, parse(use.requirement or "")).verdict == "open"
    except RequirementError:
        return False


# ---------------------------------------------------------------- what is done before levels are lowered


def downgrade_order(evidence: Evidence, moves: Sequence[Finalize]) -> Iterator[str]:
    """Yield the steps, in sentences: hold what may open meanwhile, release what is latched, lower what depends first.

    Nothing where no level is lowered.
    """
    view = evidence.view
    lowered = [move for move in moves if view is not None and move.level < (view.level(move.feature) or 0)]
    if not lowered or view is None:
        return
    uses = [use for use in evidence.apps.gates if _loses(view, use, lowered)] if evidence.apps else []
    for use in uses:
        if use.policy == "sticky" and not use.latched and use.held < use.instances:
            yield f"Hold gate {use.gate!r} of app {use.app!r} closed, so that it does not latch meanwhile."
    for use in uses:
        if use.latched:
            yield f"Run a release of app {use.app!r} without gate {use.gate!r}, in {instances(use.instances)}."
    for move in _dependents_first(lowered, {move.feature: view.level(move.feature) or 0 for move in lowered}):
        yield f"Lower {move.feature} to {move.level}."


def _loses(seen: View, use: GateUse, moves: Sequence[Finalize]) -> bool:
    before = view_before(seen, use)
    return _holds(before, use) and not _holds(reduce(view_after, moves, before), use)


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
