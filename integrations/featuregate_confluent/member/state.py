"""Everything that a member knows, in one box. Pure.

Only the thread of the loop changes it. Other threads may read single fields, whose values do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from featuregate_confluent.errors import SwitchFatal
from featuregate_confluent.latch import marks
from featuregate_confluent.member.failure_limits import Failures
from featuregate_confluent.member.group_state import GroupState, events_between
from featuregate_confluent.producing.owner import Assignment

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

    from featuregate_confluent.client.committed import CommittedOffset
    from featuregate_confluent.events import SwitchEvent
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.producing.transaction import Transaction


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
    given: tuple[Sequence[Message], ...] = ()
    """Those of them that the app has given to transactions, by call."""
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
        """Take the messages of a poll in hand, in place of those before."""
        self.in_hand, self.given, self.ended = messages, (), 0

    def begin(self, messages: Sequence[Message]) -> None:
        """Note that a round of these messages begins, which are those of the last poll or some of them.

        Raises SwitchFatal (they are not of that poll, or were given before).
        """
        self.in_hand = self.in_hand or messages
        if messages is not self.in_hand or self.given:  # else it is the whole poll, for the first time
            before, now = {id(each) for some in self.given for each in some}, set(map(id, messages))
            if not (now.isdisjoint(before) and now.issubset(map(id, self.in_hand))):
                raise SwitchFatal(
                    "transactions() was given messages for a second time, or those of an earlier consume(): consume "
                    "again, because messages of an aborted transaction come again"
                )
        self.given = (*self.given, messages)

    def end(self, messages: Sequence[Message]) -> None:
        """Note that a transaction of these messages has ended, in whatever way."""
        self.ended += len(messages)

    @property
    def unfinished(self) -> bool:
        """Whether the app has left out messages of its round, which the next commit would skip (R9).

        Those that it has not given to transactions are left out on purpose, if it has given others, or none of them.
        """
        return bool(self.in_hand) and (not self.given or self.ended < sum(map(len, self.given)))

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
