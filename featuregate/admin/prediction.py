"""Predict the answer of a controller to updates, by its own rules and in its own words. Pure.

The rules are in :mod:`featuregate.admin.kraft_rules`. This module applies them to what was seen of a cluster. Where
that leaves more than one possibility, it tries each of them: an update is accepted or refused only where all agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.admin.kraft_rules import (
    ALL_OR_NOTHING_FROM,
    CONTROLLERS_REGISTER_FROM,
    LOWEST_FOR_FEATURES,
    QUORUM_RAISES_KRAFT_VERSION_FROM,
    RULES_CHANGED_IN,
    Controller,
    NodeLevels,
    RequestedUpdate,
    counts_kraft_version_as_0,
    rule_problems,
)
from featuregate.admin.registrations import Quorum, unasked, why_silent
from featuregate.admin.updates import ALL_OR_NOTHING_VERSION, Update
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, api_key
from featuregate.view.releases import ReleaseNumber, release_of_level, release_of_node

if TYPE_CHECKING:
    from featuregate.view.answers import ApiRange, BrokerAnswer
    from featuregate.view.cluster_view import View

Judgement = Literal["accepted", "refused", "unknown"]
"""``unknown``: what was seen does not decide it."""

_UPDATE_FEATURES: Final = api_key("UpdateFeatures")
_UPGRADE_TYPE_FROM: Final = 1
_FEATURES_FROM_0: Final = (3, 9)
"""The first release with features that start at level 0."""
CONTROLLERS_DIFFER: Final = (
    "the answer depends on the release of the controllers, which were not asked: name them, too (--controllers)"
)
"""Why an update is unknown where controllers were not asked, and may go by different rules."""
_LEVELS_OF_KRAFT_VERSION: Final = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What is known of a cluster before an update."""

    finalized: Mapping[str, int] | None
    """Feature to level; an absent feature is at 0. None: unknown."""
    brokers: tuple[BrokerAnswer, ...]
    """The registered brokers, silent ones too; empty where none was asked."""
    controllers: tuple[BrokerAnswer, ...] = ()
    """The controllers; empty where none was asked."""
    registered: bool = True
    """Whether ``controllers`` holds every controller that is registered: the controllers named them."""
    quorum: Quorum | None = None
    """The voters; None where nobody was asked for them."""
    leader: int | None = None
    """The node id of the active controller, where controllers were asked."""
    speaks: ApiRange | None = None
    """Versions of UpdateFeatures; None where it is not served. Brokers advertise what their controller serves, too."""

    @classmethod
    def of(cls, brokers: View | None, controllers: View | None, quorum: Quorum | None = None) -> ClusterState:
        """Combine the views of brokers and of controllers; either may be missing."""
        views = [view for view in (controllers, brokers) if view is not None]
        with_epoch = [view for view in views if view.epoch >= 0]
        served = [view.api_ranges.get(_UPDATE_FEATURES) for view in reversed(views)]
        return cls(
            finalized=with_epoch[0].finalized if with_epoch else None,
            brokers=brokers.brokers if brokers else (),
            controllers=controllers.brokers if controllers else (),
            registered=controllers is not None and controllers.broker_list == "cluster",
            quorum=quorum,
            leader=views[0].controller_id if views else None,
            speaks=next(filter(None, served), None),
        )

    @property
    def active(self) -> BrokerAnswer | None:
        """The answer of the active controller; None where it was not asked."""
        return next((node for node in self.controllers if node.node_id == self.leader), None)

    @property
    def all_or_nothing(self) -> bool:
        """Whether the controller changes all levels or none (4.0 and newer), rather than each by itself.

        It is known by the versions that it serves. In the middle of a roll brokers show no more than they know.
        """
        own = self.active.api_ranges.get(_UPDATE_FEATURES) if self.active else None
        served = own or self.speaks
        return served is not None and served.max >= ALL_OR_NOTHING_VERSION

    @property
    def with_zookeeper(self) -> bool:
        """Whether the controller keeps levels in ZooKeeper: nodes with KRaft support ``metadata.version``, all of them.

        A controller that speaks v0 alone is one of 2.7 to 3.2, before KRaft was ready for use.
        """
        nodes = [node for node in (*self.brokers, *self.controllers) if node.answered]
        if self.speaks is not None and self.speaks.max < _UPGRADE_TYPE_FROM:
            return True
        return bool(nodes) and not self.controllers and not any(METADATA_VERSION in node.supported for node in nodes)

    @property
    def quorum_may_raise_kraft_version(self) -> bool:
        """Whether the controller may be of 4.1 or newer, where the quorum raises it before later updates are judged."""
        newest = max(self._possible_releases())
        return self.all_or_nothing and newest >= QUORUM_RAISES_KRAFT_VERSION_FROM

    def possibilities(self) -> Iterator[Controller]:
        """Yield what the active controller may go by, the likeliest first: one thing where enough was seen."""
        for release in self._possible_releases():
            for levels in self._possible_levels(release):
                yield Controller(
                    release=release,
                    own=_node_of(self.active) if self.active else None,
                    brokers=tuple(map(_node_of, self.brokers)),
                    controllers=tuple(
                        self._controller_of(node) for node in self.controllers if node is not self.active
                    ),
                    voters=self.quorum.voters if self.quorum else None,
                    levels=levels,
                )

    def _possible_releases(self) -> tuple[ReleaseNumber, ...]:
        """Return the release of the active controller, or else one for each set of rules that it may follow."""
        asked = [release_of_node(node) for node in ((self.active,) if self.active else self.controllers)]
        known = {release for release in asked if release is not None}
        if known and len(known) == len(set(asked)):
            return tuple(sorted(known, reverse=True))
        newest = max(filter(None, map(release_of_node, self.brokers)), default=RULES_CHANGED_IN[-1])
        kept = [release for release in RULES_CHANGED_IN if self._may_follow(release)]
        # Controllers are most often of the release of the brokers; one that is rolled later follows older rules.
        likeliest = sorted(
            kept or RULES_CHANGED_IN, key=lambda release: (release > newest, -RULES_CHANGED_IN.index(release))
        )
        return tuple(likeliest)

    def _may_follow(self, rules: ReleaseNumber) -> bool:
        """Say whether an active controller that was not asked may follow the rules that came with a release."""
        metadata_level = self.level(METADATA_VERSION)
        if metadata_level:
            # It runs what is finalized, and from 4.0 on no metadata.version that is older than features.
            oldest = max(
                (known for known in RULES_CHANGED_IN if known <= release_of_level(metadata_level)), default=rules
            )
            if rules < oldest or (rules >= ALL_OR_NOTHING_FROM and metadata_level < LOWEST_FOR_FEATURES):
                return False
        served = [(node, node.api_ranges.get(_UPDATE_FEATURES, self.speaks)) for node in self.brokers if node.answered]
        if any(found and found.max >= ALL_OR_NOTHING_VERSION for _, found in served):
            return rules >= ALL_OR_NOTHING_FROM
        # A broker of 4.0 or newer would show what its controller serves; an older one shows no more than it knows.
        shows = any(
            (release_of_node(node) or ALL_OR_NOTHING_FROM) >= ALL_OR_NOTHING_FROM for node, found in served if found
        )
        return rules < ALL_OR_NOTHING_FROM or not shows

    def _possible_levels(self, release: ReleaseNumber) -> Iterator[Mapping[str, int] | None]:
        """Yield the levels that the controller may count as finalized. Nodes may report another ``kraft.version``.

        Up to 3.9, nodes and controllers take the level of a record, which the quorum does not know. From 4.0 on, nodes
        report the level of the quorum, and from 4.1 on, controllers take it; controllers of 4.0 take level 0
        (KAFKA-18979).
        """
        if self.finalized is None:
            yield None
            return
        reporting = {found for node in (*self.brokers, *self.controllers) if (found := release_of_node(node))}
        if counts_kraft_version_as_0(release):
            yield {**self.finalized, KRAFT_VERSION: 0}
            return
        by_record = release < ALL_OR_NOTHING_FROM and all(node < ALL_OR_NOTHING_FROM for node in reporting)
        by_quorum = release >= QUORUM_RAISES_KRAFT_VERSION_FROM and all(
            node >= ALL_OR_NOTHING_FROM for node in reporting
        )
        if by_record or by_quorum:
            yield self.finalized
            return
        for level in _LEVELS_OF_KRAFT_VERSION:
            yield {**self.finalized, KRAFT_VERSION: level}

    @property
    def unasked(self) -> str:
        """Why a node that was not asked may refuse a level; empty where each was asked."""
        return unasked(
            self.brokers, self.controllers, self.quorum, named_by_controllers=self.registered, registers=self._registers
        )

    @property
    def _registers(self) -> bool:
        return (self.level(METADATA_VERSION) or 0) >= CONTROLLERS_REGISTER_FROM

    def _controller_of(self, node: BrokerAnswer) -> NodeLevels:
        found = _node_of(node)
        if node.answered or not self._registers or self.quorum is None or self.quorum.voters is None:
            return found
        release = max(self._possible_releases())
        text = why_silent(node, self.quorum.voters, self.level(METADATA_VERSION) or 0, release)
        return found._replace(unknown_because=text)

    def level(self, feature: str) -> int | None:
        """Return the finalized level of a feature; None: unknown."""
        return None if self.finalized is None else self.finalized.get(feature, 0)


class Prediction(NamedTuple):
    """The predicted answer of the controller to one update."""

    update: Update
    current: int | None
    """The level now; None: unknown."""
    judgement: Judgement
    text: str
    """The controller's words where it refuses; why that is unknown where it is; empty where it accepts."""


def predict(updates: Iterable[Update], cluster_state: ClusterState) -> tuple[Prediction, ...]:
    """Predict the answer to each update; a dependency may be met by another update of the same request.

    The rules are applied in the controller's order. The first rule that refuses gives the text. If no rule refuses and
    one cannot be decided, the prediction is unknown.
    """
    wanted = tuple(updates)
    sent = {update.feature: update.level for update in wanted}
    possible = tuple(cluster_state.possibilities())
    return tuple(_predict_one(update, cluster_state, possible, sent) for update in wanted)


def _predict_one(
    update: Update, cluster_state: ClusterState, possible: tuple[Controller, ...], sent: Mapping[str, int]
) -> Prediction:
    said = _said_by_the_api(cluster_state)
    if said is None and cluster_state.with_zookeeper:
        said = _Answer("unknown", _WITH_ZOOKEEPER)
    elif said is None:
        said = _agreed([_answer_of(update, controller, sent) for controller in possible])
        # Nodes that run the finalized level may not be able to run a higher one.
        raises = update.level > (cluster_state.level(update.feature) or 0)
        if said.judgement == "accepted" and raises and cluster_state.unasked:
            said = _Answer("unknown", cluster_state.unasked)
    return Prediction(update, cluster_state.level(update.feature), *said)


_WITH_ZOOKEEPER: Final = "no release of Kafka has a feature for a controller with ZooKeeper, which alone knows"


class _Answer(NamedTuple):
    judgement: Judgement
    text: str


def _said_by_the_api(cluster_state: ClusterState) -> _Answer | None:
    """Return the answer where the controller cannot be asked; None where it can."""
    if cluster_state.speaks is not None:
        return None
    if not any(node.answered for node in (*cluster_state.brokers, *cluster_state.controllers)):
        return _Answer("unknown", "no node has answered, so it is not known what the controller supports")
    return _Answer("refused", "The node does not support UpdateFeatures: features came with Kafka 2.7")


def _answer_of(update: Update, controller: Controller, sent: Mapping[str, int]) -> _Answer:
    """Return the first refusal; without a refusal, the first unknown; else accepted."""
    wanted = RequestedUpdate(update.feature, update.level, update.upgrade_type)
    problems = rule_problems(wanted, controller, {**(controller.levels or {}), **sent})
    found = [_Answer(*problem) for problem in problems]
    refused = [says for says in found if says.judgement == "refused"]
    return (refused or found or [_Answer("accepted", "")])[0]


def _agreed(said: list[_Answer]) -> _Answer:
    """Return the judgement on which all possibilities agree, with the text of the likeliest one; else unknown."""
    found = {says.judgement for says in said}
    if len(found) == 1:
        return said[0]
    unknown_because = next((says.text for says in said if says.judgement == "unknown"), CONTROLLERS_DIFFER)
    return _Answer("unknown", unknown_because)


def _node_of(answer: BrokerAnswer) -> NodeLevels:
    if answer.failure is not None:
        return NodeLevels(
            answer.node_id, None, f"{answer.name} is silent, and counts with the levels of its registration"
        )
    # Older nodes with KRaft have metadata.version alone, which starts at 1.
    may_hide = answer.hides_features and (release_of_node(answer) or _FEATURES_FROM_0) >= _FEATURES_FROM_0
    hides = f"{answer.name} does not report features that start at 0 (KAFKA-17011)" if may_hide else ""
    return NodeLevels(answer.node_id, answer.supported, hides)
