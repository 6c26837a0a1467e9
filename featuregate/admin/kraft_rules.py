"""How a KRaft controller judges an update of one feature: its rules, in its order and words. Pure.

Both sides ask these rules: :mod:`featuregate.admin.prediction` about a cluster that was looked at, and the fake cluster
of :mod:`featuregate.testing` about itself. Real controllers of 3.3.2, 3.9.2, 4.0.0, 4.1.1, 4.2.0 and
4.3.1 were asked the same updates.

Source: ``FeatureControlManager.updateFeature``, ``QuorumFeatures.reasonNotSupported`` (``org.apache.kafka.controller``)
and ``Feature.validateVersion`` (``org.apache.kafka.server.common``) of Apache Kafka 3.3.2 to 4.3.1; KIP-584, KIP-778,
KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from featuregate.catalog import (
    KRAFT_VERSION,
    METADATA_VERSION,
    feature_level,
    features,
    is_safe_downgrade,
    level_name,
    metadata_levels,
)
from featuregate.view.releases import ReleaseNumber, release_of_level

CONTROLLERS_REGISTER_FROM: Final = 15
"""``metadata.version`` 3.7-IV0 (KIP-919): from there on controllers register what they support."""

REGISTRATIONS_FROM: Final = (3, 7)
"""Before, a controller asked the controllers that it was connected to, and had other words."""
ALL_OR_NOTHING_FROM: Final = (4, 0)
"""Before, each update stood by itself, and no level depended on another one."""
QUORUM_RAISES_KRAFT_VERSION_FROM: Final = (4, 1)
"""Before, ``kraft.version`` was a feature like others, whose record the quorum did not go by (KAFKA-18979)."""
_DOWNGRADE_NAMES_BOTH_FROM: Final = (4, 2)
RULES_CHANGED_IN: Final = (
    (3, 3),
    REGISTRATIONS_FROM,
    ALL_OR_NOTHING_FROM,
    QUORUM_RAISES_KRAFT_VERSION_FROM,
    _DOWNGRADE_NAMES_BOTH_FROM,
)
"""The releases whose controllers judge by other rules than those before, or in other words."""

_FIRST_WITH_FEATURE_RECORDS: Final = 4
"""``metadata.version`` 3.3-IV0, the lowest that controllers before 4.0 set."""
LOWEST_FOR_FEATURES: Final = 7
"""``metadata.version`` 3.3-IV3, which 4.0 and newer ask for before any other feature."""
_FEATURES_CAME_WITH: Final[Mapping[str, ReleaseNumber]] = {"share.version": (4, 1), "streams.version": (4, 1)}
"""The features that controllers of 4.0 do not know."""
_NEEDS_OF_4_0: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {(KRAFT_VERSION, 1): {METADATA_VERSION: 21}}
"""What levels depended on in 4.0 alone."""
_DISABLED: Final = (0, 0)
_UPGRADE_TYPES: Final = ("upgrade", "safe_downgrade", "unsafe_downgrade")


class RequestedUpdate(NamedTuple):
    """One update, as a controller reads it."""

    feature: str
    level: int
    upgrade_type: str
    """``upgrade``, ``safe_downgrade`` or ``unsafe_downgrade``; anything else is a type that no controller knows."""


class NodeLevels(NamedTuple):
    """The levels that one node supports."""

    node_id: int | None
    supported: Mapping[str, tuple[int, int]] | None
    """Feature to the lowest and highest level. None: unknown, for the reason in ``unknown_because``."""
    unknown_because: str = ""
    """Why a feature that is missing in ``supported`` may be supported all the same; empty where it is not."""


class RuleProblem(NamedTuple):
    """What one rule says against an update."""

    judgement: Literal["refused", "unknown"]
    text: str
    """The controller's words, or why it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """What an active controller goes by."""

    release: ReleaseNumber
    """The release of the controller's build, such as ``(4, 2)``. It chooses the rules."""
    own: NodeLevels | None
    """What it can run itself; None where it was not asked."""
    brokers: tuple[NodeLevels, ...]
    """The registered brokers, fenced ones too, by node id."""
    controllers: tuple[NodeLevels, ...] = ()
    """The other controllers: registered ones, and before 3.7 those that it is connected to."""
    voters: frozenset[int] | None = None
    """The ids of the voters of the quorum; None: unknown."""
    levels: Mapping[str, int] | None
    """Feature to finalized level, as the controller counts it; an absent feature is at 0. None: unknown."""

    def level(self, feature: str) -> int | None:
        """Return the finalized level of a feature; None: unknown."""
        return None if self.levels is None else self.levels.get(feature, 0)


def rule_problems(
    wanted: RequestedUpdate, controller: Controller, proposed: Mapping[str, int]
) -> Iterator[RuleProblem]:
    """Yield what the rules say against an update, in the order in which the controller applies them.

    The controller stops at the first that refuses. ``proposed`` holds the levels as they would be if everything in the
    request was done.
    """
    yield from _well_formed(wanted)
    yield from _supported(wanted, controller)
    yield from _direction(wanted, controller)
    if wanted.feature == METADATA_VERSION:
        yield from _metadata_version(wanted, controller)
    elif wanted.feature == KRAFT_VERSION and controller.release >= QUORUM_RAISES_KRAFT_VERSION_FROM:
        yield from _kraft_version(wanted, controller)
    elif controller.release >= ALL_OR_NOTHING_FROM:
        yield from _dependencies(wanted, controller, proposed)


def counts_kraft_version_as_0(release: ReleaseNumber) -> bool:
    """Say whether controllers of a release count ``kraft.version`` as 0, whatever they wrote and the quorum runs at.

    Those of 4.0 write a record when they are asked to, and skip it when they read it (seen: 4.0.0).
    """
    return ALL_OR_NOTHING_FROM <= release < QUORUM_RAISES_KRAFT_VERSION_FROM


def _refused(wanted: RequestedUpdate, why: str) -> RuleProblem:
    return RuleProblem("refused", f"Invalid update version {wanted.level} for feature {wanted.feature}. {why}")


def _well_formed(wanted: RequestedUpdate) -> Iterator[RuleProblem]:
    if wanted.upgrade_type not in _UPGRADE_TYPES:
        yield _refused(wanted, "The controller does not support the given upgrade type.")
    if wanted.level < 0:
        yield _refused(wanted, "A feature version cannot be less than 0.")


def _supported(wanted: RequestedUpdate, controller: Controller) -> Iterator[RuleProblem]:
    """Ask the controller's own range, then every registered broker's, then the other controllers'."""
    if controller.own is not None:
        yield from _in_range(wanted, controller.own, "Local controller")
    if controller.release < REGISTRATIONS_FROM:
        for node in controller.controllers:
            yield from _in_range(wanted, node, "Controller")
        for node in controller.brokers:
            yield from _in_range_before_3_7(wanted, node)
        return
    for node in controller.brokers:
        yield from _in_range(wanted, node, "Broker")
    if (controller.level(METADATA_VERSION) or 0) >= CONTROLLERS_REGISTER_FROM:
        for node in controller.controllers:
            yield from _in_range(wanted, node, "Controller")


def _in_range(wanted: RequestedUpdate, node: NodeLevels, role: str) -> Iterator[RuleProblem]:
    if node.supported is None:
        yield RuleProblem("unknown", node.unknown_because)
        return
    lowest, highest = node.supported.get(wanted.feature, _DISABLED)
    if lowest <= wanted.level <= highest:
        return
    if highest == 0 and node.unknown_because:
        yield RuleProblem("unknown", node.unknown_because)
    elif highest == 0:
        yield _refused(wanted, f"{role} {node.node_id} does not support this feature.")
    else:
        span = str(lowest) if lowest == highest else f"{lowest}-{highest}"
        yield _refused(wanted, f"{role} {node.node_id} only supports versions {span}")


def _in_range_before_3_7(wanted: RequestedUpdate, node: NodeLevels) -> Iterator[RuleProblem]:
    """Look into one broker's ranges, where a feature that it lacks is refused even at level 0."""
    found = None if node.supported is None else node.supported.get(wanted.feature)
    if found is None and node.unknown_because:
        yield RuleProblem("unknown", node.unknown_because)
    elif found is None:
        yield _refused(wanted, f"Broker {node.node_id} does not support this feature.")
    elif not found[0] <= wanted.level <= found[1]:
        span = f"{found[0]} to {found[1]}"
        yield _refused(wanted, f"Broker {node.node_id} does not support the given version. It supports {span}.")


def _direction(wanted: RequestedUpdate, controller: Controller) -> Iterator[RuleProblem]:
    current = controller.level(wanted.feature)
    if current is None:
        yield RuleProblem("unknown", "no node reports finalized levels")
    elif wanted.level < current and wanted.upgrade_type == "upgrade":
        yield _refused(
            wanted,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    elif wanted.level > current and wanted.upgrade_type != "upgrade":
        yield _refused(wanted, "Can't downgrade to a newer version.")


def _metadata_version(wanted: RequestedUpdate, controller: Controller) -> Iterator[RuleProblem]:
    """Refuse a downgrade across a level that changed records (KIP-778); it is refused as unsafe, too (KAFKA-13896)."""
    if wanted.level < _FIRST_WITH_FEATURE_RECORDS and controller.release < ALL_OR_NOTHING_FROM:
        lowest = level_name(METADATA_VERSION, _FIRST_WITH_FEATURE_RECORDS)
        text = f"Invalid metadata.version {wanted.level}. Unable to set a metadata.version less than {lowest}"
        yield RuleProblem("refused", text)
    current = controller.level(METADATA_VERSION)
    if current is None or wanted.level >= current:
        return
    safe = is_safe_downgrade(current, wanted.level)
    if safe is None:
        newest = level_name(METADATA_VERSION, max(metadata_levels()))
        yield RuleProblem("unknown", f"a level on the way is newer than this featuregate knows (up to {newest})")
    elif not safe:
        yield RuleProblem("refused", _why_unsafe(wanted, controller.release, current))


def _why_unsafe(wanted: RequestedUpdate, release: ReleaseNumber, current: int) -> str:
    head = f"Invalid metadata.version {wanted.level}."
    if release >= _DOWNGRADE_NAMES_BOTH_FROM:
        head = f"Unsupported metadata.version downgrade from {current} to {wanted.level}."
    if wanted.upgrade_type == "unsafe_downgrade":
        return f"{head} Unsafe metadata downgrade is not supported in this version."
    text = f"{head} Refusing to perform the requested downgrade because it might delete metadata information."
    if release < REGISTRATIONS_FROM:
        return f"{text} Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed."
    return text


def _kraft_version(wanted: RequestedUpdate, controller: Controller) -> Iterator[RuleProblem]:
    """Let the quorum itself raise its version, which never goes down."""
    current = controller.level(KRAFT_VERSION)
    if current in {None, wanted.level}:
        return
    if wanted.upgrade_type != "upgrade":
        yield _refused(wanted, "Can't downgrade the version of this feature.")
    elif not _every_voter_supports(wanted, controller):
        yield RuleProblem("unknown", "only the leader of the quorum knows whether every voter supports it")


def _every_voter_supports(wanted: RequestedUpdate, controller: Controller) -> bool:
    """Say whether each voter answered that it supports a ``kraft.version``, and is of a release that tells the leader.

    Followers tell it from 4.1 on, also while the quorum is static (KAFKA-16538); the leader refuses until all have.
    """
    nodes = {node.node_id: node.supported or {} for node in controller.controllers}
    if controller.own is not None:
        nodes[controller.own.node_id] = controller.own.supported or {}
    voting = [nodes.get(voter, {}) for voter in controller.voters or ()]
    return bool(voting) and all(
        lowest <= wanted.level <= highest
        and release_of_level(supported.get(METADATA_VERSION, _DISABLED)[1]) >= QUORUM_RAISES_KRAFT_VERSION_FROM
        for supported in voting
        for lowest, highest in [supported.get(KRAFT_VERSION, _DISABLED)]
    )


def _dependencies(
    wanted: RequestedUpdate, controller: Controller, proposed: Mapping[str, int]
) -> Iterator[RuleProblem]:
    """Ask for what a level needs (KIP-1022)."""
    feature, level = wanted.feature, wanted.level
    if not _has_heard_of(feature, controller):
        yield _refused(wanted, f"Feature {feature} not found.")
        return
    known = feature_level(feature, level)
    if known is None:
        text = f"{feature} {level} is newer than this featuregate knows, and so is what it depends on"
        yield RuleProblem("unknown", text)
        return
    if controller.levels is None:
        return
    unmet = f"{feature} could not be set to {level} because it depends on"
    if level >= 1 and proposed.get(METADATA_VERSION, 0) < LOWEST_FOR_FEATURES:
        yield _refused(wanted, f"{unmet} metadata.version=7 (3.3-IV3)")
    needs = known.depends_on
    if controller.release < QUORUM_RAISES_KRAFT_VERSION_FROM:
        needs = {**needs, **_NEEDS_OF_4_0.get((feature, level), {})}
    for other, needed in needs.items():
        if proposed.get(other, 0) < needed:
            yield _refused(wanted, f"{unmet} {other} level {needed}")


def _has_heard_of(feature: str, controller: Controller) -> bool:
    if controller.own is not None and feature in (controller.own.supported or {}):
        return True
    return feature in features() and controller.release >= _FEATURES_CAME_WITH.get(feature, ALL_OR_NOTHING_FROM)
