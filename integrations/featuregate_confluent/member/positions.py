"""Offsets: those to commit, those to begin at, and those that a consumer is moved to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from featuregate_confluent.errors import MustRejoin
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.marks import Mark

if TYPE_CHECKING:
    from featuregate_confluent.client.committed import CommittedOffset
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.models import Model


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


def places(owned: Mapping[Partition, CommittedOffset], partitions: Iterable[Partition]) -> list[TopicPartition]:
    """Return the arguments of ``Consumer.assign()``; without an offset where nothing was committed."""
    found = ((key, owned[key][0]) for key in partitions)
    return [TopicPartition(*key, OFFSET_INVALID if position is None else position) for key, position in found]


def next_offsets(owned: Mapping[Partition, CommittedOffset]) -> dict[Partition, int]:
    """Return the next offset of each partition that has one."""
    return {key: position for key, (position, _) in owned.items() if position is not None}


def offsets_to_commit(
    owned: Mapping[Partition, CommittedOffset], ends: Mapping[Partition, int], model: Model
) -> list[TopicPartition]:
    """Return offsets to commit, each with the mark of a model (R7) and the app's own metadata."""
    return [
        TopicPartition(*key, end, marks.write(Mark(model, owned[key][1].app_metadata))) for key, end in ends.items()
    ]


def move(consumer: Consumer, offsets: Mapping[Partition, int]) -> None:
    """Let the consumer go on at these offsets. Raises MustRejoin (it cannot: the assignment is changing just now)."""
    try:
        for key, offset in offsets.items():
            consumer.seek(TopicPartition(*key, offset))
    except KafkaException as failure:
        raise MustRejoin(f"the consumer could not be moved: {failure.args[0]}") from failure


def rewind(consumer: Consumer, owned: Mapping[Partition, CommittedOffset], messages: Sequence[Message]) -> None:
    """Rewind the consumer to these messages, in the partitions that are still owned. Raises as :func:`move`."""
    first = {key: cast("int", some[0].offset()) for key, some in by_partition(messages).items() if key in owned}
    move(consumer, first | next_offsets({key: owned[key] for key in first}))


def take_back(consumer: Consumer, state: MemberState) -> None:
    """Rewind the consumer to a round that was not run to its end (R9).

    The app may have caught an error and left out the rest, which the next commit would skip. Raises as
    :func:`move`.
    """
    if state.unfinished:
        state.begin_assignment()  # nor may a transaction that is open still commit some of it
        rewind(consumer, state.partitions, state.in_hand)
    state.receive(())
