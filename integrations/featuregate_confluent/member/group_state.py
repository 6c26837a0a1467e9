"""The model of this member, the latch of its group, and what keeps the member from moving up.

Asks the group and the gate; :mod:`featuregate_confluent.latch.protocol` decides what follows from the answers.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.events import CommitsBlocked, LatchRead, ModelChanged
from featuregate_confluent.latch.models import Model
from featuregate_confluent.latch.protocol import Observation, decide, latch
from featuregate_confluent.producing.offsets import uncontradicted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from featuregate import Gate
    from featuregate_confluent.client.committed import CommittedOffset
    from featuregate_confluent.client.group import GroupDescription, GroupReader
    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.client.pending import PendingAnswer
    from featuregate_confluent.events import SwitchEvent
    from featuregate_confluent.latch.marks import Mark
    from featuregate_confluent.latch.models import PinnedModel
    from featuregate_confluent.latch.protocol import Member, ModelChoice, Partition

__all__ = ["GroupState"]

logger = logging.getLogger("featuregate.confluent")

ASK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Look:
    """A request to the group that is not answered yet."""

    generation: int
    members: PendingAnswer[GroupDescription]
    all_marks: PendingAnswer[dict[Partition, CommittedOffset]]

    @property
    def done(self) -> bool:
        return self.members.done and self.all_marks.done


class GroupState:
    """The model of this member, and why."""

    def __init__(
        self,
        *,
        pinned: PinnedModel,
        gate: Gate,
        reader: GroupReader,
        latch_topic: LatchTopic | None,
        topics: Sequence[str],
        emit: Callable[[SwitchEvent], None],
        every: float,
    ) -> None:
        self.latch: Model | None = None
        """The highest model that the group is known to have committed in."""
        self.latch_in_topic: Model | None = None
        """The same, as the latch topic says."""
        self.first_v2_generation: int | None = None
        """The generation in which the first v2 commit may be made; None once the group is latched, and below v2."""
        self.generation = -1
        """The generation that this member was last seen in; -1 before the first."""
        self._pinned = pinned
        self._gate = gate
        self._reader = reader
        self._latch_topic = latch_topic
        self._topics = topics
        self._emit = emit
        self._every = every
        self._partitions: tuple[Partition, ...] = ()
        self._choice: ModelChoice | None = None
        self._ran: Model | None = None
        self._looking: _Look | None = None
        self._ask_at = 0.0
        self._coordinator: int | None = None
        self._refused: str | None = None

    @property
    def model(self) -> Model:
        """The model of the next transaction."""
        return self._choice.model if self._choice is not None else Model.LEGACY

    @property
    def why(self) -> str:
        """A sentence: why this model, or why nothing may be committed."""
        return self._refused or (self._choice.why if self._choice is not None else "not assigned yet")

    @property
    def waiting(self) -> bool:
        """Whether nothing may be committed for now."""
        return self._refused is not None

    def join(self) -> None:
        """Note that this member joins the group again."""
        self.generation = -1

    # ------------------------------------------------------------------ on an assignment

    def assigned(self, generation: int) -> dict[Partition, Mark]:
        """Decide for a new generation by the marks of all input partitions (R3), and return these.

        A v2 without any commit falls back here: the members of the new generation are not known yet (R5).

        Raises
        ------
        ModelRefused, UnknownMark
            This member must not take part as it is.
        GroupUnreadable
            The committed offsets of the group cannot be read.
        LatchTopicError
            The latch topic cannot be read: now, or at all.
        """
        self.generation = generation
        self._looking, self._ask_at = None, 0.0
        self._partitions = self._reader.input_partitions(self._topics, ASK_SECONDS)
        all_marks = {key: mark for key, (_, mark) in self._reader.offsets(self._partitions, ASK_SECONDS).items()}
        self._note(latch({}, all_marks, None), "all marks")
        if self._latch_topic is not None and self.latch is not Model.V2:
            self.latch_in_topic = self._latch_topic.read(ASK_SECONDS)
            self._note(self.latch_in_topic, "latch topic")
        pinned_up = self._pinned is Model.V2 and self.latch is not Model.V2 and self._gate.open
        self._choose(generation, members=self._reader.members(ASK_SECONDS).members if pinned_up else None)
        return all_marks

    def read(self, own: Mapping[Partition, Mark], generation: int) -> None:
        """Apply the marks of the new partitions, which were read stably (R1)."""
        found = latch(own, {}, None)
        self._note(found, "own marks")
        if found is not None and found > self.model:
            self._choose(generation, members=None)

    # ------------------------------------------------------------------ between transactions

    @property
    def needs_group_state(self) -> bool:
        """Whether :meth:`look` would ask anything, or the next commit is bound to one generation.

        Only then is the generation read: the client takes as long for that as for the records of a short transaction.
        """
        return self.first_v2_generation is not None or self._looks()

    def look(self, generation: int) -> None:
        """Check the group without blocking, and move up if everything allows it.

        Raises
        ------
        UnknownMark
            Newer software has committed in this group.
        """
        self.generation = generation
        if not self._looks():
            return
        if self.model is Model.LEGACY:
            self._choose(generation, members=None)  # the gate has opened: bridge needs no more than that
        if self._looking is None:
            if time.monotonic() >= self._ask_at:
                self._ask_at = time.monotonic() + self._every
                self._looking = _Look(generation, self._reader.ask(), self._reader.ask_offsets(self._partitions))
        elif self._looking.done:
            look, self._looking = self._looking, None
            self._hear(look, generation)

    def _looks(self) -> bool:
        if self.model is Model.V2:
            return self._contradicted()
        return self._pinned is None and self._gate.open

    def _hear(self, look: _Look, generation: int) -> None:
        try:
            seen, all_marks = look.members.result(), look.all_marks.result()
        except GroupUnreadable as unread:
            logger.info("%s; asking again in %g s", unread, self._every)  # a broker is on its way down or up
            return
        self._coordinator = seen.coordinator.node_id
        self._note(latch({}, {key: mark for key, (_, mark) in all_marks.items()}, None), "all marks")
        self._choose(generation, members=seen.members if look.generation == generation else None)

    # ------------------------------------------------------------------ what may be committed

    def commit_blocker(self) -> str | None:
        """Return why nothing may be committed now although the group is at v2; None: commits are safe.

        A broker that was replaced by one that is too old accepts a zombie's offsets unchecked, once it coordinates
        the group. The model stays; the member waits.
        """
        found = None
        if self.model is Model.V2 and self._contradicted():
            lacking = {reason.node_id for reason in self._gate.decision.reasons if reason.verdict == "closed"}
            if self._coordinator is None:
                found = "a broker came back that is too old, and it is not known yet who coordinates the group"
            elif self._coordinator in lacking:
                found = (
                    f"broker {self._coordinator} coordinates this group, and is too old to stop a zombie in the v2 "
                    "model: upgrade it again, or stop the members and roll the group back"
                )
        if found is not None and found != self._refused:
            self._emit(CommitsBlocked(why=found))
        self._refused = found
        return found

    def _contradicted(self) -> bool:
        return self._gate.decision.verdict == "closed"

    def committed(self, model: Model, generation: int) -> None:
        """Apply a commit."""
        self.generation = generation
        self._ran = model if self._ran is None else max(self._ran, model)
        if model is not self.latch:
            self._note(model, "commit")
        if model is Model.V2 and self._latch_topic is not None:
            self.latch_in_topic = model  # the record was in that transaction, or there before (R11)
        if model is Model.V2 and self.first_v2_generation is not None:
            self.first_v2_generation = None
            self._choose(generation, members=None)

    # ------------------------------------------------------------------ the one place that changes the model

    def _choose(self, generation: int, *, members: tuple[Member, ...] | None) -> None:
        decision = uncontradicted(self._gate)
        seen = Observation(
            gate_open=decision.open,
            gate_why=decision.summary,
            latch=self.latch,
            members=members,
            generation_of_members=None if members is None else generation,
            generation=generation,
        )
        before, choice = self._choice, decide(self._pinned, seen, self._ran)
        self._choice = choice
        self.first_v2_generation = generation if choice.model is Model.V2 and self.latch is not Model.V2 else None
        if before is None or before.model is not choice.model:
            self._emit(
                ModelChanged(
                    before=None if before is None else before.model,
                    after=choice.model,
                    why=choice.why,
                    generation=generation,
                )
            )

    def _note(self, found: Model | None, source: str) -> None:
        if found is not None and (self.latch is None or found > self.latch):
            self.latch = found
            self._emit(LatchRead(latch=found, source=source))
