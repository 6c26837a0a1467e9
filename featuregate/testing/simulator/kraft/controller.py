"""A KRaft controller's answers to UpdateFeatures (KIP-778, KIP-1022): see :mod:`featuregate.admin.kraft_rules`.

Sources: ``FeatureControlManager.updateFeatures``, ``QuorumController.updateFeatures`` and
``LeaderState.maybeAppendUpgradedKRaftVersion`` of Apache Kafka 3.3.2 to 4.3.1. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.kraft_rules import (
    ALL_OR_NOTHING_FROM,
    QUORUM_RAISES_KRAFT_VERSION_FROM,
    Controller,
    Node,
    Wanted,
    counts_kraft_version_as_0,
    objections,
)
from featuregate.catalog import KRAFT_VERSION
from featuregate.testing.simulator.kraft.java_maps import in_map_order
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse, UpgradeType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.testing.simulator.builds import Binary
    from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest

    Ranges = Mapping[int, Mapping[str, tuple[int, int]]]

__all__ = ["Judged", "Registry", "judge"]

_REGISTRATIONS_FROM: Final = (3, 7)
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
    brokers: Ranges
    """Registered brokers, fenced ones too, to what each said that it supports."""
    controllers: Ranges
    """The same of registered controllers."""
    connected: Ranges
    """The same of the other voters that the controller is connected to."""
    levels: Mapping[str, int]
    """Finalized, as the metadata log holds them."""
    kraft_version: int
    """The level that the quorum itself runs at, which no metadata record holds."""

    @property
    def controller(self) -> Controller:
        """Put it as the rules ask for it."""
        release = self.binary.numbers
        registers = release >= _REGISTRATIONS_FROM
        levels = self.levels
        if release >= ALL_OR_NOTHING_FROM:
            believed = 0 if counts_kraft_version_as_0(release) else self.kraft_version
            levels = {**levels, KRAFT_VERSION: believed}
        others = self.controllers if registers else self.connected
        missing = set(self.voters) - {self.node_id, *others} if registers else ()
        return Controller(
            release=release,
            own=Node(self.node_id, self.binary.supported),
            brokers=_nodes(self.brokers),
            controllers=tuple(node for node in _nodes(others) if node.node_id != self.node_id),
            unregistered=tuple(sorted(missing)),
            levels=levels,
        )


def _nodes(ranges: Ranges) -> tuple[Node, ...]:
    return tuple(Node(node_id, supported) for node_id, supported in sorted(ranges.items()))


class Judged(NamedTuple):
    """The answer to a request, and what is written to the metadata log for it."""

    response: UpdateFeaturesResponse
    records: Mapping[str, int]
    """Feature to level, in order; empty for a dry run and for what is refused."""
    kraft_version: int | None
    """What the quorum itself moves to."""


def judge(registry: Registry, request: UpdateFeaturesRequest, version: int) -> Judged:
    """Judge a request of this version. Of a feature that is named twice, the last update counts."""
    updates = {update.feature: update for update in request.updates}
    controller = registry.controller
    proposed = {**registry.levels, **{feature: update.max_version_level for feature, update in updates.items()}}
    at_once = controller.release >= ALL_OR_NOTHING_FROM
    records, errors, kraft_version = dict[str, int](), dict[str, str | None](), None
    for feature in in_map_order(updates):
        wanted = Wanted(feature, updates[feature].max_version_level, _type_of(updates[feature], version))
        errors[feature] = problem = _refusal(registry, controller, wanted, proposed)
        if problem is not None and at_once:
            # What the quorum has taken by then is not taken back, though all is refused (seen: 4.1.1, 4.2.0).
            return Judged(_refused(_FOR_ALL + problem), {}, None if request.validate_only else kraft_version)
        if problem is not None:
            continue
        if _raises_the_quorum(controller, wanted):
            kraft_version = wanted.level
        elif not _is_of_the_quorum(controller, feature):
            records[feature] = wanted.level
    response = _all_done(request, version) if at_once else _one_by_one(errors)
    return Judged(response, {}, None) if request.validate_only else Judged(response, records, kraft_version)


def _refusal(registry: Registry, controller: Controller, wanted: Wanted, proposed: Mapping[str, int]) -> str | None:
    """Return why an update is refused, in the controller's words; what only the quorum knows, it is asked itself."""
    said = objections(wanted, controller, proposed)
    refused = next((objection.text for objection in said if objection.judgement == "refused"), None)
    if refused is None and _raises_the_quorum(controller, wanted) and not _voters_support(registry, wanted.level):
        return f"Invalid upgrade of {KRAFT_VERSION} to {wanted.level} because not all of the voters support it"
    return refused


def _is_of_the_quorum(controller: Controller, feature: str) -> bool:
    return feature == KRAFT_VERSION and controller.release >= QUORUM_RAISES_KRAFT_VERSION_FROM


def _raises_the_quorum(controller: Controller, wanted: Wanted) -> bool:
    return _is_of_the_quorum(controller, wanted.feature) and wanted.level != controller.level(KRAFT_VERSION)


def _voters_support(registry: Registry, level: int) -> bool:
    """Say whether every voter told the leader that it can run a ``kraft.version``."""
    said = {**registry.controllers, **registry.connected, registry.node_id: registry.binary.supported}
    ranges = [said.get(voter, {}).get(KRAFT_VERSION, _DISABLED) for voter in registry.voters]
    return all(lowest <= level <= highest for lowest, highest in ranges)


def _type_of(update: FeatureUpdate, version: int) -> str:
    # Of v0 the controllers read the field that v0 has not, and find its default.
    code = update.upgrade_type if version else UpgradeType.UPGRADE
    return UpgradeType(code).name.lower() if code in tuple(UpgradeType) else "unknown"


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
