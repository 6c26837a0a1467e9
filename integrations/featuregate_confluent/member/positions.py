"""The messages of a round in transactions, and offsets: those to commit, to begin at, and to move a consumer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from featuregate_confluent.errors import MustRejoin
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.models import Model
from featuregate_confluent.producing.transaction import Transaction

if TYPE_CHECKING:
    from featuregate_confluent.client.committed import CommittedOffset
    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.member.outcome_handler import OutcomeHandler
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.producing.producers import Producers


def by_partition(messages: Iterable[Message]) -> dict[Partition, list[Message]]:
    """Sort messages by their partition; the order within one stays."""
    sorted_out: dict[Partition, list[Message]] = {}
    for message in messages:
        partition = cast("Partition", (message.topic(), message.partition()))  # both are there once it was consumed
        sorted_out.setdefault(partition, []).append(message)
    return sorted_out


def ends_of(messages: Iterable[Message]) -> dict[Partition, int]:
    """Return for each partition the offset after the last of its messages, in whatever order an app gives them."""
    return {key: max(cast("int", each.offset()) for each in some) + 1 for key, some in by_partition(messages).items()}


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
    found = by_partition(messages).items()
    first = {key: min(cast("int", each.offset()) for each in some) for key, some in found if key in owned}
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


def transactions_of(
    messages: Sequence[Message],
    state: MemberState,
    *,
    consumer: Consumer,
    producers: Producers,
    keeper: OutcomeHandler,
    latch_topic: LatchTopic | None,
    renew: Callable[[], bool],
) -> Iterator[Transaction]:
    """Begin a round of these messages, and yield its transactions: one for each partition, or one for all in v2.

    ``renew`` is :meth:`Membership.renew` with these messages.
    """
    state.begin(messages)
    if not renew():
        return  # they come again, from where another member has got to (R8)
    assignment = state.assignment  # the later transactions of this round have this one, too
    model, first_v2_generation = state.group.model, state.group.first_v2_generation
    make = partial(Transaction, keeper=keeper, consumer=consumer, model=model, assignment=assignment)
    if model.per_partition:
        for key, some in by_partition(messages).items():
            if not assignment.current:
                return  # the rest comes again, to the new owner (R9)
            offsets = offsets_to_commit(state.partitions, ends_of(some), model)
            yield make(producer=producers.for_partition(key), messages=some, offsets=offsets)
        return
    ends = ends_of(messages)
    if first_v2_generation is not None:  # the first commit in v2 marks all partitions of this member
        ends = next_offsets(state.partitions) | ends
    record = None
    if latch_topic is not None and state.group.latch_in_topic is not Model.V2:  # R11
        record = latch_topic.record(Model.V2)
    yield make(
        producer=producers.for_process,
        messages=messages,
        offsets=offsets_to_commit(state.partitions, ends, model),
        first_v2_generation=first_v2_generation,
        latch_record=record,
    )
