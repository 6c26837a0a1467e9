"""The partitions that are this member's, and how far each is processed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition

from featuregate_confluent.errors import MustRejoin
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.producing.assignment import Assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, Message

    from featuregate_confluent.latch.models import Model
    from featuregate_confluent.latch.protocol import Partition

__all__ = ["AssignedPartitions", "by_partition", "ends_of"]


@dataclass(slots=True)
class _Owned:
    position: int | None
    """The next offset to process; None where nothing was ever committed."""
    mark: Mark


def by_partition(messages: Iterable[Message]) -> dict[Partition, list[Message]]:
    """Sort messages by their partition; the order within one stays."""
    sorted_out: dict[Partition, list[Message]] = {}
    for message in messages:
        partition = cast("Partition", (message.topic(), message.partition()))  # both are there once it was consumed
        sorted_out.setdefault(partition, []).append(message)
    return sorted_out


def ends_of(messages: Iterable[Message]) -> dict[Partition, int]:
    """Return for each partition the offset after the last of its messages."""
    last = {(message.topic(), message.partition()): message for message in messages}
    return {cast("Partition", key): cast("int", message.offset()) + 1 for key, message in last.items()}


class AssignedPartitions:
    """What is assigned, from where on it is unprocessed, and the app's own text beside its offset."""

    def __init__(self) -> None:
        self._owned: dict[Partition, _Owned] = {}
        self.assignment = Assignment()
        """Of now: anything taken, dropped or taken back begins another one."""
        self.lost: str | None = None
        """Why nothing is this member's any more, before it joins again."""
        self._in_hand: Sequence[Message] = ()
        self._ended = 0

    def __len__(self) -> int:
        return len(self._owned)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._owned)

    def _begin_assignment(self) -> None:
        self.assignment.current = False
        self.assignment = Assignment()

    def take(self, consumer: Consumer, found: Mapping[Partition, tuple[int | None, Mark]]) -> None:
        """Own partitions from their committed offsets on; those that were owned before, wherever it is now.

        Raises
        ------
        MustRejoin
            Another has moved on in a partition that was owned, and the consumer cannot be moved just now.
        """
        self._begin_assignment()
        before = dict(self._owned)
        self._owned |= {key: _Owned(position, mark) for key, (position, mark) in found.items()}
        try:
            for key, (position, _) in found.items():
                if key in before and position is not None and position != before[key].position:
                    consumer.seek(TopicPartition(*key, position))
        except KafkaException as failure:
            raise MustRejoin(f"the consumer could not be moved: {failure.args[0]}") from failure

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Own these partitions no more."""
        self._begin_assignment()
        for key in partitions:
            self._owned.pop(key, None)

    def clear(self) -> None:
        """Own nothing yet: the consumer is another one."""
        self.drop(list(self._owned))
        self._in_hand = ()
        self.lost = None

    def lose(self, why: str) -> None:
        """Own nothing any more, before another consumer is there (R10)."""
        self.clear()
        self.lost = why

    def places(self, partitions: Iterable[Partition]) -> list[TopicPartition]:
        """Return the arguments of ``Consumer.assign()``; without an offset where nothing was committed."""
        found = ((key, self._owned[key].position) for key in partitions)
        return [TopicPartition(*key, OFFSET_INVALID if position is None else position) for key, position in found]

    def positions(self) -> dict[Partition, int]:
        """Return the next offset of each partition that has one."""
        return {key: owned.position for key, owned in self._owned.items() if owned.position is not None}

    def offsets(self, ends: Mapping[Partition, int], model: Model) -> list[TopicPartition]:
        """Return offsets to commit, each with the mark of a model (R7) and the app's own metadata."""
        return [
            TopicPartition(*key, end, marks.write(Mark(model, self._owned[key].mark.app_metadata)))
            for key, end in ends.items()
        ]

    def advance(self, committed: Iterable[TopicPartition]) -> None:
        """Go on behind offsets that were committed."""
        for each in committed:
            self._owned[each.topic, each.partition] = _Owned(each.offset, marks.read(each.metadata))

    def begin(self, messages: Sequence[Message]) -> None:
        """Note that a round of these messages begins."""
        self._in_hand, self._ended = messages, 0

    def end(self, messages: Sequence[Message]) -> None:
        """Note that a transaction of these messages has ended, in whatever way."""
        self._ended += len(messages)

    def take_back(self, consumer: Consumer) -> None:
        """Rewind the consumer to a round that was not run to its end (R9).

        The app may have caught an error and left out the rest, which the next commit would skip.

        Raises
        ------
        MustRejoin
            As :meth:`rewind`.
        """
        if self._ended < len(self._in_hand):
            self._begin_assignment()  # nor may a transaction that is open still commit some of it
            self.rewind(consumer, self._in_hand)
        self._in_hand = ()

    def rewind(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        """Rewind the consumer to these messages, in the partitions that are still owned.

        Raises
        ------
        MustRejoin
            It cannot: the assignment is changing just now.
        """
        try:
            for key, some in by_partition(messages).items():
                if key in self._owned:
                    position = self._owned[key].position
                    first = some[0].offset() if position is None else position
                    consumer.seek(TopicPartition(*key, cast("int", first)))
        except KafkaException as failure:
            raise MustRejoin(f"the consumer could not be rewound: {failure.args[0]}") from failure
