"""A KRaft controller's answers to UpdateFeatures (KIP-778, KIP-1022): see :mod:`featuregate.admin.kraft_rules`.

Sources: ``FeatureControlManager.updateFeatures``, ``QuorumController.updateFeatures`` and
``LeaderState.maybeAppendUpgradedKRaftVersion`` of Apache Kafka 3.3.2 to 4.3.1. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.kraft_rules import (
    ALL_OR_NOTHING_FROM,
    QUORUM_RAISES_KRAFT_VERSION_FROM,
    Controller,
    counts_kraft_version_as_0,
    rule_problems,
)
from featuregate.admin.update_rules import NodeLevels, RequestedUpdate
from featuregate.catalog import KRAFT_VERSION
from featuregate.wire.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

if TYPE_CHECKING:
    from featuregate.testing.simulator.kraft.cluster import KRaftCluster

_REGISTRATIONS_FROM: Final = (3, 7)
_INVALID_UPDATE_VERSION: Final = 95
_WITH_RESULTS: Final = 1
_DISABLED: Final = (0, 0)
_FOR_ALL: Final = "The update failed for all features since the following feature had an error: "


class KRaftAnswer(NamedTuple):
    """The answer to a request, and what the controller writes to the metadata log."""

    response: UpdateFeaturesResponse
    records: Mapping[str, int]
    """Feature to level, in order; empty for a dry run and for a refused request."""
    kraft_version: int | None
    """The new level of the quorum; ``None`` where it does not change."""


def answer_update(cluster: KRaftCluster, request: UpdateFeaturesRequest, version: int) -> KRaftAnswer:
    """Answer a request of this version at the active controller. The last update of a feature counts."""
    updates = {update.feature: update for update in request.updates}
    assert cluster.active is not None
    controller = _rules_controller(cluster, cluster.active)
    requested = {feature: update.max_version_level for feature, update in updates.items()}
    proposed = {**cluster.history[-1].levels, **requested}
    all_or_nothing = controller.release >= ALL_OR_NOTHING_FROM
    records, errors, kraft_version = dict[str, int](), dict[str, str | None](), None
    for feature in in_map_order(updates):
        wanted = RequestedUpdate(feature, updates[feature].max_version_level, _type_of(updates[feature], version))
        errors[feature] = problem = _refusal(cluster, controller, wanted, proposed)
        if problem is not None and all_or_nothing:
            # The quorum keeps the level that it has raised, although the controller refuses the request (seen: 4.1.1,
            # 4.2.0).
            return KRaftAnswer(_refused(_FOR_ALL + problem), {}, None if request.validate_only else kraft_version)
        if problem is not None:
            continue
        if _raises_quorum(controller, wanted):
            kraft_version = wanted.level
        elif not _belongs_to_quorum(controller, feature):
            records[feature] = wanted.level
    response = _succeeded(request, version) if all_or_nothing else _results(errors)
    return KRaftAnswer(response, {}, None) if request.validate_only else KRaftAnswer(response, records, kraft_version)


def _rules_controller(cluster: KRaftCluster, active: int) -> Controller:
    """Return the active controller of a cluster, in the form that the rules read."""
    build, levels = cluster.build(active), cluster.history[-1].levels
    registers = build.numbers >= _REGISTRATIONS_FROM
    if build.numbers >= ALL_OR_NOTHING_FROM:
        level = 0 if counts_kraft_version_as_0(build.numbers) else cluster.kraft_version
        levels = {**levels, KRAFT_VERSION: level}
    others = cluster.controllers if registers else cluster.connected_voters
    return Controller(
        release=build.numbers,
        own=NodeLevels(active, build.supported),
        brokers=_nodes(cluster.registered),
        controllers=tuple(node for node in _nodes(others) if node.node_id != active),
        unregistered=tuple(sorted(set(cluster.voters) - {active, *others})) if registers else (),
        levels=levels,
    )


def _nodes(ranges: Mapping[int, Mapping[str, tuple[int, int]]]) -> tuple[NodeLevels, ...]:
    return tuple(NodeLevels(node_id, supported) for node_id, supported in sorted(ranges.items()))


def _refusal(
    cluster: KRaftCluster, controller: Controller, wanted: RequestedUpdate, proposed: Mapping[str, int]
) -> str | None:
    """Return why the controller refuses an update, in its own words. For ``kraft.version``, ask the quorum too."""
    found = rule_problems(wanted, controller, proposed)
    refused = next((problem.text for problem in found if problem.judgement == "refused"), None)
    if refused is None and _raises_quorum(controller, wanted) and not _voters_support(cluster, wanted.level):
        return f"Invalid upgrade of {KRAFT_VERSION} to {wanted.level} because not all of the voters support it"
    return refused


def _belongs_to_quorum(controller: Controller, feature: str) -> bool:
    return feature == KRAFT_VERSION and controller.release >= QUORUM_RAISES_KRAFT_VERSION_FROM


def _raises_quorum(controller: Controller, wanted: RequestedUpdate) -> bool:
    return _belongs_to_quorum(controller, wanted.feature) and wanted.level != controller.level(KRAFT_VERSION)


def _voters_support(cluster: KRaftCluster, level: int) -> bool:
    """Return whether every other voter reported to the leader that it supports a ``kraft.version``."""
    supported = {**cluster.controllers, **cluster.connected_voters}
    ranges = [
        supported.get(voter, {}).get(KRAFT_VERSION, _DISABLED) for voter in cluster.voters if voter != cluster.active
    ]
    return all(lowest <= level <= highest for lowest, highest in ranges)


def _type_of(update: FeatureUpdate, version: int) -> str:
    # For v0, controllers read the upgrade type too, which v0 lacks, and so find its default.
    code = update.upgrade_type if version else UpgradeType.UPGRADE
    return UpgradeType(code).name.lower() if code in tuple(UpgradeType) else "unknown"


def _refused(message: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=_INVALID_UPDATE_VERSION, error_message=message)


def _succeeded(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    results = tuple(FeatureResult(feature=update.feature, error_message="NONE") for update in request.updates)
    return UpdateFeaturesResponse(results=results if version <= _WITH_RESULTS else ())


def _results(errors: Mapping[str, str | None]) -> UpdateFeaturesResponse:
    results = tuple(
        FeatureResult(feature=feature, error_code=_INVALID_UPDATE_VERSION if problem else 0, error_message=problem)
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
    another order; no request has so many features.
    """
    distinct = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(distinct) > buckets * _LOAD:
        buckets *= 2
    return sorted(distinct, key=lambda name: _spread(_hash_code(name)) & (buckets - 1))


def _hash_code(text: str) -> int:
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code


def _spread(code: int) -> int:
    return code ^ (code >> 16)
