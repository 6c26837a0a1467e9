"""Describes a group: its members, its committed offsets, its input partitions.

A member reads the offsets that it has just been given by :func:`~.committed.stable_read`, which waits for transactions
that hold one (R1). :meth:`GroupReader.peek` waits for nothing, and is for all input partitions (R3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # not re-exported

from featuregate.errors import ClosedError
from featuregate_confluent.client import clients
from featuregate_confluent.client.committed import CommittedOffset, OffsetsReader, read_all
from featuregate_confluent.client.pending import UNBOUNDED_SECONDS, GroupUnreadable, PendingAnswer, ask_until_answered
from featuregate_confluent.latch.protocol import Member, Partition
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS

T = TypeVar("T")

_CONTROLLER_SECONDS: Final = 3.0
_ENDS_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that keeps the group."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, as its coordinator describes it."""

    members: tuple[Member, ...]
    """The members that the coordinator counts as alive: a static member until its session times out, closed or not."""
    coordinator: Coordinator
    state: str
    """``stable``, ``empty``, ``dead`` (there is no such group), ``preparing-rebalancing``, ``completing-rebalancing``,
    or ``unknown``: what librdkafka calls a group of KIP-848 while it reconciles."""
    kind: str
    """``classic``, ``consumer`` (KIP-848) or ``unknown``."""
    owners: Mapping[Partition, Member] = field(default_factory=dict)
    """The member that each partition is assigned to."""

    @property
    def empty(self) -> bool:
        """Whether the group has no members, and none is joining."""
        return not self.members and self.state in {"empty", "dead"}


class PendingEnds:
    """The ends of partitions, which may not have arrived yet."""

    def __init__(self, asked: Mapping[Partition, PendingAnswer[int]]) -> None:
        self._asked = asked

    @property
    def done(self) -> bool:
        """Whether :meth:`result` returns at once."""
        return all(asked.done for asked in self._asked.values())

    def result(self) -> dict[Partition, int]:
        """Wait for the ends; of a partition whose leader does not answer there is none."""
        found = {}
        for key, asked in self._asked.items():
            with suppress(GroupUnreadable):
                found[key] = asked.result()
        return found


class GroupReader:
    """Reads one group with a client of its own, which has the connection and the rights of the app's consumer.

    Needs DESCRIBE on the group and on its topics; READ implies both. One thread at a time.
    """

    def __init__(self, config: Mapping[str, Any], group_id: str) -> None:
        self._group_id = group_id
        self._config = config = dict(config)  # an app may change its own for its next client
        self._admin: AdminClient | None = None  # made when it is needed, so that no forked process inherits its threads
        self._closed = False
        self._offsets = OffsetsReader(config, group_id, isolation="read_uncommitted")
        self._asked: list[PendingAnswer[Any]] = []

    def ask(self, timeout: float = 10.0) -> PendingAnswer[GroupDescription]:
        """Request the members of the group without blocking."""
        admin = self._client()
        future = admin.describe_consumer_groups([self._group_id], request_timeout=UNBOUNDED_SECONDS)[self._group_id]
        return self._note(PendingAnswer(admin, future, f"who is in group {self._group_id!r}", _seen, timeout))

    def members(self, timeout: float = 10.0) -> GroupDescription:
        """Return the members of the group within these seconds; retry while it moves. Raises `GroupUnreadable`."""
        return ask_until_answered(lambda left: self.ask(left).result(), timeout)

    def ask_offsets(
        self, partitions: Iterable[Partition] | None = None, timeout: float = 10.0
    ) -> PendingAnswer[dict[Partition, CommittedOffset]]:
        """Ask for committed offsets as they are, pending transactions left aside, and return at once.

        Without partitions, for all in which the group has committed anything.
        """
        what = f"what group {self._group_id!r} has committed"
        if partitions is None:
            return self._offsets.ask(None, lambda found: _only_committed(read_all(what, (), found)), timeout)
        wanted = sorted(set(partitions))
        return self._offsets.ask(wanted, lambda found: read_all(what, wanted, found), timeout)

    def offsets(
        self, partitions: Iterable[Partition] | None = None, timeout: float = 10.0
    ) -> dict[Partition, CommittedOffset]:
        """Return what :meth:`ask_offsets` does; retry while the group moves. Raises GroupUnreadable, UnknownMark."""
        return ask_until_answered(lambda left: self.ask_offsets(partitions, left).result(), timeout)

    def ask_ends(self, partitions: Iterable[Partition], timeout: float = 10.0) -> PendingEnds:
        """Ask for the ends of partitions, as ``read_committed`` shows them, and return at once."""
        admin, wanted = self._client(), sorted(set(partitions))
        if not wanted:
            return PendingEnds({})
        latest = {TopicPartition(*key): OffsetSpec.latest() for key in wanted}  # type: ignore[no-untyped-call]
        futures = admin.list_offsets(
            latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=min(timeout, _ENDS_SECONDS)
        )
        return PendingEnds(
            {
                (place.topic, place.partition): PendingAnswer(
                    admin,
                    future,
                    f"the end of {place.topic}[{place.partition}]",
                    lambda found: int(found.offset),
                    timeout,
                )
                for place, future in futures.items()
            }
        )

    def input_partitions(self, topics: Iterable[str], timeout: float = 10.0) -> tuple[Partition, ...]:
        """Return all partitions of what a consumer subscribes to: names, and patterns that begin with ``^``.

        A topic that does not exist has none. Patterns are matched generously: with one partition too many a peek is
        slower, with one too few it is wrong. Raises `GroupUnreadable`.
        """
        wanted = set(topics)
        patterns = {topic for topic in wanted if topic.startswith("^")}
        found = self._partitions_of(sorted(wanted - patterns), timeout)
        if patterns:
            tests = [matcher(pattern) for pattern in patterns]
            found |= self._partitions_where(lambda name: any(test(name) for test in tests), timeout)
        return tuple(sorted(found))

    def _partitions_of(self, names: list[str], timeout: float) -> set[Partition]:
        if not names:
            return set()
        try:
            return self._described(names, min(timeout, _CONTROLLER_SECONDS))
        except GroupUnreadable as error:
            if error.error is not None and error.error.code() not in TRANSIENT_ERRORS:
                raise
        # The client asks what it takes for the controller, which may be the broker that is away. Metadata comes from
        # any; of all topics, for an admin client that asks for one by its name may create it.
        return self._partitions_where(lambda name: name in names, timeout)

    def _described(self, names: list[str], timeout: float) -> set[Partition]:
        admin = self._client()
        futures = admin.describe_topics(TopicCollection(names), request_timeout=timeout)
        found: set[Partition] = set()
        for name in names:
            asked = PendingAnswer(
                admin, futures[name], f"the partitions of topic {name!r}", lambda answer: answer, timeout
            )
            try:
                found.update((name, partition.id) for partition in asked.result().partitions)
            except GroupUnreadable as error:
                if error.error is None or error.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return found

    def _partitions_where(self, test: Callable[[str], object], timeout: float) -> set[Partition]:
        topics = ask_until_answered(self._topics, timeout)
        return {(name, number) for name, topic in topics.items() if test(name) for number in topic.partitions}

    def _topics(self, timeout: float) -> Mapping[str, Any]:
        """Ask any broker for all topics; another one where the first says nothing."""
        try:
            return self._client().list_topics(timeout=min(timeout, _CONTROLLER_SECONDS)).topics
        except KafkaException as error:
            raise GroupUnreadable("the topics of this cluster", error.args[0]) from error

    def close(self) -> None:
        """Close the clients. Requests under way may stay unanswered; another request raises `ClosedError`."""
        self._admin, self._closed = None, True
        for asked in self._asked:
            asked.release_client()
        self._offsets.close()

    def _client(self) -> AdminClient:
        if self._closed:
            raise ClosedError("this GroupReader is closed")
        if self._admin is None or any(asked.late or asked.misdirected for asked in self._asked):
            # Requests that have timed out end with the old client. So does the coordinator that librdkafka remembers:
            # its admin client asks that broker again and again, although the broker has answered NOT_COORDINATOR.
            self._admin = clients.admin(self._config)
        self._asked = [asked for asked in self._asked if not asked.done]
        self._admin.poll(0)  # no other call serves its log
        return self._admin

    def _note(self, asked: PendingAnswer[T]) -> PendingAnswer[T]:
        self._asked.append(asked)
        return asked


class GroupMembers:
    """Asks brokers for the member ids of a consumer group: what :class:`~featuregate_confluent.GroupGate` takes.

    Parameters
    ----------
    config
        The consumer's properties; only those about the connection are used.
    group
        The ``group.id``.
    timeout
        Seconds for one answer, at the most.

    Notes
    -----
    Needs the right DESCRIBE on the group, which READ implies.
    """

    def __init__(self, config: Mapping[str, Any], group: str, *, timeout: float = 10.0) -> None:
        self._reader = GroupReader(config, group)
        self._timeout = timeout

    def __call__(self) -> frozenset[str]:
        """Return the ids of the live members. Raises `GroupUnreadable`."""
        return frozenset(member.member_id for member in self._reader.members(self._timeout).members)

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


def _seen(group: Any) -> GroupDescription:  # an admin.ConsumerGroupDescription, which is not exported for type checkers
    node = group.coordinator
    members = [(_member(member), member.assignment.topic_partitions) for member in group.members]
    return GroupDescription(
        members=tuple(member for member, _ in members),
        owners={(place.topic, place.partition): member for member, places in members for place in places},
        coordinator=Coordinator(node.id, node.host, node.port),
        state=group.state.name.lower().replace("_", "-"),
        kind=group.type.name.lower(),
    )


def _member(member: Any) -> Member:
    return Member(
        member_id=member.member_id, client_id=member.client_id, instance_id=member.group_instance_id, host=member.host
    )


def _only_committed(read: dict[Partition, CommittedOffset]) -> dict[Partition, CommittedOffset]:
    return {partition: found for partition, found in read.items() if found[0] is not None}


def matcher(pattern: str) -> Callable[[str], object]:
    """Return a predicate: whether a topic matches a pattern, which begins with ``^``.

    Consumers match by POSIX's rules in librdkafka, and by RE2/J's on brokers (KIP-848). Where Python might understand
    a pattern otherwise than they do, every topic matches: too many cost time, too few might leave a latch out.
    """
    if re.search(r"\[[:.=]|\\[pPQECXR]|\(\?", pattern):
        return bool
    try:
        return re.compile(pattern).search
    except (re.error, RecursionError, OverflowError):
        return bool
