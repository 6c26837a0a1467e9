"""The latches of a cluster, which never go back, and the decision of a gate that respects them. Pure.

A :class:`LatchState` is a join-semilattice: levels only rise, and gates are only added, so the
states of several processes, restarts and machines can be joined in any order, any number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis
from featuregate.gating.decisions import FRESH, HOLD, Decision, Reason, Staleness, against, evaluate
from featuregate.requirements import Requirement, conditions_in, features_in, subject_of

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

Policy = Literal["sticky", "live"]
"""``sticky``: once open, open, for one cluster id. ``live``: open only while it is proved."""


class LatchKey(NamedTuple):
    """What a latch belongs to: the same name with another requirement is another promise."""

    gate: str
    requirement: str


NOTHING_WAITS: Final[Mapping[str, str]] = {}
_EARLIEST: Final = -62_135_596_800.0
LATEST: Final = 253_402_300_799.0
"""The end of the year 9999. No date of people is later, or before the year 1."""


def _check_time(name: str, at: float) -> None:
    if not _EARLIEST <= at <= LATEST:  # NaN is neither
        raise ValueError(f"{name} is not a time of the years 1 to 9999: {at!r:.40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatchedGate:
    """A gate that opened, and when. Raises `ValueError`: no clock has this time."""

    gate: str
    requirement: str
    """The requirement as text, in the spelling of :func:`featuregate.requirements.parse`."""
    opened_at: float
    """Seconds since the Unix epoch, by the clock of the process that opened it."""
    epoch: int
    """The epoch of the view that opened it; -1 where the cluster has none."""

    def __post_init__(self) -> None:
        _check_time("opened_at", self.opened_at)

    @property
    def key(self) -> LatchKey:
        """The key under which :attr:`LatchState.gates` holds it."""
        return LatchKey(self.gate, self.requirement)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnIn:
    """For how long the requirement of a gate has held in every poll that could tell.

    Raises `ValueError`: no process has written this count, or this time.
    """

    gate: str
    requirement: str
    """As in :class:`LatchedGate`."""
    attempt: int
    """How often the count has begun: from 0 again each time that the requirement did not hold."""
    seconds: float
    """Counted by the monotonic clocks of processes that polled, never by a wall clock."""
    since: float | None
    """Seconds since the Unix epoch, for people; None until the requirement holds again."""

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= LATEST:
            raise ValueError(f"seconds is not a number from 0 on: {self.seconds!r:.40}")
        if self.attempt < 1:
            raise ValueError(f"attempt is not a number from 1 on: {self.attempt!r:.40}")
        if self.since is not None:
            _check_time("since", self.since)

    @property
    def key(self) -> LatchKey:
        """The key under which :attr:`LatchState.burn_ins` holds it."""
        return LatchKey(self.gate, self.requirement)

    def join(self, other: BurnIn) -> BurnIn:
        """Return the later attempt; of one attempt the longer count, and the earlier begin."""
        if self.attempt != other.attempt:
            return max(self, other, key=lambda each: each.attempt)
        begins = [each.since for each in (self, other) if each.since is not None]
        return replace(self, seconds=max(self.seconds, other.seconds), since=min(begins, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatchState:
    """The levels and gates that one cluster has shown so far. Levels never fall, and gates are never removed."""

    cluster_id: str | None = None
    """``None``: the cluster has none (before 0.10.1), or a bootstrap broker list is used."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """The highest finalized level ever seen of each feature."""
    gates: Mapping[LatchKey, LatchedGate] = field(default_factory=dict)
    """Each gate that opened."""
    burn_ins: Mapping[LatchKey, BurnIn] = field(default_factory=dict)
    """The burn-ins of gates with ``open_after``."""


def join(one: LatchState, other: LatchState) -> LatchState:
    """Join two records of one cluster: the higher level of each feature, and the gates and burn-ins of both.

    Where both opened the same gate, the earlier opening stays; see :meth:`BurnIn.join`.

    Raises `ValueError`: they are records of different clusters.
    """
    if one.cluster_id != other.cluster_id:
        raise ValueError(f"these are records of two clusters: {one.cluster_id} and {other.cluster_id}")
    names = sorted({*one.levels, *other.levels})
    gates = dict(one.gates)
    for key, latched in other.gates.items():
        gates[key] = min(gates.get(key, latched), latched, key=lambda at: (at.opened_at, at.epoch))
    burn_ins = dict(one.burn_ins)
    for key, counted in other.burn_ins.items():
        burn_ins[key] = burn_ins.get(key, counted).join(counted)
    return LatchState(
        cluster_id=one.cluster_id,
        levels={name: max(one.levels.get(name, 0), other.levels.get(name, 0)) for name in names},
        gates={key: gates[key] for key in sorted(gates)},
        burn_ins={key: burn_ins[key] for key in sorted(burn_ins)},
    )


def advance(state: LatchState, seen: View, opened: Iterable[LatchedGate] = ()) -> LatchState:
    """Return the state after a view was seen: it never falls, and that of another cluster id starts afresh."""
    base = state if state.cluster_id == seen.cluster_id else LatchState(cluster_id=seen.cluster_id)
    gates = {latched.key: latched for latched in opened}
    return join(base, LatchState(cluster_id=seen.cluster_id, levels=seen.finalized, gates=gates))


def decide(
    state: LatchState,
    view: View | None,
    *,
    name: str,
    requirement: Requirement,
    policy: Policy,
    staleness: Staleness = FRESH,
    exclude_apis: ExcludedApis = NOTHING_EXCLUDED,
    waits: Mapping[str, str] = NOTHING_WAITS,
) -> Decision:
    """Say whether a gate is open: what a fresh view proves, and for a sticky gate what was proved before.

    Before the first answer there is no view, and only a gate that is latched in this state is open. ``waits`` are the
    reasons that keep a gate closed which has not latched: the text of each, by its condition.
    """
    if view is None:
        decision, same = Decision.unseen(requirement, policy=policy), True
    else:
        proved = evaluate(view, requirement, staleness, exclude_apis=exclude_apis)
        decision, same = replace(proved, policy=policy), state.cluster_id == view.cluster_id
    latched = state.gates.get(LatchKey(name, str(requirement))) if policy == "sticky" and same else None
    if latched is None:
        decision = _waiting(decision, waits)
        # Proved, but not durable: a restart would forget it, so the app must not rely on it now.
        undurable = policy == "sticky" and decision.open
        return against(decision, "the latch is durable", "it is not", "unknown") if undurable else decision
    if HOLD in waits:
        decision = replace(decision, reasons=(*decision.reasons, _too_late(latched, waits[HOLD])))
    if view is None:
        held = f"held open: latched at epoch {latched.epoch}, and no broker has answered since the start"
        return replace(decision, cluster_id=state.cluster_id, held=held)
    if decision.open:
        return decision
    held = _why_held(state, view, requirement, latched, staleness)
    if unused := _excluded_in(requirement, exclude_apis):
        held = f"{held}; versions of what it needs are excluded by configuration ({unused})"
    return replace(decision, held=held)


def _waiting(decision: Decision, waits: Mapping[str, str]) -> Decision:
    """Apply the first reason to wait: a hold in any case, another one only to what the view proves."""
    for condition, text in waits.items():
        if condition == HOLD or decision.open:
            return against(decision, condition, text)
    return decision


def _too_late(latched: LatchedGate, hold: str) -> Reason:
    text = f"comes too late, because the gate latched at epoch {latched.epoch}: {hold}"
    return Reason(HOLD, None, None, "open", text)


def _excluded_in(requirement: Requirement, exclude_apis: ExcludedApis) -> ExcludedApis:
    keys = {subject_of(part).api for part in conditions_in(requirement)}
    return ExcludedApis(tuple(excluded for excluded in exclude_apis.ranges if excluded[0] in keys))


def _why_held(
    state: LatchState, view: View, requirement: Requirement, latched: LatchedGate, staleness: Staleness
) -> str:
    """Name the downgrade where there was one: it must be loud, because the app goes on as before."""
    fallen = [
        f"finalized level fell to {level} at epoch {view.epoch} ({feature} was {state.levels[feature]})"
        for feature in features_in(requirement)
        if (level := view.level(feature)) is not None and level < state.levels.get(feature, 0)
    ]
    old = staleness.view or staleness.levels
    unproved = f"latched at epoch {latched.epoch}, and not proved now{f': {old}' if old else ''}"
    return f"held open: {'; '.join(fallen) or unproved}"
