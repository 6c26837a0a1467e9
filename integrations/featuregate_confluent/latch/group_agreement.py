"""The agreement of a group on a gate: what the members have written, and what this member does next. Pure.

.. code-block:: text

    old       the gate of a member is not open, or not that of each other member
    neither   each member was ready, so this one has stopped the old behaviour, and others have not yet
    new       each member has stopped the old behaviour: the group has opened, for good

A member writes that it has stopped before it reads which members there are, and a member that joins is listed before
it reads what others have written. So one of the two sees the other, and no member is at ``old`` while another one is at
``new``. A member has a name of its own for each start, so what it has written never speaks for another process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, Protocol

from featuregate.gating.decisions import Decision, Reason, against
from featuregate.printable import some

Stage = Literal["waits", "ready", "stopped"]
"""How far a member is: its gate is closed, its gate is open, or it has stopped the old behaviour as well."""

Side = Literal["old", "neither", "new"]
"""Which behaviour a member may have."""

CONDITION: Final = "group"
"""The condition of a decision that speaks of the group."""

STAGES: Final[tuple[Stage, ...]] = ("waits", "ready", "stopped")


class GroupLatch(NamedTuple):
    """What an agreement belongs to: the same name with another requirement is another promise."""

    cluster_id: str
    group: str
    gate: str
    requirement: str


@dataclass(frozen=True, slots=True)
class GroupLatchState:
    """What members have written of one gate. Stages only rise, and an opening stays."""

    stages: Mapping[str, Stage] = field(default_factory=dict)
    """The highest stage of each member, by its name."""
    opened_at: float | None = None
    """Seconds since the Unix epoch, by the clock of the first member that has written it; None: not open yet."""

    def join(self, other: GroupLatchState) -> GroupLatchState:
        """Join two records of one agreement: the higher stage of each member, and the earlier opening."""
        stages = dict(self.stages)
        for member, stage in other.stages.items():
            stages[member] = max(stages.get(member, stage), stage, key=STAGES.index)
        opened = [at for at in (self.opened_at, other.opened_at) if at is not None]
        return GroupLatchState(stages, min(opened, default=None))


class GroupStore(Protocol):
    """Where the members of a group write. Both methods may block, and raise as those of a latch store do."""

    def load_group(self, key: GroupLatch) -> GroupLatchState:
        """Return what members have written; what was saved before this call began is there."""

    def save_group(self, key: GroupLatch, state: GroupLatchState, *, gone: Collection[str] = ()) -> None:
        """Join ``state`` with what is there, and return once it is durable; forget the stages of members ``gone``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """What a member has seen. ``members`` is read before ``state``."""

    member: str | None
    """The name of this member; None: it is in no group now."""
    members: frozenset[str]
    """The live members of the group, as brokers list them."""
    state: GroupLatchState
    ready: bool
    """Whether the gate of this member is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStep:
    """What a member does next."""

    side: Side
    """The side on which the member is, once what it writes is durable."""
    why: str
    writes: Stage | None = None
    """The stage to write; before ``stopped``, the member stops the old behaviour."""
    opens: bool = False
    """Whether to write that the group has opened."""


def decide(seen: GroupSeen) -> GroupStep:
    """Decide on which side a member is from here on."""
    if seen.state.opened_at is not None:
        return GroupStep(side="new", why="every member of the group was ready, and the group has opened")
    if seen.member is None or seen.member not in seen.members:
        return GroupStep(side="neither", why="this process is not among the members of the group")
    if any(seen.state.stages.get(each) == "stopped" for each in seen.members):
        return _stop(seen, seen.member)
    return _get_ready(seen, seen.member)


def _stop(seen: GroupSeen, member: str) -> GroupStep:
    """Follow a member that has stopped, for which each member was ready, and open once all have stopped."""
    late = sorted(each for each in seen.members if seen.state.stages.get(each) != "stopped")
    if member in late:
        return GroupStep(side="neither", why="the group is about to open", writes="stopped")
    if late:
        return GroupStep(side="neither", why=f"the group is about to open, and waits for {some(late)}")
    return GroupStep(side="new", why="every member of the group was ready, and the group has opened", opens=True)


def _get_ready(seen: GroupSeen, member: str) -> GroupStep:
    """Say how far this member is, and stop once each member is ready."""
    stages = seen.state.stages
    mine = stages.get(member)
    if not seen.ready:
        return GroupStep(side="old", why="the gate of this member is closed", writes="waits" if mine is None else None)
    behind = sorted(each for each in seen.members - {member} if stages.get(each) in (None, "waits"))
    if behind:
        return GroupStep(side="old", why=_behind(behind, stages), writes="ready" if mine != "ready" else None)
    return GroupStep(side="neither", why="every member is ready", writes="stopped")


def _behind(behind: Collection[str], stages: Mapping[str, Stage]) -> str:
    silent = [each for each in behind if each not in stages]
    closed = [each for each in behind if each in stages]
    parts = [f"{some(closed)}: the gate is closed there"] if closed else []
    if silent:
        parts.append(
            f"{some(silent)}: no word of this gate, so it may be an app without featuregate or without the gate"
        )
    return f"members that are not ready: {'; '.join(parts)}"


def group_decision(decision: Decision, group: str, side: Side, why: str) -> Decision:
    """Return the decision of a member's own gate as that of its group, which opens at the side ``"new"``."""
    text = f"group {group}: {why}"
    if side != "new":
        return against(decision, CONDITION, text)
    if not decision.open:
        return replace(decision, held=f"open for {text}")
    return replace(decision, reasons=(*decision.reasons, Reason(CONDITION, None, None, "open", text)))
