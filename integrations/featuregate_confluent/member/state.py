"""Everything that a member knows, of its group, too, in one box. Pure.

Only the thread of the loop changes it. Other threads may read single fields, whose values do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from featuregate_confluent.errors import SwitchFatal, position_of
from featuregate_confluent.events import CommitsBlocked, InputMissing, LatchRead, ModelChanged, SwitchEvent
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.protocol import LATCHED, Member, ModelChoice, Observation, Partition, decide
from featuregate_confluent.member.failure_limits import Failures
from featuregate_confluent.models import Model, PinnedModel

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

    from featuregate import Decision
    from featuregate_confluent.client.committed import CommittedOffset
    from featuregate_confluent.producing.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """The model of a member, and what :mod:`featuregate_confluent.latch.protocol` decides it from, as a value."""

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


COMMIT_SECONDS: Final = 5.0
"""A commit that brokers have not answered for longer is not in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledPartition:
    """A partition of the group whose committed offset has not moved, although there was more to consume."""

    partition: str
    """``topic[number]``"""
    owner: str | None
    """The member that it is assigned to, as brokers say; None: no member."""
    lag: int | None
    seconds: float
    """For how long, at least."""

    def __str__(self) -> str:
        return (
            f"{self.partition} has not moved for {self.seconds:.0f} s (lag {self.lag}), "
            f"{f'owned by {self.owner}' if self.owner else 'owned by no member'}"
        )


@dataclass(slots=True, eq=False)
class Assignment:
    """What a member was given between two changes of its partitions. A transaction keeps the one it runs in (R9)."""

    current: bool = True
    """Whether nothing has changed since. If not, other members own the messages, or the messages come again."""


@dataclass(slots=True)
class MemberState:
    """What a member knows of its group, its partitions, its transactions and its failures. It calls no client."""

    group: GroupState = field(default_factory=GroupState)
    """Change it with :meth:`update`."""
    partitions: Mapping[Partition, CommittedOffset] = field(default_factory=dict)
    """The partitions that are this member's: of each the next offset to process, None where nothing was ever committed,
    and the mark next to it."""
    assignment: Assignment = field(default_factory=Assignment)
    """The current assignment: a partition that is taken, dropped or taken back begins another one."""
    lost: str | None = None
    """Why nothing is this member's any more, before it joins again."""
    in_hand: Sequence[Message] = ()
    """The messages of the last poll."""
    left: set[int] = field(default_factory=set)
    """The identities of those that the app has not given to transactions."""
    last: dict[Partition, int] = field(default_factory=dict)
    """The highest offset in each partition of those that it has given."""
    given: int | None = None
    """How many it has given; None before the first call, which may be with none."""
    ended: int = 0
    """How many of them are in transactions that have ended, in whatever way."""
    under_way: set[Transaction] = field(default_factory=set)
    """Transactions whose producer is in use by a call, or whose outcome is not concluded yet."""
    committed: int = 0
    """Transactions that were committed."""
    stalled: tuple[StalledPartition, ...] = ()
    """The partitions of the group that stood still at the last look at it."""
    committed_at: float | None = None
    """When the last one was, on the monotonic clock; None: none was."""
    aborted: int = 0
    """Transactions that were aborted, or lost with their producer."""
    failures: Failures = field(default_factory=Failures)

    # ------------------------------------------------------------------ the group

    def update(self, group: GroupState) -> tuple[SwitchEvent, ...]:
        """Replace what is known of the group, and return the events of that."""
        before, self.group = self.group, group
        return tuple(events_between(before, group))

    # ------------------------------------------------------------------ partitions

    def begin_assignment(self) -> None:
        """End the assignment: no transaction of it may commit any more."""
        self.assignment.current = False
        self.assignment = Assignment()

    def take(self, found: Mapping[Partition, CommittedOffset]) -> dict[Partition, int]:
        """Own partitions from their committed offsets on.

        Returns where the consumer must be moved to: another has moved on in partitions that were owned before.
        """
        self.begin_assignment()
        before = self.partitions
        self.partitions = {**before, **found}
        return {
            key: position
            for key, (position, _) in found.items()
            if key in before and position is not None and position != before[key][0]
        }

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Own these partitions no more."""
        self.begin_assignment()
        dropped = set(partitions)
        self.partitions = {key: owned for key, owned in self.partitions.items() if key not in dropped}

    def clear(self) -> None:
        """Own nothing, and have no round in hand."""
        self.drop(self.partitions)
        self.receive(())
        self.lost = None

    def join(self) -> None:
        """Own nothing yet, in no generation: another consumer joins the group."""
        self.clear()
        self.group = replace(self.group, generation=-1)

    def lose(self, why: str) -> None:
        """Own nothing any more, before another consumer is there (R10)."""
        self.clear()
        self.lost = why

    def advance(self, committed: Iterable[TopicPartition]) -> None:
        """Go on behind offsets that were committed."""
        ends = {(each.topic, each.partition): (each.offset, marks.read(each.metadata)) for each in committed}
        self.partitions = {**self.partitions, **ends}

    # ------------------------------------------------------------------ the round in hand

    def receive(self, messages: Sequence[Message]) -> None:
        """Take the messages of a poll in hand, in place of those before. The app may take some off its own list."""
        self.in_hand, self.given, self.ended = tuple(messages), None, 0
        self.left, self.last = set(map(id, self.in_hand)), {}

    def begin(self, messages: Sequence[Message]) -> None:
        """Note that a round of these messages begins, which are those of the last poll or some of them.

        Raises SwitchFatal (they are not of that poll, were given before, or are before others that were: their offsets
        are committed already).
        """
        if not self.in_hand:
            self.in_hand, self.left = tuple(messages), set(map(id, messages))
        if not (now := set(map(id, messages))) <= self.left:
            raise SwitchFatal(
                "transactions() was given messages for a second time, or those of an earlier consume(): consume "
                "again, because messages of an aborted transaction come again"
            )
        ends: dict[Partition, int] = {}
        for each in messages if self.last or now != self.left else ():  # else it is the whole poll, the first time
            place, offset = cast("Partition", (each.topic(), each.partition())), each.offset() or 0
            if offset < self.last.get(place, 0):
                raise SwitchFatal(
                    f"transactions() was given {position_of(each)} after messages behind it, whose commit skips "
                    "it: give the messages of a partition in order, or all messages of a poll at once"
                )
            ends[place] = max(ends.get(place, 0), offset)
        self.last |= ends
        self.left -= now
        self.given = (self.given or 0) + len(messages)

    def end(self, messages: Sequence[Message]) -> None:
        """Note that a transaction of these messages has ended, in whatever way."""
        self.ended += len(messages)

    @property
    def unfinished(self) -> bool:
        """Whether the app has left out messages of its round, which the next commit would skip (R9).

        Those that it has not given to transactions are left out on purpose, if it has given others, or none of them.
        """
        return bool(self.in_hand) and (self.given is None or self.ended < self.given)

    # ------------------------------------------------------------------ health

    def health(self, now: float) -> dict[str, Any]:
        """Return the part of :meth:`ProducerSwitch.health` that comes from the state. Any thread may call it."""
        group = self.group  # one value: it does not change while it is read
        partitions, committed_at = len(self.partitions), self.committed_at
        ending = max((each.ending_seconds for each in tuple(self.under_way)), default=0.0)
        hangs = ending > COMMIT_SECONDS
        return {
            "model": group.model.label,
            "why": _unanswered(ending) if hangs else group.why,
            "waiting": hangs or group.commit_blocker is not None or (group.missing is not None and not partitions),
            "commit_seconds": ending,
            "seconds_since_commit": None if committed_at is None else now - committed_at,
            "latch": None if group.latch is None else group.latch.label,
            "generation": group.generation,
            "partitions": partitions,
            "committed": self.committed,
            "aborted": self.aborted,
            "aborting": self.failures.repeated,
            "stalled": [asdict(each) for each in self.stalled],
        }


def _unanswered(seconds: float) -> str:
    return (
        f"brokers have not answered a commit or abort for {seconds:.0f} s: a broker may be down or have a full disk, "
        "or too few replicas are in sync"
    )
