"""What a member knows of its group: the latch, its own model and why, and what blocks its commits. Pure.

:mod:`featuregate_confluent.latch.protocol` decides on the model; a :class:`GroupState` records what it decides from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from featuregate_confluent.events import CommitsBlocked, InputMissing, LatchRead, ModelChanged, SwitchEvent
from featuregate_confluent.latch.protocol import LATCHED, Member, ModelChoice, Observation, Partition, decide
from featuregate_confluent.models import Model, PinnedModel

if TYPE_CHECKING:
    from featuregate import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """The model of a member, and what it follows from. Each change is another value."""

    generation: int = -1
    """The generation that this member was last seen in; -1 before the first."""
    input_partitions: tuple[Partition, ...] = ()
    """All partitions that the group consumes, as of this member's last assignment."""
    missing: str | None = None
    """Which topics of the subscription do not exist, as a sentence; None: each is there, or was not looked for yet."""
    latch: Model | None = None
    """The highest model that the group is known to have committed in."""
    latch_source: str = ""
    """Where the latch was found: see :class:`~featuregate_confluent.events.LatchRead`."""
    latch_in_topic: Model | None = None
    """The latch that the latch topic holds, where there is one."""
    committed_in: Model | None = None
    """The highest model that this member has committed in."""
    choice: ModelChoice | None = None
    """The model of the next transaction; None before the first assignment."""
    first_v2_generation: int | None = None
    """The generation in which the first v2 commit may be made; None once the group is latched, and below v2."""
    coordinator: int | None = None
    """The broker that coordinates the group; None: not known."""
    commit_blocker: str | None = None
    """Why nothing may be committed for now; None: commits are safe."""

    @property
    def model(self) -> Model:
        """The model of the next transaction."""
        return self.choice.model if self.choice is not None else Model.LEGACY

    @property
    def why(self) -> str:
        """A sentence: why this model, or why nothing may be committed; and which topics are missing."""
        if self.commit_blocker is not None:
            return self.commit_blocker
        choice = self.choice.why if self.choice is not None else "not assigned yet"
        return choice if self.missing is None else f"{choice}; {self.missing}"

    def latched(self, found: Model | None, source: str) -> GroupState:
        """Apply a latch that was read: the latch of a group never falls by itself."""
        if found is None or (self.latch is not None and found <= self.latch):
            return self
        return replace(self, latch=found, latch_source=source)

    def choose(self, pinned: PinnedModel, decision: Decision, members: tuple[Member, ...] | None = None) -> GroupState:
        """Choose the model for this generation, by the live members that were read in it (R5). Raises ModelRefused.

        ``decision`` is the gate's, as :func:`~featuregate_confluent.producing.offsets.uncontradicted` returns it (R4).
        """
        seen = Observation(
            gate_open=decision.open,
            gate_why=decision.summary,
            latch=self.latch,
            members=members,
            generation_of_members=None if members is None else self.generation,
            generation=self.generation,
        )
        choice = decide(pinned, seen, self.committed_in)
        first = choice.model is Model.V2 and self.latch is not Model.V2
        return replace(self, choice=choice, first_v2_generation=self.generation if first else None)

    def committed(self, model: Model, generation: int) -> GroupState:
        """Apply a commit, which latches the group at its model."""
        known = self.latched(model, "commit")
        highest = model if self.committed_in is None else max(self.committed_in, model)
        if model is not Model.V2:
            return replace(known, generation=generation, committed_in=highest)
        return replace(
            known,
            generation=generation,
            committed_in=highest,
            latch_in_topic=model,  # the record was in that transaction, or there before (R11)
            choice=self.choice if self.first_v2_generation is None else LATCHED,
            first_v2_generation=None,
        )

    def checked(self, decision: Decision) -> GroupState:
        """Apply the gate's current decision to what may be committed.

        A broker that was replaced by one that is too old accepts a zombie's offsets unchecked, once it coordinates
        the group. The model stays; the member waits.
        """
        blocker = None
        if self.model is Model.V2 and decision.verdict == "closed":
            lacking = {reason.node_id for reason in decision.reasons if reason.verdict == "closed"}
            if self.coordinator is None:
                blocker = "a broker came back that is too old, and it is not known yet who coordinates the group"
            elif self.coordinator in lacking:
                blocker = (
                    f"broker {self.coordinator} coordinates this group, and is too old to stop a zombie in the v2 "
                    "model: upgrade it again, or stop the members and roll the group back"
                )
        # It is asked for only while the gate is closed, and may be another one by the next time.
        coordinator = self.coordinator if decision.verdict == "closed" else None
        if (blocker, coordinator) == (self.commit_blocker, self.coordinator):
            return self
        return replace(self, commit_blocker=blocker, coordinator=coordinator)


def events_between(before: GroupState, after: GroupState) -> Iterator[SwitchEvent]:
    """Yield the events of one change."""
    if after.latch is not None and after.latch is not before.latch:
        yield LatchRead(latch=after.latch, source=after.latch_source)
    if after.choice is not None and (before.choice is None or before.model is not after.model):
        yield ModelChanged(
            before=None if before.choice is None else before.model,
            after=after.model,
            why=after.choice.why,
            generation=after.generation,
        )
    if after.missing is not None and after.missing != before.missing:
        yield InputMissing(why=after.missing)
    if after.commit_blocker is not None and after.commit_blocker != before.commit_blocker:
        yield CommitsBlocked(why=after.commit_blocker)
