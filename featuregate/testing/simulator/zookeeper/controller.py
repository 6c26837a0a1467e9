"""A ZooKeeper controller's answers to UpdateFeatures (KIP-584): see :mod:`featuregate.admin.zookeeper_rules`.

Source: ``KafkaApis.handleUpdateFeatures`` and ``KafkaController.processFeatureUpdates`` of Apache Kafka 2.8.2. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.kraft_rules import Node, Wanted
from featuregate.admin.zookeeper_rules import ZooKeeperController, objections
from featuregate.kafka_errors import INVALID_REQUEST
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse, UpgradeType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from featuregate.wire.update_features import FeatureUpdate

    Range = tuple[int, int]

__all__ = ["DISABLED", "WRONG_CONTROLLER", "Judged", "failed", "judge"]

_NOT_CONTROLLER: Final = 41
_FEATURE_UPDATE_FAILED: Final = 96

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
    controller = ZooKeeperController(
        own=Node(None, own), brokers=tuple(Node(None, supported) for supported in brokers), levels=existing
    )
    levels, results = dict(existing), []
    for update in request.updates:
        made = _judge_one(update, own, controller)
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


def _judge_one(update: FeatureUpdate, own: Mapping[str, Range], controller: ZooKeeperController) -> Range | str | None:
    """Return the new range, ``None`` for a deletion, or what is wrong."""
    level = update.max_version_level
    kind = "upgrade" if update.upgrade_type == UpgradeType.UPGRADE else "safe_downgrade"
    for objection in objections(Wanted(update.feature, level, kind), controller):
        return objection.text
    return (own[update.feature][0], level) if level >= 1 else None
