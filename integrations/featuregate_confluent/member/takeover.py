"""Takes over the partitions of an assignment, and releases them: producers first, then offsets, then the model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from featuregate_confluent.client.committed import stable_read
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.error_actions import ErrorAction, action_for
from featuregate_confluent.errors import LatchTopicUnreadable, MustRejoin, SwitchFatal
from featuregate_confluent.events import PartitionsTakenOver
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import ids_to_take, partitions_to_read
from featuregate_confluent.member.positions import move

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer

    from featuregate_confluent.events import SwitchEvent
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.member.group_observer import GroupObserver
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.models import Model
    from featuregate_confluent.producing.producers import Producers

SLACK_SECONDS: Final = 30.0
"""Beyond the transaction's timeout: coordinators check for timeouts every ten seconds, and brokers restart."""


class Takeover:
    """Takes partitions over in the order of the rules, whenever the group or the model changes.

    A group that cannot be read makes the member rejoin; a missing right stops it.
    """

    def __init__(
        self,
        state: MemberState,
        *,
        producers: Producers,
        observer: GroupObserver,
        emit: Callable[[SwitchEvent], None],
        transaction_seconds: float,
    ) -> None:
        self._state = state
        self._producers = producers
        self._observer = observer
        self._emit = emit
        self._wait_seconds = transaction_seconds + SLACK_SECONDS

    def take(self, consumer: Consumer, new: Sequence[Partition], generation: int) -> None:
        """Decide in a new generation, and take over new partitions.

        Raises
        ------
        MustRejoin
            It failed, and a new member may succeed.
        ModelRefused, UnknownMark, LatchTopicError, SwitchFatal
            This member must not take part as it is.
        """
        began, before = time.monotonic(), self._state.group.model
        try:
            self._observer.identify(consumer)
            all_marks = self._observer.assigned(generation)
            self._take_producers(new, {key: all_marks.get(key, Mark(None)) for key in new})
            self._read(consumer, before, new)
        except GroupUnreadable as unread:
            raise _unread(unread) from unread
        except LatchTopicUnreadable as unread:
            raise MustRejoin(str(unread)) from unread
        self._emit(PartitionsTakenOver(partitions=len(new), seconds=time.monotonic() - began, generation=generation))

    def look(self, consumer: Consumer, generation: int) -> None:
        """Check the group without blocking; change the producers if that changes the model.

        Raises
        ------
        MustRejoin, UnknownMark, SwitchFatal
            As :meth:`take`.
        """
        before = self._state.group.model
        self._observer.look(generation)
        if self._state.group.model.per_partition is before.per_partition:
            return
        self._have_producers()
        try:
            self._read(consumer, before, ())
        except GroupUnreadable as unread:
            raise _unread(unread) from unread

    def give_back(self, partitions: Sequence[Partition]) -> None:
        """Release partitions early, so that their next owner need not wait for the producers."""
        self._state.drop(partitions)
        self._producers.close_for(partitions)

    def _take_producers(self, new: Sequence[Partition], marks: Mapping[Partition, Mark]) -> None:
        """Open the producers that fence the previous owners of these partitions (R6, R8)."""
        ids = ids_to_take(self._state.group.model, marks)
        if self._state.group.model.per_partition:
            self._producers.open(ids)
            self._have_producers()
        else:
            self._producers.fence(ids)
            if new:
                self._producers.open_for_process()

    def _have_producers(self) -> None:
        """Open the producers of the model for the partitions that are owned already."""
        if self._state.group.model.per_partition:
            # Kept partitions have producers, unless a v2 without any commit had closed them.
            self._producers.open([key for key in self._state.partitions if key not in self._producers])
        else:
            self._producers.open_for_process()

    def _read(self, consumer: Consumer, before: Model, new: Sequence[Partition]) -> None:
        """Read the offsets after the producers are open (R8), and move up if the marks say that the group is in v2.

        Where the producers change, that is all partitions (R12). Another member may have had the transactional id of a
        partition meanwhile, and committed while brokers did not check the group yet. Brokers report that to a producer
        with that id; a producer with the id of the process sees it by the offset alone.
        """
        while True:
            model = self._state.group.model
            wanted = partitions_to_read(before, model, {*self._state.partitions, *new}, new)
            found = stable_read(consumer, wanted, self._wait_seconds)
            move(consumer, self._state.take(found))
            self._observer.read({key: mark for key, (_, mark) in found.items()})
            if self._state.group.model.per_partition is model.per_partition:
                return
            self._producers.open_for_process()
            before, new = model, ()  # at most once: a model never goes down here


def _unread(unread: GroupUnreadable) -> MustRejoin | SwitchFatal:
    refused = unread.error is not None and action_for(unread.error) is ErrorAction.FATAL
    return (SwitchFatal if refused else MustRejoin)(str(unread))
