"""Plans: the predicted answer of the controller, and the apps that an update would affect. Pure.

A plan needs no right on the cluster, because reading views needs none. It is a prediction: a dry run asks the
controller itself, and needs ALTER on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from featuregate.admin.effects import MIN_INSYNC, NO_EFFECTS, Effects, InSyncConfigs, effects_on_in_sync, raises_elr
from featuregate.admin.no_return import NoReturn, WayBack, may_be_in_log, no_return, way_back
from featuregate.admin.plan_notes import notes_on, notes_on_effects, notes_on_log, raised_all_the_same
from featuregate.admin.prediction import CONTROLLERS_DIFFER, ClusterState, Judgement, Prediction, predict
from featuregate.admin.updates import LeftOut, Update, checked
from featuregate.catalog import METADATA_VERSION, level_name
from featuregate.errors import RequirementError
from featuregate.gating.decisions import Decision, evaluate
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
    """A latch, or a file of latches, of which it is unknown whether the update affects its app."""

    gate: str
    """The name of the gate, or of the file."""
    requirement: str
    """Its text; empty where the file as a whole cannot be read."""
    why: str
    """One line: what cannot be read, or was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an update would do. ``str()`` shows it to people."""

    cluster_id: str | None
    epoch: int
    """The epoch of the view that the plan was made from; -1 if unknown."""
    all_or_nothing: bool
    """Whether one refusal stops all (4.0 and newer)."""
    updates: tuple[Prediction, ...]
    closes: tuple[str, ...]
    """Presets that hold now and would not any more. An update that is refused closes, opens and affects nothing."""
    opens: tuple[str, ...]
    """Presets that would hold, as far as features go."""
    affected: tuple[AffectedGate, ...]
    """The latched gates, of those that were given, which the update affects."""
    notes: tuple[str, ...]
    """What could not be seen, and other things to know, in sentences."""
    unread: tuple[UnreadLatch, ...] = ()
    """Latches that could not be read. An update that is not refused is ``unknown`` while there is one."""
    left_out: tuple[LeftOut, ...] = ()
    """What is not sent, and why."""
    no_return: tuple[NoReturn, ...] = ()
    """The levels that cannot be lowered again to what they are now, or whose effects stay."""
    way_back: tuple[WayBack, ...] = ()
    """The levels with which older releases of Kafka do not start, until they are lowered."""
    effects: Effects = NO_EFFECTS
    """What the levels do to configs."""
    accepted_effects: frozenset[str] = frozenset()
    """The configs of which a value may fall."""
    unready: str = ""
    """Why nodes may not be ready for the levels; empty where all answered that vote or are registered as brokers.

    A controller that has gone, and was not asked, may refuse them, which harms nobody.
    """
    in_log: tuple[str, ...] = ()
    """What older nodes may find in the metadata log, in sentences."""
    in_use: tuple[str, ...] = ()
    """Who uses levels that are lowered, in sentences (``featuregate.admin.in_use.fetch_in_use``)."""

    @property
    def judgement(self) -> Judgement:
        """The prediction of all updates together.

        ``refused``: the controller refuses at least one, or a value of a config falls that is not accepted.
        ``accepted``: it accepts all; every latch and every config that an update changes was read; and there is
        something to lower, where the metadata log may hold levels that are not seen. Else ``unknown``.
        """
        found = {prediction.judgement for prediction in self.updates}
        if "refused" in found or self.falling:
            return "refused"
        moves = any(one.current != one.update.level for one in self.updates)
        unclear = "unknown" in found or self.unread or self.unread_effects or (self.in_log and not moves)
        return "unknown" if unclear else "accepted"

    @property
    def falling(self) -> tuple[str, ...]:
        """The configs of which a value falls, and that are not accepted."""
        return tuple(sorted(self.effects.falling - self.accepted_effects))

    @property
    def unread_effects(self) -> tuple[str, ...]:
        """Why it is not known what the updates do to configs; empty where any effect on them is accepted."""
        return () if MIN_INSYNC in self.accepted_effects else self.effects.problems

    @property
    def consequences(self) -> tuple[str, ...]:
        """What an operator has to know who is not shown the whole plan, in lines."""
        falls = (f"lowers: {change}" for change in self.effects.changes if change.falls)
        remedies = self.effects.notes if self.falling else ()
        unread = (f"unread: {problem}" for problem in self.unread_effects)
        lost = (f"no return: {one}" for one in self.no_return)
        return (
            *lost,
            *(f"way back: {one}" for one in self.way_back),
            *falls,
            *remedies,
            *unread,
            *self.in_log,
            *self.in_use,
        )

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
    configs: InSyncConfigs | None = None,
    accept_effects: Iterable[str] = (),
) -> Plan:
    """Predict an update from the views of brokers, controllers or both.

    Raises `InvalidUpdate`: there is no update, or two of one feature.
    Raises `ValueError`: there is no view, or there are views of two clusters.

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
        What is not sent, shown with the updates: see :func:`featuregate.admin.updates.moving`. There may be no
        updates then.
    configs
        From ``featuregate.admin.configs.fetch_what_changes``, for updates that change configs too.
    accept_effects
        The configs whose values may fall: ``min.insync.replicas``.
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
    affects = NO_EFFECTS
    if raises_elr(done, seen.finalized):
        affects = effects_on_in_sync(configs, quorum.voters if quorum is not None else None)
    hidden = may_be_in_log(seen, (*wanted, *(each.update for each in left)))
    before_open, after_open = _open_presets(seen, wanted), _open_presets(after, wanted)
    changed = tuple(_changed(seen, after, latched or {}))
    return Plan(
        cluster_id=seen.cluster_id,
        epoch=seen.epoch,
        all_or_nothing=cluster_state.all_or_nothing,
        updates=predictions,
        closes=tuple(sorted(before_open - after_open)),
        opens=tuple(sorted(after_open - before_open)),
        affected=tuple(one for one in changed if isinstance(one, AffectedGate)),
        notes=(
            *notes_on(brokers, controllers, wanted, quorum),
            *raised_all_the_same(cluster_state, predictions),
            *notes_on_effects(seen, done),
            *affects.notes,
        ),
        unready=_unready(predictions, cluster_state),
        in_log=() if cluster_state.with_zookeeper else tuple(notes_on_log(predictions, done, hidden)),
        unread=(*_unread(latched or {}), *(one for one in changed if isinstance(one, UnreadLatch))),
        left_out=left,
        no_return=no_return(done, seen.finalized),
        way_back=way_back(done, seen.finalized),
        effects=affects,
        accepted_effects=frozenset(accept_effects),
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


def _unready(predictions: tuple[Prediction, ...], cluster_state: ClusterState) -> str:
    answering = {node.node_id for node in cluster_state.brokers if node.answered}
    voters = (cluster_state.quorum.voters if cluster_state.quorum else None) or frozenset()
    combined = bool(voters) and voters <= answering and len(answering) == len(cluster_state.brokers)
    harmless = {cluster_state.unasked, CONTROLLERS_DIFFER} if combined else set()
    texts = (one.text for one in predictions if one.judgement == "unknown" and one.text not in harmless)
    return "; ".join(dict.fromkeys(texts))


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


def _changed(
    before: View, after: View, latched: Mapping[str, Requirement | UnreadLatch]
) -> Iterator[AffectedGate | UnreadLatch]:
    """Yield the latches that the update affects, and those of which that is not known.

    It is not known where a condition is lost, and what is left of the requirement was not asked or is silent.
    """
    for name, requirement in latched.items():
        if isinstance(requirement, UnreadLatch):
            continue
        was, is_now = evaluate(before, requirement), evaluate(after, requirement)
        # A gate that is affected already is not affected by this update.
        if is_now.verdict == "closed" and was.verdict != "closed":
            yield AffectedGate(name, str(requirement), is_now.summary.removeprefix("closed: "))
        elif is_now.verdict == "unknown" and _closed(is_now) - _closed(was):
            yield UnreadLatch(name, str(requirement), is_now.summary)


def _closed(decision: Decision) -> set[str]:
    return {one.condition for one in decision.reasons if one.verdict == "closed"}


def _lines(made: Plan) -> Iterator[str]:
    where = f"cluster {made.cluster_id or 'unknown'}, {f'epoch {made.epoch}' if made.epoch >= 0 else 'no epoch'}"
    how = "all or nothing" if made.all_or_nothing else "each by itself"
    some = f"{len(made.updates)} update{'s' if len(made.updates) != 1 else ''} of {where}, {how}"
    yield f"{made.judgement}: {some if made.updates else f'nothing to change on {where}'}"
    for update, current, judgement, text in made.updates:
        names = (_named(update.feature, current), _named(update.feature, update.level))
        yield f"  {judgement:<8}  {update.feature}: {' -> '.join(names)}" + (f": {text}" if text else "")
    for left in made.left_out:
        yield f"  left out  {left.update.feature}: {left.why}"
    yield from _consequences(made)
    if made.opens:
        yield f"  opens     {', '.join(made.opens)}"
    if made.closes:
        yield f"  closes    {', '.join(made.closes)}"
    for affected in made.affected:
        yield f"  affects   {affected.gate}, which stays latched: {affected.why}"
    for gate, _, why in made.unread:
        yield f"  unread    {gate}: {why}: whether this update affects it is unknown"
    for note in (*made.notes, *made.in_log, *made.in_use):
        yield f"  note      {note}"


def _consequences(made: Plan) -> Iterator[str]:
    """Yield what stays, what falls, and which nodes do not start."""
    for lost in made.no_return:
        yield f"  no return  {lost}"
    for back in made.way_back:
        yield f"  way back  {back}"
    for change in made.effects.changes:
        yield f"  {'lowers' if change.falls else 'config':<8}  {change}"
    for name in made.falling:
        yield f"  refused   {name} falls: --accept-effect {name} raises the level all the same"
    for problem in made.unread_effects:
        yield f"  unread    {problem}: what the level does to it is unknown"


def _named(feature: str, level: int | None) -> str:
    if level is None:
        return "unknown"
    return f"{level} ({level_name(feature, level)})" if feature == METADATA_VERSION else str(level)
