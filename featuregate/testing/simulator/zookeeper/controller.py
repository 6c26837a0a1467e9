"""A ZooKeeper controller's answers to UpdateFeatures (KIP-584): see :mod:`featuregate.admin.zookeeper_rules`.

Source: ``KafkaApis.handleUpdateFeatures`` and ``KafkaController.processFeatureUpdates`` of Apache Kafka 2.8.2. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.update_rules import NodeLevels, RequestedUpdate
from featuregate.admin.zookeeper_rules import ZooKeeperController, rule_problems
from featuregate.kafka_errors import INVALID_REQUEST
from featuregate.wire.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

if TYPE_CHECKING:
    from featuregate.testing.simulator.zookeeper.cluster import ZooKeeperCluster

    Range = tuple[int, int]

_NOT_CONTROLLER: Final = 41
_FEATURE_UPDATE_FAILED: Final = 96

WRONG_CONTROLLER: Final = UpdateFeaturesResponse(
    error_code=_NOT_CONTROLLER, error_message="This is not the correct controller for this cluster."
)
DISABLED: Final = UpdateFeaturesResponse(
    error_code=INVALID_REQUEST, error_message="Feature versioning system is disabled."
)


class ZooKeeperAnswer(NamedTuple):
    """The answer to a request, and the levels that ``/features`` should hold afterwards."""

    response: UpdateFeaturesResponse
    levels: Mapping[str, Range]


def answer_update(cluster: ZooKeeperCluster, request: UpdateFeaturesRequest) -> ZooKeeperAnswer:
    """Answer a request at the controller, update by update: it may make some updates and refuse others.

    ``allowDowngrade`` of v0 is read as :attr:`UpgradeType.SAFE_DOWNGRADE`.
    """
    assert cluster.controller_id is not None
    own, existing = cluster.build(cluster.controller_id).supported, cluster.cached_levels(cluster.controller_id)
    brokers = tuple(NodeLevels(None, cluster.advertised[broker]) for broker in cluster.listed_brokers)
    controller = ZooKeeperController(own=NodeLevels(None, own), brokers=brokers, levels=existing)
    levels, results = dict(existing), []
    for update in request.updates:
        made = _answer_one(update, own, controller)
        if isinstance(made, str):
            results.append(FeatureResult(feature=update.feature, error_code=INVALID_REQUEST, error_message=made))
            continue
        results.append(FeatureResult(feature=update.feature, error_message="NONE"))
        if made is None:
            del levels[update.feature]
        else:
            levels[update.feature] = made
    return ZooKeeperAnswer(UpdateFeaturesResponse(results=tuple(results)), levels)


def as_failed(response: UpdateFeaturesResponse) -> UpdateFeaturesResponse:
    """Report every accepted update as failed: the controller did not read its own change."""
    text = "Unable to update finalized features due to an unexpected server error."
    results = tuple(
        FeatureResult(feature=result.feature, error_code=_FEATURE_UPDATE_FAILED, error_message=text)
        if not result.error_code
        else result
        for result in response.results
    )
    return UpdateFeaturesResponse(results=results)


def _answer_one(update: FeatureUpdate, own: Mapping[str, Range], controller: ZooKeeperController) -> Range | str | None:
    """Return the new range, ``None`` for a deletion, or a text that says why the update is refused."""
    level = update.max_version_level
    kind = "upgrade" if update.upgrade_type == UpgradeType.UPGRADE else "safe_downgrade"
    for problem in rule_problems(RequestedUpdate(update.feature, level, kind), controller):
        return problem.text
    return (own[update.feature][0], level) if level >= 1 else None
