"""What a gate sees before a move and after it, as views. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.requirements import Requirement, conditions_in, features_in, subject_of
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, Move, ToRelease

if TYPE_CHECKING:
    from featuregate.catalog import CapturedRelease
    from featuregate_fleet.readiness.evidence import GateUse

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
        finalized_min=seen.finalized_min if seen else {},
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
            return replace(before, finalized_min={**before.finalized_min, feature: level + 1})
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
    return replace(before, finalized=levels, finalized_min={}, brokers=(broker,), api_ranges=ranges)


def _without(before: View, key: int, lowest: int) -> View:
    brokers = tuple(replace(broker, api_ranges=_raised(broker.api_ranges, key, lowest)) for broker in before.brokers)
    return replace(before, brokers=brokers, api_ranges=_raised(before.api_ranges, key, lowest))


def _raised(ranges: Mapping[int, ApiRange], key: int, lowest: int) -> dict[int, ApiRange]:
    """Return ranges in which an API begins at ``lowest``; without the API where nothing is left of it."""
    raised = {**ranges}
    if key in raised:
        versions = raised.pop(key)
        if versions.max >= lowest:
            raised[key] = ApiRange(max(versions.min, lowest), versions.max)
    return raised
