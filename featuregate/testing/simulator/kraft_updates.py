"""How a KRaft controller judges UpdateFeatures (KIP-778, KIP-1022), check by check, in Kafka's order and words.

Sources: ``FeatureControlManager.updateFeature``, ``QuorumController.updateFeatures``, ``QuorumFeatures`` and
``Feature.validateVersion`` of Apache Kafka 3.9.2 and 4.2.0. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import METADATA_VERSION, feature_level, features, is_safe_downgrade, level_name
from featuregate.testing.simulator.java_maps import in_map_order
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse, UpgradeType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.testing.simulator.binaries import Binary
    from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest

__all__ = ["CONTROLLERS_REGISTER_FROM", "KRAFT_VERSION", "KRAFT_VERSION_BY_RAFT_FROM", "Judged", "Registry", "judge"]

KRAFT_VERSION: Final = "kraft.version"
CONTROLLERS_REGISTER_FROM: Final = 15
"""``metadata.version`` 3.7-IV0."""
_FIRST_TO_HOLD_LEVELS: Final = 4
"""3.3-IV0, the first ``metadata.version`` whose log can hold feature levels."""
_ALL_OR_NOTHING_FROM: Final = (4, 0)
KRAFT_VERSION_BY_RAFT_FROM: Final = (4, 1)
_INVALID_UPDATE_VERSION: Final = 95
_WITH_RESULTS: Final = 1
_DISABLED: Final = (0, 0)
_FOR_ALL: Final = "The update failed for all features since the following feature had an error: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """What the active controller goes by."""

    node_id: int
    binary: Binary
    voters: tuple[int, ...]
    brokers: Mapping[int, Mapping[str, tuple[int, int]]]
    """Registered brokers, fenced ones too, to what each said that it supports."""
    controllers: Mapping[int, Mapping[str, tuple[int, int]]]
    """The same of registered controllers."""
    levels: Mapping[str, int]
    """Finalized, as the metadata log holds them."""
    kraft_version: int
    """The level that the quorum itself runs at, which no metadata record holds."""

    def level(self, feature: str) -> int:
        """Return the finalized level of a feature; 0 for none."""
        by_raft = feature == KRAFT_VERSION and self.binary.numbers >= KRAFT_VERSION_BY_RAFT_FROM
        return self.kraft_version if by_raft else self.levels.get(feature, 0)


class Judged(NamedTuple):
    """The answer to a request, and what is written to the metadata log for it."""

    response: UpdateFeaturesResponse
    records: Mapping[str, int]
    """Feature to level, in order; empty for a dry run and for what is refused."""
    kraft_version: int | None
    """What the quorum itself moves to."""


@dataclass(slots=True)
class _Draft:
    """What would be written if all went well."""

    records: dict[str, int] = field(default_factory=dict)
    kraft_version: int | None = None


def judge(registry: Registry, request: UpdateFeaturesRequest, version: int) -> Judged:
    """Judge a request of this version. Of a feature that is named twice, the last update counts."""
    updates = {update.feature: update for update in request.updates}
    wanted = {feature: _type_of(update, version) for feature, update in updates.items()}
    draft, errors = _Draft(), dict[str, str | None]()
    proposed = {**registry.levels, **{feature: update.max_version_level for feature, update in updates.items()}}
    at_once = registry.binary.numbers >= _ALL_OR_NOTHING_FROM
    for feature in in_map_order(updates):
        level = updates[feature].max_version_level
        errors[feature] = problem = _judge_one(registry, feature, level, wanted[feature], proposed, draft)
        if problem is not None and at_once:
            return Judged(_refused(_FOR_ALL + problem), {}, None)
    response = _all_done(request, version) if at_once else _one_by_one(errors)
    if request.validate_only:
        return Judged(response, {}, None)
    return Judged(response, draft.records, draft.kraft_version)


def _type_of(update: FeatureUpdate, version: int) -> int:
    # Of v0 the controllers read the field that v0 has not, and find its default.
    return update.upgrade_type if version else UpgradeType.UPGRADE


def _judge_one(
    registry: Registry, feature: str, level: int, wanted: int, proposed: Mapping[str, int], draft: _Draft
) -> str | None:
    """Return what is wrong with one update; where nothing is, add it to the draft."""
    problem = _general_problem(registry, feature, level, wanted)
    if problem is not None:
        return f"Invalid update version {level} for feature {feature}. {problem}"
    if feature == METADATA_VERSION:
        problem = _metadata_problem(registry, level, wanted)
        if problem is None:
            draft.records[feature] = level
        return problem
    if registry.binary.numbers < _ALL_OR_NOTHING_FROM:
        draft.records[feature] = level
        return None
    if feature == KRAFT_VERSION and registry.binary.numbers >= KRAFT_VERSION_BY_RAFT_FROM:
        return _judge_kraft_version(registry, level, wanted, draft)
    problem = _unmet(feature, level, proposed)
    if problem is not None:
        return f"Invalid update version {level} for feature {feature}. {problem}"
    draft.records[feature] = level
    return None


def _general_problem(registry: Registry, feature: str, level: int, wanted: int) -> str | None:
    current = registry.level(feature)
    if wanted not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if (reason := _not_supported(registry, feature, level)) is not None:
        return reason
    if level < current and wanted == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and wanted != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _not_supported(registry: Registry, feature: str, level: int) -> str | None:
    """Ask this controller, then every registered broker, then every registered controller, whether it supports it."""
    nodes = [(f"Local controller {registry.node_id}", registry.binary.supported)]
    nodes += [(f"Broker {node_id}", said) for node_id, said in sorted(registry.brokers.items())]
    registering = registry.levels[METADATA_VERSION] >= CONTROLLERS_REGISTER_FROM
    if registering:
        others = sorted(registry.controllers.items())
        nodes += [(f"Controller {node_id}", said) for node_id, said in others if node_id != registry.node_id]
    for name, said in nodes:
        lowest, highest = said.get(feature, _DISABLED)
        if not lowest <= level <= highest:
            return f"{name} only supports versions {_range(lowest, highest)}" if highest else _lacks(name)
    if registering:
        known = {registry.node_id, *registry.controllers}
        for voter in registry.voters:
            if voter not in known:
                return f"controller {voter} has not registered, and may not support this feature"
    return None


def _lacks(name: str) -> str:
    return f"{name} does not support this feature."


def _range(lowest: int, highest: int) -> str:
    """Write a range as ``VersionRange.toString`` does."""
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def _metadata_problem(registry: Registry, level: int, wanted: int) -> str | None:
    current = registry.level(METADATA_VERSION)
    newer = registry.binary.numbers >= _ALL_OR_NOTHING_FROM
    if level < _FIRST_TO_HOLD_LEVELS and not newer:
        first = level_name(METADATA_VERSION, _FIRST_TO_HOLD_LEVELS)
        return f"Invalid metadata.version {level}. Unable to set a metadata.version less than {first}"
    if level >= current or is_safe_downgrade(current, level):
        return None
    said = f"Unsupported metadata.version downgrade from {current} to {level}." if newer else None
    said = said or f"Invalid metadata.version {level}."
    if wanted == UpgradeType.UNSAFE_DOWNGRADE:
        return f"{said} Unsafe metadata downgrade is not supported in this version."
    return f"{said} Refusing to perform the requested downgrade because it might delete metadata information."


def _judge_kraft_version(registry: Registry, level: int, wanted: int, draft: _Draft) -> str | None:
    current = registry.level(KRAFT_VERSION)
    if wanted != UpgradeType.UPGRADE:
        refused = f"Invalid update version {level} for feature {KRAFT_VERSION}. "
        return None if level == current else f"{refused}Can't downgrade the version of this feature."
    if level != current:
        draft.kraft_version = level
    return None


def _unmet(feature: str, level: int, proposed: Mapping[str, int]) -> str | None:
    """Say which level of another feature is missing, going by what this same request sets too."""
    if feature not in features():
        return f"Feature {feature} not found."
    known = feature_level(feature, level)
    for other, least in known.depends_on.items() if known else ():
        if proposed.get(other, 0) < least:
            return f"{feature} could not be set to {level} because it depends on {other} level {least}"
    return None


def _refused(message: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=_INVALID_UPDATE_VERSION, error_message=message)


def _all_done(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    results = tuple(FeatureResult(feature=update.feature, error_message="NONE") for update in request.updates)
    return UpdateFeaturesResponse(results=results if version <= _WITH_RESULTS else ())


def _one_by_one(errors: Mapping[str, str | None]) -> UpdateFeaturesResponse:
    results = tuple(
        FeatureResult(feature=feature, error_code=_INVALID_UPDATE_VERSION if problem else 0, error_message=problem)
        for feature, problem in sorted(errors.items())
    )
    return UpdateFeaturesResponse(error_message="", results=results)
