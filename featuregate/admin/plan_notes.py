"""The notes of a plan: what could not be seen, and what an operator has to know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from featuregate.admin.no_return import WHAT_TO_DO, first_release_with, in_log, stays_in_log
from featuregate.admin.updates import Update, kraft_version_is_only_recorded
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, close_to, effects_measured, effects_of, features

if TYPE_CHECKING:
    from featuregate.admin.prediction import ClusterState, Prediction
    from featuregate.admin.registrations import Quorum
    from featuregate.view.cluster_view import View


def notes_on(
    brokers: View | None, controllers: View | None, updates: tuple[Update, ...], quorum: Quorum | None
) -> Iterator[str]:
    """Yield what could not be seen of the cluster, and what the levels and nodes have to do with each other."""
    yield from _misspelt(updates, [view for view in (brokers, controllers) if view is not None])
    yield from _notes_on_controllers(controllers, quorum)
    if quorum is not None and not quorum.may_alter:
        yield "this user has no ALTER on the cluster: the controller refuses any change that this user asks for"
    if brokers is None:
        yield "brokers were not asked: where a registered one cannot run a level, the controller refuses it"
    seen = brokers if brokers is not None else controllers
    now = (seen.level(KRAFT_VERSION) if seen is not None else None) or 0
    raised = any(update.feature == KRAFT_VERSION and update.level > now for update in updates)
    if seen is not None and raised and kraft_version_is_only_recorded(updates, seen):
        yield (
            "controllers before 4.1 write a level of kraft.version that their quorum does not have, and brokers report "
            "it (KAFKA-18979); whether these are newer is not known while metadata.version is below 4.1-IV0"
        )
    for view in (brokers, controllers):
        for node in view.brokers if view is not None else ():
            if node.failure is not None:
                yield f"{node.name} is silent: {node.failure.text}"
    behind = [update.feature for update in updates if seen is not None and _above_all(update, seen)]
    if behind:
        yield f"no node that answered can run this level of {', '.join(behind)}: roll the software of all nodes first"
    if any(update.feature == METADATA_VERSION and update.upgrade_type == "unsafe_downgrade" for update in updates):
        yield "no release of Kafka carries out an unsafe downgrade of metadata.version (KAFKA-13896)"


def notes_on_effects(view: View, updates: Iterable[Update]) -> Iterator[str]:
    """Name the levels that rise, and whose effects on configs were not measured; and what stays where one falls."""
    for update in updates:
        now = view.level(update.feature) or 0
        for config in sorted({each.name for each in effects_of(update.feature, update.level, now) if each.stays}):
            yield f"{config} stays as {update.feature}={now} has changed it: lowering the level restores nothing"
        rises = update.level > now and update.feature in features()
        if rises and not effects_measured(update.feature, update.level):
            yield f"what {update.feature}={update.level} changes in configs was not measured"


def _notes_on_controllers(controllers: View | None, quorum: Quorum | None) -> Iterator[str]:
    """Name the controllers whose registration counts though they do not vote: observers, and those that have gone."""
    if controllers is None:
        where = f" (voters: {', '.join(quorum.addresses)})" if quorum and quorum.addresses else ""
        yield f"controllers were not asked: where they cannot run a level, they refuse it whatever brokers can{where}"
    elif quorum is not None and quorum.voters is not None:
        for node in controllers.brokers:
            if node.node_id is not None and node.node_id not in quorum.voters:
                yield f"{node.name} is registered and is not a voter: what it registered counts all the same"
    if quorum is not None and quorum.problem:
        yield f"the voters are not known, so a controller that has gone looks like one that is down: {quorum.problem}"


def _above_all(update: Update, view: View) -> bool:
    """Return whether every node that answered, and there is one, supports lower levels alone."""
    tops = [node.supported.get(update.feature, (0, 0))[1] for node in view.answering]
    return bool(tops) and update.upgrade_type == "upgrade" and update.level > max(tops)


def raised_all_the_same(cluster_state: ClusterState, predictions: tuple[Prediction, ...]) -> Iterator[str]:
    """Note that one refusal does not stop ``kraft.version``, which the quorum raises at once (seen: 4.1.1)."""
    raised = [
        one for one in predictions if one.update.feature == KRAFT_VERSION and (one.current or 0) < one.update.level
    ]
    others = [one.update.feature for one in predictions if one not in raised and one.judgement != "accepted"]
    if raised and others and raised[0].judgement != "refused" and cluster_state.quorum_may_raise_kraft_version:
        refused = f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'} refused"
        yield f"{KRAFT_VERSION} may be raised for good though {refused}: send it by itself"


def notes_on_log(
    predictions: tuple[Prediction, ...], done: Iterable[Update], hidden: Mapping[str, int]
) -> Iterator[str]:
    """Warn of levels that an older node would find in the log; ``hidden`` has those of `may_be_in_log`."""
    after = {one.feature: one.level for one in done}
    before = {one.update.feature: one.current or 0 for one in predictions}
    for feature, level in stays_in_log(before, after).items():
        yield f"{feature}={level} {in_log(_older(feature, level))}: before a rollback to such a release, {WHAT_TO_DO}"
    unseen: dict[str, list[str]] = {}
    for feature, level in hidden.items():
        unseen.setdefault(_older(feature, level), []).append(f"{feature}={level}")
    for older, levels in unseen.items():
        said = f"{', '.join(levels)} or higher may have been set before, which nodes do not report: it "
        yield f"{said}{in_log(older)}: before such a node starts, {WHAT_TO_DO}"


def _older(feature: str, level: int) -> str:
    first = first_release_with(feature, level)
    return "a node of a release that does not support it" if first is None else f"a node of Kafka before {first}"


def _misspelt(updates: tuple[Update, ...], views: Iterable[View]) -> Iterator[str]:
    known = {*features(), *(name for view in views for node in view.answering for name in node.supported)}
    for update in updates:
        if update.feature not in known and (close := close_to(update.feature, known)):
            yield f"no node here knows {update.feature}; did you mean {' or '.join(close)}?"
