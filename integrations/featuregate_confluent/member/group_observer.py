"""Asks the group and the gate, and updates what the member knows of its group, also which partitions stand still."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from featuregate.logs import get_logger
from featuregate_confluent.client.committed import CommittedOffset, PartitionProgress, named, observe
from featuregate_confluent.client.group import GroupDescription, GroupReader, PendingEnds, matcher
from featuregate_confluent.client.pending import GroupUnreadable, PendingAnswer, read_cluster_id
from featuregate_confluent.events import PartitionsStalled, SwitchEvent
from featuregate_confluent.latch.protocol import Member, Partition, latch, require_same_cluster
from featuregate_confluent.member.state import GroupState, MemberState, StalledPartition
from featuregate_confluent.models import Model, PinnedModel
from featuregate_confluent.producing.offsets import uncontradicted

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from featuregate import Decision, Gate
    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.latch.marks import Mark

logger = get_logger("featuregate.confluent")

_PendingOffsets: TypeAlias = PendingAnswer[dict[Partition, CommittedOffset]]

ASK_SECONDS: Final = 30.0
TOPICS_SECONDS: Final = 5.0


@dataclass(eq=False, repr=False)
class GroupObserver:
    """Reads the marks, the members and the latch topic of the group."""

    state: MemberState
    _: KW_ONLY
    pinned: PinnedModel
    gate: Gate
    reader: GroupReader
    latch_topic: LatchTopic | None
    topics: Sequence[str]
    emit: Callable[[SwitchEvent], None]
    every: float
    _cluster_id: str | None = field(default=None, init=False)
    _identified = False
    _topics_at: float | None = field(default=None, init=False)
    _looking: tuple[int, PendingAnswer[GroupDescription], _PendingOffsets] | None = field(default=None, init=False)
    """The generation of a look, and its requests that are not answered yet."""
    _ask_at = 0.0

    # ------------------------------------------------------------------ on an assignment

    def identify(self, consumer: Consumer, timeout: float = ASK_SECONDS) -> None:
        """Read which cluster the consumer is connected to: the gate counts for that one only.

        Raises GroupUnreadable (no broker answered in time), SwitchFatal (the gate was decided for another cluster).
        """
        self._identified = False
        self._cluster_id = read_cluster_id(consumer, self.topics, timeout)
        self._identified = True
        _ = self._decision

    def look_for_topics(self) -> None:
        """Look every few seconds whether a topic is missing, while nothing is assigned: brokers do not say so."""
        now = time.monotonic()
        if self._topics_at is None:
            self._topics_at = now + self.every
        elif now >= self._topics_at:
            self._topics_at = now + max(self.every, TOPICS_SECONDS)
            try:
                missing = _missing(self.topics, self.reader.input_partitions(self.topics, TOPICS_SECONDS))
            except GroupUnreadable as unread:
                missing = str(unread)
            self._update(replace(self.state.group, missing=missing))

    def assigned(self, generation: int) -> dict[Partition, CommittedOffset]:
        """Choose the model for a new generation by the marks of all input partitions (R3), and return their offsets.

        A v2 without any commit falls back here: the members of the new generation are not known yet (R5). Raises
        ModelRefused, UnknownMark, GroupUnreadable, LatchTopicError.
        """
        self._looking, self._ask_at = None, 0.0
        self._update(replace(self.state.group, generation=generation))
        partitions = self.reader.input_partitions(self.topics, ASK_SECONDS)
        self._update(replace(self.state.group, input_partitions=partitions, missing=_missing(self.topics, partitions)))
        offsets = self.reader.offsets(partitions, ASK_SECONDS)
        self._update(self.state.group.latched(latch(_marks(offsets)), "all marks"))
        if self.latch_topic is not None and self.state.group.latch is not Model.V2:
            found = self.latch_topic.read(ASK_SECONDS)
            self._update(replace(self.state.group, latch_in_topic=found).latched(found, "latch topic"))
        pinned_up = self.pinned is Model.V2 and self.state.group.latch is not Model.V2 and self.gate.open
        self._choose(self.reader.members(ASK_SECONDS).members if pinned_up else None)
        return offsets

    def has_offsets(self) -> bool:
        """Return whether the group has committed any offset, in whatever topic. Raises `GroupUnreadable`."""
        return bool(self.reader.offsets(None, ASK_SECONDS))

    def read(self, own: Mapping[Partition, CommittedOffset]) -> None:
        """Apply the marks of the new partitions, which were read stably (R1)."""
        found = latch(_marks(own))
        self._update(self.state.group.latched(found, "own marks"))
        if found is not None and found > self.state.group.model:
            self._choose()

    @property
    def offsets_are_stable(self) -> bool:
        """Whether every broker is seen to hold offsets of transactions back (OffsetFetch 7), whatever is latched."""
        return self.gate.decision.verdict == "open"

    # ------------------------------------------------------------------ between transactions

    @property
    def needs_group_state(self) -> bool:
        """Whether :meth:`look` would ask anything, or the next commit is bound to one generation.

        Only then is the generation read: the client takes as long for that as for the records of a short transaction.
        """
        return self.state.group.first_v2_generation is not None or self._looks()

    def look(self, generation: int) -> None:
        """Check the group without blocking, and move up if everything allows it. Raises UnknownMark."""
        self._update(replace(self.state.group, generation=generation))
        if not self._looks():
            return
        if self.state.group.model is Model.LEGACY:
            self._choose()  # the gate has opened: bridge needs no more than that
        if self._looking is None:
            if time.monotonic() >= self._ask_at:
                self._ask_at = time.monotonic() + self.every
                partitions = self.state.group.input_partitions
                self._looking = generation, self.reader.ask(), self.reader.ask_offsets(partitions)
        elif all(asked.done for asked in self._looking[1:]):
            look, self._looking = self._looking, None
            self._apply(*look)

    def commit_blocker(self) -> str | None:
        """Return why nothing may be committed, by the gate's current decision; None: commits are safe."""
        self._update(self.state.group.checked(self._decision))
        return self.state.group.commit_blocker

    @property
    def _decision(self) -> Decision:
        decision = self.gate.decision
        if self._identified:
            require_same_cluster(decision, self._cluster_id)
        return decision

    def _looks(self) -> bool:
        if self.state.group.model is Model.V2:
            return self.gate.decision.verdict == "closed"
        return self.pinned is None and self.gate.open

    def _apply(self, generation: int, members: PendingAnswer[GroupDescription], marks: _PendingOffsets) -> None:
        try:
            seen, all_marks = members.result(), marks.result()
        except GroupUnreadable as unread:
            logger.info("%s; asking again in %g s", unread, self.every)  # a broker is on its way down or up
            self._update(replace(self.state.group, coordinator=None))  # when it may move
            return
        found = replace(self.state.group, coordinator=seen.coordinator.node_id)
        self._update(found.latched(latch(_marks(all_marks)), "all marks"))
        self._choose(seen.members if generation == found.generation else None)

    def _choose(self, members: tuple[Member, ...] | None = None) -> None:
        self._update(self.state.group.choose(self.pinned, uncontradicted(self._decision), members))

    def _update(self, group: GroupState) -> None:
        for event in self.state.update(group):
            self.emit(event)


def _marks(offsets: Mapping[Partition, CommittedOffset]) -> Iterator[Mark]:
    return (mark for _, mark in offsets.values())


def _missing(topics: Sequence[str], partitions: Collection[Partition]) -> str | None:
    names = {name for name, _ in partitions}
    absent = [
        f"no topic that this user may describe matches {topic!r}"
        if topic.startswith("^")
        else f"no topic {topic!r} exists"
        for topic in topics
        if topic not in names and not (topic.startswith("^") and any(map(matcher(topic), names)))
    ]
    if not absent:
        return None
    return f"{', '.join(absent)}: create it, or correct 'topics'; the member takes it up by itself"


WATCH_SECONDS: Final = 60.0
_NAMED: Final = 3


@dataclass(eq=False, repr=False)
class GroupWatch:
    """Compares the offsets of a group with those of a minute before, without blocking the loop of its member.

    Brokers may keep a member that no process is, with its partitions, until the next rebalance (seen on 2.4): every
    other member does its work, and only the group's offsets show it.

    ``longest_round``: seconds for which a partition may stand still before an event says so: a round may take as long.
    """

    state: MemberState
    _: KW_ONLY
    reader: GroupReader
    emit: Callable[[SwitchEvent], None]
    longest_round: float
    clock: Callable[[], float] = time.monotonic
    _look: tuple[PendingAnswer[GroupDescription], _PendingOffsets, PendingEnds] | None = field(default=None, init=False)
    _progress: dict[Partition, PartitionProgress] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._next_at = self.clock() + WATCH_SECONDS

    def step(self) -> None:
        """Ask once a minute, and read what was answered. Raises `UnknownMark` where newer software has committed."""
        now, partitions = self.clock(), self.state.group.input_partitions
        if self._look is None:
            if partitions and now >= self._next_at:
                self._next_at = now + WATCH_SECONDS
                reader = self.reader
                self._look = reader.ask(), reader.ask_offsets(partitions), reader.ask_ends(partitions)
        elif all(asked.done for asked in self._look):
            (members, offsets, ends), self._look = self._look, None
            try:
                self._apply(members.result().owners, offsets.result(), ends.result(), now)
            except GroupUnreadable as unread:
                logger.info("%s; asking again in a minute", unread)

    def _apply(
        self,
        owners: Mapping[Partition, Member],
        offsets: Mapping[Partition, CommittedOffset],
        ends: Mapping[Partition, int],
        now: float,
    ) -> None:
        self._progress = observe(self._progress, {key: offset for key, (offset, _) in offsets.items()}, ends, now)
        before = {each.partition for each in self.state.stalled if each.seconds > self.longest_round}
        self.state.stalled = tuple(
            StalledPartition(
                partition=named([key]),
                owner=str(owners[key]) if key in owners else None,
                lag=progress.lag,
                seconds=seconds,
            )
            for key, progress in sorted(self._progress.items())
            if (seconds := progress.stalled_seconds(now)) is not None
        )
        late = [each for each in self.state.stalled if each.seconds > self.longest_round]
        if {each.partition for each in late} - before:
            self.emit(PartitionsStalled(partitions=len(late), why="; ".join(map(str, late[:_NAMED]))))
