"""Takes over the partitions of an assignment, and releases them: producers first, then offsets, then the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TYPE_CHECKING, Final

from featuregate.logs import get_logger
from featuregate_confluent.client.committed import CommittedOffset, named, settled_read, stable_read
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import LatchTopicUnreadable, MustRejoin, SwitchFatal
from featuregate_confluent.events import PartitionsTakenOver, SwitchEvent
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Partition, ids_to_take, partitions_to_read
from featuregate_confluent.member.positions import move, next_offsets
from featuregate_librdkafka.error_table import ErrorAction, action_for

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from featuregate_confluent.member.group_observer import GroupObserver
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.models import Model
    from featuregate_confluent.producing.producers import Producers

logger = get_logger("featuregate.confluent")

SLACK_SECONDS: Final = 30.0
"""Beyond the transaction's timeout: coordinators check for timeouts every ten seconds, and brokers restart."""


@contextmanager
def _rejoining() -> Iterator[None]:
    """Make the member rejoin where its group cannot be read, and stop it where a right is missing."""
    try:
        yield
    except GroupUnreadable as unread:
        refused = unread.error is not None and action_for(unread.error) is ErrorAction.FATAL
        raise (SwitchFatal if refused else MustRejoin)(str(unread)) from unread
    except LatchTopicUnreadable as unread:
        raise MustRejoin(str(unread)) from unread


@dataclass(eq=False, repr=False)
class Takeover:
    """Takes partitions over in the order of the rules, whenever the group or the model changes."""

    state: MemberState
    _: KW_ONLY
    producers: Producers
    observer: GroupObserver
    emit: Callable[[SwitchEvent], None]
    transaction_seconds: InitVar[float]
    _without_offset: set[Partition] = field(default_factory=set, init=False)
    _identified = True

    def __post_init__(self, transaction_seconds: float) -> None:
        self._wait_seconds = transaction_seconds + SLACK_SECONDS

    @_rejoining()
    def take(self, consumer: Consumer, new: Sequence[Partition], generation: int) -> None:
        """Decide in a new generation, and take over new partitions. Raises MustRejoin where a new member may do so."""
        began, before = time.monotonic(), self.state.group.model
        self._identified = False
        offsets = self.observer.assigned(generation)
        self._require_offsets(consumer, offsets)
        self._take_producers(new, {key: offsets[key][1] if key in offsets else Mark(None) for key in new})
        self._read(consumer, before, new)
        self._warn_of_resets(new)
        self.emit(PartitionsTakenOver(partitions=len(new), seconds=time.monotonic() - began, generation=generation))

    @_rejoining()
    def identify(self, consumer: Consumer) -> None:
        """Compare the consumer's cluster with the gate's, once after each assignment and before its messages.

        Not within the callback of the assignment: see :func:`read_cluster_id`. Raises as :meth:`take`.
        """
        if not self._identified:
            self.observer.identify(consumer)
            self._identified = True

    @_rejoining()
    def look(self, consumer: Consumer, generation: int) -> None:
        """Check the group without blocking; change the producers if that changes the model. Raises as :meth:`take`."""
        before = self.state.group.model
        self.observer.look(generation)
        if self.state.group.model.per_partition is not before.per_partition:
            self._have_producers()
            self._read(consumer, before, ())

    @_rejoining()
    def renew(self, consumer: Consumer, partitions: Collection[Partition]) -> bool:
        """Replace producers that may have sent a request twice, and read their offsets again (R8).

        Another member may have had the transactional id meanwhile. Return whether the offsets are as they were.
        Raises as :meth:`look`.
        """
        before = next_offsets(self.state.partitions)
        if renewed := self.producers.renew(partitions):
            self._read(consumer, self.state.group.model, renewed)
        return next_offsets(self.state.partitions) == before

    def give_back(self, partitions: Sequence[Partition]) -> None:
        """Release partitions early, so that their next owner need not wait for the producers."""
        self.state.drop(partitions)
        self.producers.close_for(partitions)

    def _require_offsets(self, consumer: Consumer, offsets: Mapping[Partition, CommittedOffset]) -> None:
        """Return unless the group is known to have committed, and brokers have no offset of it any more.

        Those as they are do not show a commit whose markers are still on their way, and which a latch topic shows.
        """
        if self.state.group.latch is None or not _none_committed(offsets):
            return
        if _none_committed(self._read_offsets(consumer, offsets)) and not self.observer.has_offsets():
            raise SwitchFatal(
                f"the group has committed in {self.state.group.latch.label} ({self.state.group.latch_source}), and "
                f"brokers have no offset of it any more, in {named(offsets)}: they delete the offsets of a group "
                "without members after offsets.retention.minutes, and those of a topic with the topic. "
                "auto.offset.reset would process everything again, or skip what was not processed. Choose where the "
                "group begins, then start again: kafka-consumer-groups.sh --reset-offsets --group GROUP --topic TOPIC "
                "--execute with --to-datetime, --to-earliest or --to-latest"
            )

    def _warn_of_resets(self, new: Sequence[Partition]) -> None:
        """Warn once of each partition of a latched group that begins where auto.offset.reset says."""
        begin = {key for key in new if self.state.partitions[key][0] is None} - self._without_offset
        self._without_offset |= begin
        if begin and self.state.group.latch is not None:
            logger.warning(
                "the group has no committed offset in %s: the partition is new, had no messages yet, or its offset was "
                "deleted; it begins where auto.offset.reset says",
                named(begin),
            )

    def _take_producers(self, new: Sequence[Partition], marks: Mapping[Partition, Mark]) -> None:
        """Open the producers that fence the previous owners of these partitions (R6, R8)."""
        ids = ids_to_take(self.state.group.model, marks)
        if self.state.group.model.per_partition:
            self.producers.open(ids)
            self._have_producers()
        else:
            self.producers.fence(ids)
            if new:
                self.producers.open_for_process()

    def _have_producers(self) -> None:
        """Open the producers of the model for the partitions that are owned already."""
        if self.state.group.model.per_partition:
            # Kept partitions have producers, unless a v2 without any commit had closed them.
            self.producers.open([key for key in self.state.partitions if key not in self.producers])
        else:
            self.producers.open_for_process()

    def _read_offsets(self, consumer: Consumer, partitions: Iterable[Partition]) -> dict[Partition, CommittedOffset]:
        """Read the offsets that no transaction holds, nor will change once its producer is fenced (R1)."""
        read = stable_read if self.observer.offsets_are_stable else settled_read
        return read(consumer, partitions, self._wait_seconds)

    def _read(self, consumer: Consumer, before: Model, new: Sequence[Partition]) -> None:
        """Read the offsets after the producers are open (R8), and move up if the marks say that the group is in v2.

        Where the producers change, that is all partitions (R12). Another member may have had the transactional id of a
        partition meanwhile, and committed while brokers did not check the group yet. Brokers report that to a producer
        with that id; a producer with the id of the process sees it by the offset alone.
        """
        while True:
            model = self.state.group.model
            wanted = partitions_to_read(before, model, {*self.state.partitions, *new}, new)
            found = self._read_offsets(consumer, wanted)
            move(consumer, self.state.take(found))
            self.observer.read(found)
            if self.state.group.model.per_partition is model.per_partition:
                return
            self.producers.open_for_process()
            before, new = model, ()  # at most once: a model never goes down here


def _none_committed(offsets: Mapping[Partition, CommittedOffset]) -> bool:
    """Whether there are partitions, and none of them has a committed offset."""
    return bool(offsets) and all(position is None for position, _ in offsets.values())
