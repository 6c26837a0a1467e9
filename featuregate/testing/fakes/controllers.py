"""The controllers of a fake cluster: which one is active, and its answer to UpdateFeatures. Pure.

The rules are those of :mod:`featuregate.admin.kraft_rules`, by which a plan predicts the answer. Sources:
``FeatureControlManager.updateFeatures``, ``QuorumController.updateFeatures``,
``LeaderState.maybeAppendUpgradedKRaftVersion`` and ``ClusterControlManager.registerBroker`` of Apache Kafka 3.3.2 to
4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from featuregate.admin.kraft_rules import (
    ALL_OR_NOTHING_FROM,
    QUORUM_RAISES_KRAFT_VERSION_FROM,
    REGISTRATIONS_FROM,
    Controller,
    NodeLevels,
    RequestedUpdate,
    counts_kraft_version_as_0,
    rule_problems,
)
from featuregate.catalog import KRAFT_VERSION
from featuregate.kafka_errors import NOT_CONTROLLER
from featuregate.wire.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

if TYPE_CHECKING:
    from featuregate.testing.fakes.broker import FakeBroker

INVALID_UPDATE_VERSION: Final = 95
_WITH_RESULTS: Final = 1
_DISABLED: Final = (0, 0)
_FOR_ALL: Final = "The update failed for all features since the following feature had an error: "


def elected(voters: Collection[FakeBroker], active: int | None, *, combined: bool) -> int | None:
    """Return the active controller; ``None`` without a quorum. One that is active stays so while it is alive.

    Brokers of a cluster that shows no controllers (``combined``) represent controllers that cannot be reached, and need
    no majority.
    """
    alive = [voter.node_id for voter in voters if voter.alive]
    if not alive or (2 * len(alive) <= len(voters) and not combined):
        return None
    return active if active in alive else alive[0]


def rules_controller(
    active: FakeBroker, brokers: Iterable[FakeBroker], controllers: Collection[FakeBroker], levels: Mapping[str, int]
) -> Controller:
    """Return the active controller in the form that the rules read. Before 3.7 it counts running controllers only."""
    others = [node for node in controllers if node.node_id != active.node_id]
    if active.release < REGISTRATIONS_FROM:
        others = [node for node in others if node.alive]
    if counts_kraft_version_as_0(active.release):
        levels = {**levels, KRAFT_VERSION: 0}
    return Controller(
        release=active.release,
        own=NodeLevels(active.node_id, active.supported),
        brokers=tuple(NodeLevels(node.node_id, node.supported) for node in brokers),
        controllers=tuple(NodeLevels(node.node_id, node.supported) for node in others),
        levels=levels,
    )


def not_controller(active: int | None) -> UpdateFeaturesResponse:
    """Return the answer of a controller that is not the active one."""
    text = "No controller appears to be active."
    if active is not None:
        text = f"The active controller appears to be node {active}."
    return UpdateFeaturesResponse(error_code=NOT_CONTROLLER, error_message=text)


def answer_update(
    controller: Controller, voters: Iterable[FakeBroker], request: UpdateFeaturesRequest, version: int
) -> tuple[UpdateFeaturesResponse, Mapping[str, int]]:
    """Answer a request of this version at the active controller. The last update of a feature counts.

    Returns the levels that change, too: none after a dry run or a refusal.
    """
    updates = {update.feature: update for update in request.updates}
    proposed = {**(controller.levels or {}), **{name: one.max_version_level for name, one in updates.items()}}
    all_or_nothing = controller.release >= ALL_OR_NOTHING_FROM
    ranges = [voter.supported.get(KRAFT_VERSION, _DISABLED) for voter in voters]
    written, errors = dict[str, int](), dict[str, str | None]()
    for feature in in_map_order(updates):
        wanted = RequestedUpdate(feature, updates[feature].max_version_level, _type_of(updates[feature], version))
        errors[feature] = problem = _refusal(controller, ranges, wanted, proposed)
        if problem is not None and all_or_nothing:
            # The quorum keeps the level that it has raised, although the controller refuses the request (seen: 4.1.1,
            # 4.2.0).
            kept = {name: level for name, level in written.items() if _belongs_to_quorum(controller, name)}
            refused = UpdateFeaturesResponse(error_code=INVALID_UPDATE_VERSION, error_message=_FOR_ALL + problem)
            return refused, {} if request.validate_only else kept
        if problem is None and not (feature == KRAFT_VERSION and counts_kraft_version_as_0(controller.release)):
            written[feature] = wanted.level
    response = _succeeded(request, version) if all_or_nothing else _results(errors)
    return response, {} if request.validate_only else written


def _refusal(
    controller: Controller, voters: list[tuple[int, int]], wanted: RequestedUpdate, proposed: Mapping[str, int]
) -> str | None:
    """Return why the controller refuses an update, in its own words. For ``kraft.version``, ask the quorum too."""
    found = rule_problems(wanted, controller, proposed)
    refused = next((problem.text for problem in found if problem.judgement == "refused"), None)
    raises = _belongs_to_quorum(controller, wanted.feature) and wanted.level != controller.level(KRAFT_VERSION)
    if refused is None and raises and not all(lowest <= wanted.level <= highest for lowest, highest in voters):
        return f"Invalid upgrade of {KRAFT_VERSION} to {wanted.level} because not all of the voters support it"
    return refused


def _belongs_to_quorum(controller: Controller, feature: str) -> bool:
    return feature == KRAFT_VERSION and controller.release >= QUORUM_RAISES_KRAFT_VERSION_FROM


def _type_of(update: FeatureUpdate, version: int) -> str:
    # For v0, controllers read the upgrade type too, which v0 lacks, and so find its default.
    code = update.upgrade_type if version else UpgradeType.UPGRADE
    return UpgradeType(code).name.lower() if code in tuple(UpgradeType) else "unknown"


def _succeeded(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    results = tuple(FeatureResult(feature=update.feature, error_message="NONE") for update in request.updates)
    return UpdateFeaturesResponse(results=results if version <= _WITH_RESULTS else ())


def _results(errors: Mapping[str, str | None]) -> UpdateFeaturesResponse:
    results = tuple(
        FeatureResult(feature=feature, error_code=INVALID_UPDATE_VERSION if problem else 0, error_message=problem)
        for feature, problem in sorted(errors.items())
    )
    return UpdateFeaturesResponse(error_message="", results=results)


_BUCKETS: Final = 16
_LOAD: Final = 0.75


def in_map_order(names: Iterable[str]) -> list[str]:
    """Sort distinct names as a ``java.util.HashMap`` lists them after they were inserted in this order.

    A controller of Kafka 4.0 or newer keeps the updates of a request in such a map, and refuses the request because of
    the first update that fails. So the order decides which of several errors the controller reports.

    Source: ``String.hashCode`` and ``HashMap.hash`` of the Java class library. Buckets of eight names or more have
    another order; no request has that number of features.
    """
    distinct = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(distinct) > buckets * _LOAD:
        buckets *= 2
    return sorted(distinct, key=lambda name: _hash_code(name) & (buckets - 1))


def _hash_code(text: str) -> int:
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code ^ (code >> 16)
