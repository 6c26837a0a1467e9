"""What a controller will say to an update of one feature, by its own rules and in its own words. Pure.

Source: ``FeatureControlManager.updateFeature`` and ``QuorumFeatures.reasonNotSupported`` of Apache Kafka 4.3.1 and
3.9.2 (``org.apache.kafka.controller``), ``Feature.validateVersion`` and ``MetadataVersion.checkIfMetadataChanged``
(``org.apache.kafka.server.common``); KIP-584, KIP-778 and KIP-1022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.catalog import (
    METADATA_VERSION,
    api_key,
    feature_level,
    features,
    is_safe_downgrade,
    level_name,
    metadata_levels,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from featuregate.answers import ApiRange, BrokerAnswer
    from featuregate.updates import Update
    from featuregate.view import View

__all__ = ["Foresight", "Judgement", "Standing", "foresee"]

Judgement = Literal["accepted", "refused", "unknown"]
"""``unknown``: what was seen does not decide it."""

_UPDATE_FEATURES: Final = api_key("UpdateFeatures")
_KRAFT_VERSION: Final = "kraft.version"
_ALL_OR_NOTHING_FROM: Final = 2
"""The version of UpdateFeatures by which a controller of 4.0 or newer is known."""
_UPGRADE_TYPE_FROM: Final = 1
_CONTROLLERS_REGISTER_FROM: Final = 15
"""``metadata.version`` 3.7-IV0 (KIP-919): from there on controllers tell each other what they support."""
_FEATURES_FROM: Final = 7
"""``metadata.version`` 3.3-IV3, which 4.0 and newer ask for before any other feature."""
_LOWEST_UNTIL_39: Final = 4
"""``metadata.version`` 3.3-IV0, the first with records for features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of a cluster before an update."""

    finalized: Mapping[str, int] | None
    """Feature to level; what is absent is 0. None: nobody told."""
    brokers: tuple[BrokerAnswer, ...]
    """The registered brokers, silent ones too; empty where none was asked."""
    controllers: tuple[BrokerAnswer, ...] = ()
    """The controllers; empty where none was asked."""
    leader: int | None = None
    """The node id of the active controller."""
    speaks: ApiRange | None = None
    """Versions of UpdateFeatures; None where it is not served. Brokers advertise what their controller serves, too."""

    @classmethod
    def of(cls, brokers: View | None, controllers: View | None) -> Standing:
        """Put together what brokers and controllers said; either may not have been asked."""
        told = [view for view in (controllers, brokers) if view is not None]
        epoch = [view for view in told if view.epoch >= 0]
        return cls(
            finalized=epoch[0].finalized if epoch else None,
            brokers=brokers.brokers if brokers else (),
            controllers=controllers.brokers if controllers else (),
            leader=controllers.controller_id if controllers else None,
            speaks=next((view.api_ranges.get(_UPDATE_FEATURES) for view in reversed(told)), None),
        )

    @property
    def active(self) -> BrokerAnswer | None:
        """What the active controller said; None where it was not asked."""
        return next((node for node in self.controllers if node.node_id == self.leader), None)

    @property
    def all_or_nothing(self) -> bool:
        """Whether the controller changes all levels or none (4.0 and newer), rather than each by itself.

        It is known by the versions that it serves. In the middle of a roll brokers show no more than they know.
        """
        own = self.active.api_ranges.get(_UPDATE_FEATURES) if self.active else None
        served = own or self.speaks
        return served is not None and served.max >= _ALL_OR_NOTHING_FROM

    def level(self, feature: str) -> int | None:
        """Return the finalized level of a feature; None where nobody told."""
        return None if self.finalized is None else self.finalized.get(feature, 0)


class Foresight(NamedTuple):
    """What the controller will say to one update."""

    update: Update
    current: int | None
    """The level now; None where nobody told."""
    judgement: Judgement
    text: str
    """The controller's words where it refuses; why that is unknown where it is; empty where it accepts."""


class _Says(NamedTuple):
    judgement: Judgement
    text: str


def foresee(updates: Iterable[Update], standing: Standing) -> tuple[Foresight, ...]:
    """Judge each update in the light of the others: a dependency may be met by one that is sent along.

    Rules are tried in the controller's order. The first that refuses gives the words; one that cannot be decided
    leaves it unknown unless a later one refuses.
    """
    wanted = tuple(updates)
    proposed = {**(standing.finalized or {}), **{update.feature: update.level for update in wanted}}
    return tuple(_foresee(update, standing, proposed) for update in wanted)


def _foresee(update: Update, standing: Standing, proposed: Mapping[str, int]) -> Foresight:
    said = [says for rule in _RULES for says in rule(update, standing, proposed)]
    refused = [says for says in said if says.judgement == "refused"]
    judgement, text = (refused or said or [_Says("accepted", "")])[0]
    return Foresight(update, standing.level(update.feature), judgement, text)


def _spoken(update: Update, standing: Standing, _: Mapping[str, int]) -> Iterator[_Says]:
    """Rule out what cannot be asked at all."""
    if standing.speaks is None and not any(node.answered for node in (*standing.brokers, *standing.controllers)):
        yield _Says("unknown", "no node has answered, so nobody knows what the controller supports")
    elif standing.speaks is None:
        yield _Says("refused", "The node does not support UpdateFeatures: features came with Kafka 2.7")
    elif standing.speaks.max < _UPGRADE_TYPE_FROM:
        if update.upgrade_type != "upgrade":
            yield _Says("refused", "a downgrade needs UpdateFeatures v1 (Kafka 3.3): controllers ignore the flag of v0")
        yield _Says("unknown", "only a controller this old can tell")


def _supported(update: Update, standing: Standing, _: Mapping[str, int]) -> Iterator[_Says]:
    """Ask the active controller's own range, then every registered broker's, then the other controllers'."""
    leader = standing.active
    others = tuple(node for node in standing.controllers if node is not leader)
    if leader is not None:
        yield from _in_range(update, leader, f"Local controller {leader.node_id}")
    for node in standing.brokers:
        yield from _in_range(update, node, f"Broker {node.node_id}")
    if (standing.level(METADATA_VERSION) or 0) >= _CONTROLLERS_REGISTER_FROM:
        for node in others:
            yield from _in_range(update, node, f"Controller {node.node_id}")


def _in_range(update: Update, node: BrokerAnswer, name: str) -> Iterator[_Says]:
    if node.failure is not None:
        yield _Says("unknown", f"{node.name} is silent, and counts by what it said when it registered")
        return
    lowest, highest = node.supported.get(update.feature, (0, 0))
    if lowest <= update.level <= highest:
        return
    if highest == 0 and node.hides_features:
        yield _Says("unknown", f"{node.name} does not tell features that start at 0 (KAFKA-17011)")
    elif highest == 0:
        yield _refused(update, f"{name} does not support this feature.")
    else:
        span = str(lowest) if lowest == highest else f"{lowest}-{highest}"
        yield _refused(update, f"{name} only supports versions {span}")


def _direction(update: Update, standing: Standing, _: Mapping[str, int]) -> Iterator[_Says]:
    current = standing.level(update.feature)
    if current is None:
        yield _Says("unknown", "no broker tells what is finalized")
    elif update.level < current and update.upgrade_type == "upgrade":
        yield _refused(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    elif update.level > current and update.upgrade_type != "upgrade":
        yield _refused(update, "Can't downgrade to a newer version.")


def _metadata(update: Update, standing: Standing, _: Mapping[str, int]) -> Iterator[_Says]:
    """Refuse a downgrade across a level that changed records (KIP-778); it is refused as unsafe, too (KAFKA-13896)."""
    if update.feature != METADATA_VERSION:
        return
    if not standing.all_or_nothing and 0 < update.level < _LOWEST_UNTIL_39:
        lowest = level_name(METADATA_VERSION, _LOWEST_UNTIL_39)
        text = f"Invalid metadata.version {update.level}. Unable to set a metadata.version less than {lowest}"
        yield _Says("refused", text)
    current = standing.level(METADATA_VERSION)
    if current is None or update.level >= current:
        return
    safe = is_safe_downgrade(current, update.level)
    if safe is None:
        newest = level_name(METADATA_VERSION, max(metadata_levels()))
        yield _Says("unknown", f"a level on the way is newer than this featuregate knows (up to {newest})")
    elif not safe:
        yield _Says("refused", f"{_unsafe_prefix(update, current, standing)} {_why_unsafe(update)}")


def _unsafe_prefix(update: Update, current: int, standing: Standing) -> str:
    if standing.all_or_nothing:
        return f"Unsupported metadata.version downgrade from {current} to {update.level}."
    return f"Invalid metadata.version {update.level}."


def _why_unsafe(update: Update) -> str:
    if update.upgrade_type == "unsafe_downgrade":
        return "Unsafe metadata downgrade is not supported in this version."
    return "Refusing to perform the requested downgrade because it might delete metadata information."


def _kraft(update: Update, standing: Standing, _: Mapping[str, int]) -> Iterator[_Says]:
    """Let the version of the quorum itself only go up, and only by the word of every voter (4.0 and newer)."""
    current = standing.level(_KRAFT_VERSION)
    if update.feature != _KRAFT_VERSION or not standing.all_or_nothing or current in {None, update.level}:
        return
    if update.upgrade_type == "upgrade":
        yield _Says("unknown", "only the leader of the quorum can tell whether every voter supports it")
    else:
        yield _refused(update, "Can't downgrade the version of this feature.")


def _dependencies(update: Update, standing: Standing, proposed: Mapping[str, int]) -> Iterator[_Says]:
    """Ask for what a level needs, as 4.0 and newer do (KIP-1022)."""
    feature, level = update.feature, update.level
    if feature in {METADATA_VERSION, _KRAFT_VERSION} or not standing.all_or_nothing or standing.finalized is None:
        return
    known = feature_level(feature, level)
    if feature not in features() and level == 0:
        yield _refused(update, f"Feature {feature} not found.")
    elif known is None:
        yield _Says("unknown", f"{feature} {level} is newer than this featuregate knows, and so is what it depends on")
        return
    if level >= 1 and proposed.get(METADATA_VERSION, 0) < _FEATURES_FROM:
        yield _refused(
            update, f"{feature} could not be set to {level} because it depends on metadata.version=7 (3.3-IV3)"
        )
    for other, needed in known.depends_on.items() if known else ():
        if proposed.get(other, 0) < needed:
            yield _refused(
                update, f"{feature} could not be set to {level} because it depends on {other} level {needed}"
            )


def _refused(update: Update, why: str) -> _Says:
    return _Says("refused", f"Invalid update version {update.level} for feature {update.feature}. {why}")


_RULES = (_spoken, _supported, _direction, _metadata, _kraft, _dependencies)
