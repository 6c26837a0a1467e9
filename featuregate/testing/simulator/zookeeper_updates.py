"""How a controller with ZooKeeper judges UpdateFeatures (KIP-584, "Validations"), in the order and words of Kafka 2.8.

Sources: ``KafkaApis.handleUpdateFeatures`` and ``KafkaController.validateFeatureUpdate`` of Apache Kafka 2.8.2. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.kafka_errors import INVALID_REQUEST
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse, UpgradeType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from featuregate.wire.update_features import FeatureUpdate

    Range = tuple[int, int]

__all__ = ["DISABLED", "WRONG_CONTROLLER", "Judged", "failed", "judge"]

_NOT_CONTROLLER: Final = 41
_FEATURE_UPDATE_FAILED: Final = 96
_CANNOT: Final = "Could not apply finalized feature update because"

WRONG_CONTROLLER: Final = UpdateFeaturesResponse(
    error_code=_NOT_CONTROLLER, error_message="This is not the correct controller for this cluster."
)
DISABLED: Final = UpdateFeaturesResponse(
    error_code=INVALID_REQUEST, error_message="Feature versioning system is disabled."
)


class Judged(NamedTuple):
    """The answer to a request, and what ``/features`` should hold then."""

    response: UpdateFeaturesResponse
    levels: Mapping[str, Range]


def judge(
    request: UpdateFeaturesRequest,
    *,
    existing: Mapping[str, Range],
    own: Mapping[str, Range],
    brokers: Iterable[Mapping[str, Range]],
) -> Judged:
    """Judge a request, update by update: some may be made while others are not.

    Parameters
    ----------
    request
        With ``allowDowngrade`` read as :attr:`UpgradeType.SAFE_DOWNGRADE`.
    existing
        What is finalized, as the controller has read it.
    own
        What the controller itself supports.
    brokers
        What each broker that it knows supports, itself included.
    """
    levels, results, said = dict(existing), [], list(brokers)
    for update in request.updates:
        made = _judge_one(update, existing.get(update.feature), own.get(update.feature), said)
        if isinstance(made, str):
            results.append(FeatureResult(feature=update.feature, error_code=INVALID_REQUEST, error_message=made))
            continue
        results.append(FeatureResult(feature=update.feature, error_message="NONE"))
        if made is None:
            del levels[update.feature]
        else:
            levels[update.feature] = made
    return Judged(UpdateFeaturesResponse(results=tuple(results)), levels)


def failed(response: UpdateFeaturesResponse) -> UpdateFeaturesResponse:
    """Say of all that would have been made that it failed: the controller did not read back what it wrote."""
    text = "Unable to update finalized features due to an unexpected server error."
    results = tuple(
        FeatureResult(feature=result.feature, error_code=_FEATURE_UPDATE_FAILED, error_message=text)
        if not result.error_code
        else result
        for result in response.results
    )
    return UpdateFeaturesResponse(results=results)


def _judge_one(
    update: FeatureUpdate, existing: Range | None, own: Range | None, brokers: list[Mapping[str, Range]]
) -> Range | str | None:
    """Return the new range, ``None`` for a deletion, or what is wrong."""
    level, allowed = update.max_version_level, update.upgrade_type != UpgradeType.UPGRADE
    if not update.feature:
        return "Feature name can not be empty."
    if level < 1 and allowed:
        return None if existing is not None else "Can not delete non-existing finalized feature."
    if level < 1:
        return (
            f"Can not provide maxVersionLevel: {level} less than 1 without setting the allowDowngrade flag to true in "
            "the request."
        )
    if existing is not None and (problem := _wrong_move(level, existing, allowed=allowed)) is not None:
        return problem
    return _supported(update.feature, level, own, brokers)


def _wrong_move(level: int, existing: Range, *, allowed: bool) -> str | None:
    lowest, current = existing
    if level == current:
        verb = "downgrade" if allowed else "upgrade"
        return f"Can not {verb} a finalized feature from existing maxVersionLevel:{current} to the same value."
    if level < current and not allowed:
        return (
            f"Can not downgrade finalized feature from existing maxVersionLevel:{current} to provided "
            f"maxVersionLevel:{level} without setting the allowDowngrade flag in the request."
        )
    if level > current and allowed:
        return (
            f"When the allowDowngrade flag set in the request, the provided maxVersionLevel:{level} can not be greater "
            f"than existing maxVersionLevel:{current}."
        )
    if level < lowest:
        return (
            f"Can not downgrade finalized feature to maxVersionLevel:{level} because it's lower than the existing "
            f"minVersionLevel:{lowest}."
        )
    return None


def _supported(feature: str, level: int, own: Range | None, brokers: list[Mapping[str, Range]]) -> Range | str:
    if own is None:
        return f"{_CANNOT} the provided feature is not supported."
    if level < own[0]:
        return f"{_CANNOT} the provided maxVersionLevel:{level} is lower than the supported minVersion:{own[0]}."
    for supported in brokers:
        lowest, highest = supported.get(feature, (0, -1))
        if not lowest <= level <= highest:
            return f"{_CANNOT} brokers were found to have incompatible versions for the feature."
    return own[0], level
