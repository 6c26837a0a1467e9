"""Divides the messages of a round into transactions: which producer, which offsets, which marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from featuregate_confluent.member.positions import by_partition, ends_of, next_offsets, offsets_to_commit
from featuregate_confluent.models import Model
from featuregate_confluent.producing.transaction import Transaction

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.producing.owner import TransactionOwner
    from featuregate_confluent.producing.producers import Producers


def transactions_of(
    messages: Sequence[Message],
    state: MemberState,
    *,
    consumer: Consumer,
    producers: Producers,
    keeper: TransactionOwner[Transaction],
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
            offsets = offsets_to_commit(state.partitions, ends_of(some[-1:]), model)
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
