"""Plans: the predicted answer of the controller, and the apps that an update would affect. Pure.

A plan needs no right on the cluster, because reading views needs none. It is a prediction: a dry run asks the
controller itself, and needs ALTER on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from featuregate.admin.metadata_log import WHAT_TO_DO, in_log, stays_in_log
from featuregate.admin.no_return import NoReturn, no_return
from featuregate.admin.prediction import ClusterState, Judgement, Prediction, predict
from featuregate.admin.updates import LeftOut, Update, checked, kraft_version_is_only_recorded
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION, close_to, features, level_name
from featuregate.errors import RequirementError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import ConfigHas, Requirement, conditions_in, features_in, parse, presets

if TYPE_CHECKING:
    from featuregate.admin.registrations import Quorum
    from featuregate.gating.latches import LatchState
    from featuregate.view.cluster_view import View


class AffectedGate(NamedTuple):
    """A gate that stays latched, though the cluster would not meet its requirement any more."""

    gate: str
    requirement: str
    """Its text."""
    why: str
    """One line: what of it would not hold."""


class UnreadLatch(NamedTuple):
    """A latch, or a file of latches, that this release cannot read: whether the update affects its app is unknown."""

    gate: str
    """The name of the gate, or of the file."""
    requirement: str
    """Its text; empty where the file as a whole cannot be read."""
    why: str
    """One line: what cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an update would do. ``str()`` shows it to people."""

    cluster_id: str | None
    epoch: int
    """Of the view that it was made from; -1 for unknown."""
    all_or_nothing: bool
    """Whether one refusal stops all (4.0 and newer)."""
    updates: tuple[Prediction, ...]
    closes: tuple[str, ...]
    """Presets that hold now and would not any more. An update that is refused closes, opens and affects nothing."""
    opens: tuple[str, ...]
    """Presets that would hold, as far as features go."""
    affected: tuple[AffectedGate, ...]
    """Of the latched gates that were given, those that the update affects."""
    notes: tuple[str, ...]
    """What could not be seen, and other things to know, in sentences."""
    unread: tuple[UnreadLatch, ...] = ()
    """Latches that could not be read. An update that is not refused is ``unknown`` while there is one."""
    left_out: tuple[LeftOut, ...] = ()
    """What is not sent, and why."""
    no_return: tuple[NoReturn, ...] = ()
    """The levels that cannot be lowered again to what they are now."""

    @property
    def judgement(self) -> Judgement:
        """``accepted``: all of it, and every latch was read; ``refused``: at least one is refused; else ``unknown``."""
        found = {prediction.judgement for prediction in self.updates}
        if "refused" in found:
            return "refused"
        return "unknown" if "unknown" in found or self.unread else "accepted"

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def plan(
    brokers: View | None,
    updates: Iterable[Update],
    *,
    controllers: View | None = None,
    quorum: Quorum | None = None,
    latched: Mapping[str, Requirement | UnreadLatch] | None = None,
    left_out: Iterable[LeftOut] = (),
) -> Plan:
    """Predict an update from the views of brokers, controllers or both.

    Parameters
    ----------
    brokers, controllers
        Views of the same cluster; one may be missing. A level that is raised is ``unknown`` then: the controller
        refuses what any registered node cannot run.
    quorum
        The voters, from :func:`featuregate.admin.quorum.fetch_quorum`: they tell a controller that has gone for good,
        and is registered still, from one that is down.
    latched
        The gates of apps that have switched, by name, with their requirements: see :func:`latched_in`.
    left_out
        What is not sent, shown beside the updates: see :func:`featuregate.admin.updates.moving`. There may be no
        updates then.

    Raises
    ------
    InvalidUpdate
        There is no update, or two of one feature.
    ValueError
        There is no view, or there are views of two clusters.
    """
    seen = brokers if brokers is not None else controllers
    if seen is None:
        raise ValueError("a plan needs the view of brokers, or that of controllers")
    if brokers is not None and controllers is not None and brokers.cluster_id != controllers.cluster_id:
        raise ValueError(f"these are views of two clusters: {brokers.cluster_id} and {controllers.cluster_id}")
    left = tuple(left_out)
    wanted = tuple(updates) if left else checked(updates)
    cluster_state = ClusterState.of(brokers, controllers, quorum)
    predictions = predict(wanted, cluster_state)
    done = tuple(_carried_out(predictions, all_or_nothing=cluster_state.all_or_nothing))
    after = _after(seen, done)
    before_open, after_open = _open_presets(seen, wanted), _open_presets(after, wanted)
    return Plan(
        cluster_id=seen.cluster_id,
        epoch=seen.epoch,
        all_or_nothing=cluster_state.all_or_nothing,
        updates=predictions,
        closes=tuple(sorted(before_open - after_open)),
        opens=tuple(sorted(after_open - before_open)),
        affected=tuple(_affected(seen, after, latched or {})),
        notes=(
            *_notes(brokers, controllers, wanted, quorum),
            *_raised_all_the_same(cluster_state, predictions),
            *_left_in_log(cluster_state, predictions),
        ),
        unread=tuple(_unread(latched or {})),
        left_out=left,
        no_return=no_return(done, seen.finalized),
    )


def latched_in(latch_state: LatchState) -> dict[str, Requirement | UnreadLatch]:
    """Return the gates that a durable latch holds open, as ``plan`` takes them.

    ``latch_state`` is what ``load()`` of a :class:`featuregate.FileLatchStore` returns. Every latch of a name counts.
    A latch whose requirement this release cannot parse, as one of a newer release, is an :class:`UnreadLatch`.
    """
    found: dict[str, Requirement | UnreadLatch] = {}
    for latched in latch_state.gates.values():
        name = latched.gate if latched.gate not in found else f"{latched.gate} ({latched.requirement})"
        try:
            found[name] = parse(latched.requirement)
        except RequirementError as error:
            found[name] = UnreadLatch(name, latched.requirement, str(error))
    return found


def _carried_out(predictions: tuple[Prediction, ...], *, all_or_nothing: bool) -> Iterator[Update]:
    """Leave out what is refused, and with it everything where one refusal stops all."""
    refused = any(prediction.judgement == "refused" for prediction in predictions)
    for prediction in predictions:
        if prediction.judgement != "refused" and not (refused and all_or_nothing):
            yield prediction.update


def _after(view: View, updates: Iterable[Update]) -> View:
    """Return the view as if every update had been applied."""
    finalized = {**view.finalized, **{update.feature: update.level for update in updates}}
    return replace(view, finalized=finalized, epoch=max(view.epoch, 0))


def _open_presets(view: View, updates: tuple[Update, ...]) -> set[str]:
    touched = {update.feature for update in updates}
    return {preset.name for preset in presets.all() if touched & set(features_in(preset)) and _holds(view, preset)}


def _holds(view: View, requirement: Requirement) -> bool:
    """Say whether a requirement holds, as far as levels and versions go: a plan does not ask for configs."""
    decision = evaluate(view, requirement)
    configs = {str(part) for part in conditions_in(requirement) if isinstance(part, ConfigHas)}
    against = {reason.condition for reason in decision.reasons if reason.verdict != "open"}
    return decision.verdict == "open" or (decision.verdict == "unknown" and against <= configs)


def _unread(latched: Mapping[str, Requirement | UnreadLatch]) -> Iterator[UnreadLatch]:
    for name, requirement in latched.items():
        if isinstance(requirement, UnreadLatch):
            yield requirement._replace(gate=name)


def _affected(before: View, after: View, latched: Mapping[str, Requirement | UnreadLatch]) -> Iterator[AffectedGate]:
    for name, requirement in latched.items():
        if isinstance(requirement, UnreadLatch):
            continue
        decision = evaluate(after, requirement)
        # A gate that is affected already is not affected by this update.
        if decision.verdict == "closed" and evaluate(before, requirement).verdict != "closed":
            yield AffectedGate(name, str(requirement), decision.summary.removeprefix("closed: "))


def _notes(
    brokers: View | None, controllers: View | None, updates: tuple[Update, ...], quorum: Quorum | None
) -> Iterator[str]:
    yield from _misspelt(updates, [view for view in (brokers, controllers) if view is not None])
    yield from _notes_on_controllers(controllers, quorum)
    if brokers is None:
        yield "brokers were not asked: where a registered one cannot run a level, the controller refuses it"
    seen = brokers if brokers is not None else controllers
    raised = seen is not None and any(_raises_kraft(update, seen) for update in updates)
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
    for update in updates:
        lowest = max(view.finalized_min.get(update.feature, 1) for view in (brokers, controllers) if view is not None)
        if lowest > 1:
            yield f"levels of {update.feature} below {lowest} are deprecated: no update brings them back (KIP-584)"
    if any(update.feature == METADATA_VERSION and update.upgrade_type == "unsafe_downgrade" for update in updates):
        yield "no release of Kafka carries out an unsafe downgrade of metadata.version (KAFKA-13896)"


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


def _raises_kraft(update: Update, view: View) -> bool:
    return update.feature == KRAFT_VERSION and update.level > (view.level(KRAFT_VERSION) or 0)


def _raised_all_the_same(cluster_state: ClusterState, predictions: tuple[Prediction, ...]) -> Iterator[str]:
    """Note that one refusal does not stop ``kraft.version``, which the quorum raises at once (seen: 4.1.1)."""
    raised = [
        one for one in predictions if one.update.feature == KRAFT_VERSION and (one.current or 0) < one.update.level
    ]
    others = [one.update.feature for one in predictions if one not in raised and one.judgement != "accepted"]
    if raised and others and raised[0].judgement != "refused" and cluster_state.quorum_may_raise_kraft_version:
        yield f"{KRAFT_VERSION} may be raised for good though {' and '.join(others)} is refused: send it by itself"


def _left_in_log(cluster_state: ClusterState, predictions: tuple[Prediction, ...]) -> Iterator[str]:
    """Warn of levels that an older controller would find in the metadata log (``metadata-log`` of the readiness)."""
    if cluster_state.with_zookeeper:
        return
    done = list(_carried_out(predictions, all_or_nothing=cluster_state.all_or_nothing))
    after = {one.feature: one.level for one in done}
    before = {one.update.feature: one.current or 0 for one in predictions}
    for feature, level in stays_in_log(before, after).items():
        older = "a controller of a release that does not support it"
        yield f"{feature}={level} {in_log(older)}: before a rollback to such a release, {WHAT_TO_DO}"


def _misspelt(updates: tuple[Update, ...], views: Iterable[View]) -> Iterator[str]:
    known = {*features(), *(name for view in views for node in view.answering for name in node.supported)}
    for update in updates:
        if update.feature not in known and (close := close_to(update.feature, known)):
            yield f"no node here knows {update.feature}; did you mean {' or '.join(close)}?"


def _lines(made: Plan) -> Iterator[str]:
    where = f"cluster {made.cluster_id or 'unknown'}, {f'epoch {made.epoch}' if made.epoch >= 0 else 'no epoch'}"
    how = "all or nothing" if made.all_or_nothing else "each by itself"
    yield f"{made.judgement}: {len(made.updates)} update{'s' if len(made.updates) != 1 else ''} of {where}, {how}"
    for update, current, judgement, text in made.updates:
        names = (_named(update.feature, current), _named(update.feature, update.level))
        yield f"  {judgement:<8}  {update.feature}: {' -> '.join(names)}" + (f": {text}" if text else "")
    for left in made.left_out:
        yield f"  left out  {left.update.feature}: {left.why}"
    for lost in made.no_return:
        yield f"  no return  {lost}"
    if made.opens:
        yield f"  opens     {', '.join(made.opens)}"
    if made.closes:
        yield f"  closes    {', '.join(made.closes)}"
    for affected in made.affected:
        yield f"  affects   {affected.gate}, which stays latched: {affected.why}"
    for gate, _, why in made.unread:
        yield f"  unread    {gate}: {why}: whether this update affects it is unknown"
    for note in made.notes:
        yield f"  note      {note}"


def _named(feature: str, level: int | None) -> str:
    if level is None:
        return "unknown"
    return f"{level} ({level_name(feature, level)})" if feature == METADATA_VERSION else str(level)
