"""Rolls back the latch of a group for an operator. Nothing else ever lowers a latch.

Each committed offset is committed again at the same place, with a lower mark. That is done to an empty group only, and
brokers enforce that: they refuse a commit from outside while the group has members. They do *not* refuse one while a
transaction holds the offset. Then the outsider's commit wins, and what the transaction has produced is produced again;
so this looks for open transactions itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from featuregate_confluent.client import clients
from featuregate_confluent.client.committed import OffsetsReader, named
from featuregate_confluent.client.group import GroupDescription, GroupReader
from featuregate_confluent.client.pending import UNBOUNDED_SECONDS, GroupUnreadable, PendingAnswer, ask_until_answered
from featuregate_confluent.errors import SwitchError
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.marks import Mark
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS, description_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.latch.protocol import Member, Partition
    from featuregate_confluent.models import Model

_NAMED: Final = 5
_PROBE_SECONDS: Final = 2.0


class RollbackRefused(SwitchError):
    """It is not safe now, and nothing was changed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class MarkChange:
    """One committed offset, and its mark before and after."""

    partition: Partition
    offset: int
    before: Mark
    after: Mark
    leader_epoch: int
    """Committed with the offset, -1 where none was; it is kept, so that a log that was truncated is still noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """What a rollback would change. Two plans are equal if no member has committed in between."""

    changes: tuple[MarkChange, ...]
    latch_in_topic: bool
    """Whether the latch topic holds anything that must go."""
    offsets: int
    """How many committed offsets were seen: brokers leave out those of topics that this user must not describe."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.changes and not self.latch_in_topic


@dataclass(eq=False, repr=False)
class Rollback:
    """The rollback of one group to a model. :meth:`connect` makes one with clients of its own.

    ``stable`` reads offsets once no transaction holds them. Without its latch topic members would read the old latch
    there. Needs READ on the group and on its topics; with a latch topic also READ, WRITE and DESCRIBE_CONFIGS on it.
    """

    admin: AdminClient
    reader: GroupReader
    stable: OffsetsReader
    _: KW_ONLY
    group: str
    to: Model
    latch_topic: LatchTopic | None
    timeout: float

    @classmethod
    def connect(
        cls, config: Mapping[str, Any], group: str, *, to: Model, latch_topic: LatchTopic | None, timeout: float
    ) -> Self:
        """Make the clients for a rollback. Of ``config`` only the properties of the connection are used."""
        stable = OffsetsReader(config, group, isolation="read_committed")
        reader = GroupReader(config, group)
        return cls(clients.admin(config), reader, stable, group=group, to=to, latch_topic=latch_topic, timeout=timeout)

    def close(self) -> None:
        """Close the clients."""
        self.reader.close()
        self.stable.close()

    def plan(self) -> RollbackPlan:
        """Read the group, and return what would be changed. Raises RollbackRefused, UnknownMark."""
        seen = self._require_no_members()
        offsets = self._stable_offsets()
        latch_in_topic = self.latch_topic is not None and (self.latch_topic.read(self.timeout) or self.to) > self.to
        if not offsets and not latch_in_topic:
            if seen.state == "dead":
                raise RollbackRefused(f"brokers know no group {self.group!r}: check its name")
            raise RollbackRefused(
                f"group {self.group!r} is there, but shows no offset: they have expired, or this user lacks the right "
                "DESCRIBE on the topics, without which brokers say nothing of them"
            )
        marked = ((partition, found, marks.read(found.metadata)) for partition, found in offsets.items())
        return RollbackPlan(
            changes=tuple(
                MarkChange(partition, found.offset, mark, Mark(self.to, mark.app_metadata), _epoch(found))
                for partition, found, mark in sorted(marked, key=lambda row: row[0])
                if mark.model is not None and mark.model > self.to
            ),
            latch_in_topic=latch_in_topic,
            offsets=len(offsets),
        )

    def carry_out(self, plan: RollbackPlan) -> None:
        """Do what was planned, if the group is still as it was, and read back that it is done.

        Offsets come first: a member that joins in between still finds the latch in the topic, and moves up again.
        Raises RollbackRefused, or SwitchError where it was begun and is not done.
        """
        if self.plan() != plan:
            raise RollbackRefused(
                f"group {self.group!r} has moved since it was read: a member commits there. Nothing was changed; "
                "find and stop that member, then run this again"
            )
        if plan.changes:
            self._commit(plan.changes)
        if plan.latch_in_topic and self.latch_topic is not None:
            self.latch_topic.erase(self.timeout)
        left = self.plan()
        done = {(change.partition, change.offset): change.after for change in plan.changes}
        found = {
            (partition, offset): mark
            for partition, (offset, mark) in self.reader.offsets([p for p, _ in done], self.timeout).items()
        }
        if not left.empty or found != done:
            raise SwitchError(
                f"group {self.group!r} does not read back as it was written: a member commits there. "
                "Find and stop that member, then run this again"
            )

    def _commit(self, changes: Iterable[MarkChange]) -> None:
        request = ConsumerGroupTopicPartitions(
            self.group,
            [
                TopicPartition(*change.partition, change.offset, marks.write(change.after), change.leader_epoch)
                for change in changes
            ],
        )
        future = self.admin.alter_consumer_group_offsets([request], request_timeout=UNBOUNDED_SECONDS)[self.group]
        what = f"rewriting the offsets of group {self.group!r}"
        answer = PendingAnswer(self.admin, future, what, lambda answer: answer.topic_partitions, self.timeout).result()
        refused = {(found.topic, found.partition): found.error for found in answer if found.error is not None}
        if refused:
            error = next(iter(refused.values()))
            joined = error.code() == KafkaError.UNKNOWN_MEMBER_ID
            todo = "A member has joined: stop it" if joined else "It needs the right READ on the group and its topics"
            raise SwitchError(
                f"the offsets of {named(refused)} were not rewritten: {description_of(error)}. {todo}, then run "
                "this again"
            )

    def _require_no_members(self) -> GroupDescription:
        seen = self.reader.members(self.timeout)
        if seen.empty:
            return seen
        alive = "; ".join(str(member) for member in seen.members[:_NAMED]) or "a member is joining or leaving"
        more = f"; and {len(seen.members) - _NAMED} more" if len(seen.members) > _NAMED else ""
        raise RollbackRefused(
            f"group {self.group!r} is {seen.state}, not empty: {alive}{more}. Stop every member"
            f"{_about_static(seen.members)}"
        )

    def _stable_offsets(self) -> dict[Partition, TopicPartition]:
        """Return what is committed, and refuse where a transaction holds any offset of the same topics.

        A partition whose very first offset is held is in no list of the group's: so all of each topic are asked for.
        """
        known = set(self.reader.offsets(timeout=self.timeout))
        partitions = sorted(known | set(self.reader.input_partitions({topic for topic, _ in known}, self.timeout)))
        if not partitions:
            return {}
        found = self._ask_stable(partitions, self.timeout)
        if found is None:
            raise RollbackRefused(
                f"an open transaction holds the offset of {named([self._one_held(partitions)])}, maybe of others too, "
                "and rewriting it would produce its output again. A member that was stopped, or died, has left it "
                "open: the broker ends it transaction.timeout.ms after it began, at most 10 s late. Wait, then "
                "run this again"
            )
        return found

    def _ask_stable(self, partitions: list[Partition], timeout: float) -> dict[Partition, TopicPartition] | None:
        """Return what is committed; None where a transaction holds some of it, for the broker says so by no answer."""
        try:
            return ask_until_answered(lambda left: self.stable.ask(partitions, _sort_out, left).result(), timeout)
        except GroupUnreadable as unread:
            if unread.error is None or unread.error.code() in TRANSIENT_ERRORS:
                return None  # the group was read a moment ago: its coordinator is there
            raise

    def _one_held(self, partitions: list[Partition]) -> Partition:
        """Find a partition whose offset is held, by halves."""
        while len(partitions) > 1:
            half = partitions[: len(partitions) // 2]
            partitions = half if self._ask_stable(half, _PROBE_SECONDS) is None else partitions[len(half) :]
        return partitions[0]


def _sort_out(found: Iterable[TopicPartition]) -> dict[Partition, TopicPartition]:
    stable: dict[Partition, TopicPartition] = {}
    for offset in found:
        place = (offset.topic, offset.partition)
        if offset.error is not None:
            raise GroupUnreadable(f"the offset of {named([place])}", offset.error)
        if offset.offset >= 0:
            stable[place] = offset
    return stable


def _about_static(members: tuple[Member, ...]) -> str:
    if any(member.instance_id is not None for member in members):
        return "; a static one is in the group until its session.timeout.ms is over, stopped or not"
    return ""


def _epoch(found: TopicPartition) -> int:
    epoch: int | None = found.leader_epoch  # None where there is none, whatever its type says
    return -1 if epoch is None else epoch
