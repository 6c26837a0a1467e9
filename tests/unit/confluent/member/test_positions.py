"""Offsets to commit, to begin at, and to which a consumer is moved."""

import logging
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from featuregate_confluent.errors import MustRejoin
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Partition
from featuregate_confluent.member.positions import (
    by_partition,
    ends_of,
    move,
    next_offsets,
    offsets_to_commit,
    places,
    rewind,
    take_back,
)
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.models import Model

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "g"}
SILENT = logging.getLogger("test.silent")
A, B = ("orders", 0), ("orders", 1)
OWNED = {A: (5, Mark(Model.BRIDGE, "theirs")), B: (None, Mark(None))}


class Seeks(dict["Partition", int]):
    """A consumer that notes where it is moved to."""

    def seek(self, place: TopicPartition) -> None:
        self[place.topic, place.partition] = place.offset


@pytest.fixture
def unassigned() -> Iterator[Consumer]:
    """Give a consumer that is assigned to nothing, so that it cannot be moved."""
    with Consumer(NOWHERE, logger=SILENT) as consumer:
        yield consumer


def message(partition: Partition, offset: int) -> Message:
    return Message(topic=partition[0], partition=partition[1], offset=offset, value=b"")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100))))
def test_messages_are_sorted_by_partition_and_stay_in_order(found: list[tuple[int, int]]) -> None:
    parts = by_partition([message(("t", number), offset) for number, offset in found])
    assert {key: [each.offset() for each in some] for key, some in parts.items()} == {
        ("t", number): [offset for each, offset in found if each == number] for number, _ in found
    }
    assert ends_of(each for some in parts.values() for each in some) == {
        key: max(each.offset() or 0 for each in some) + 1 for key, some in parts.items()
    }


def test_a_consumer_is_assigned_to_the_committed_offsets() -> None:
    """Where nothing was committed, auto.offset.reset decides."""
    found = places(OWNED, [A, B])
    assert [(each.topic, each.partition, each.offset) for each in found] == [(*A, 5), (*B, OFFSET_INVALID)]
    assert next_offsets(OWNED) == {A: 5}


def test_offsets_are_committed_with_the_mark_and_the_apps_own_metadata() -> None:
    found = offsets_to_commit(OWNED, {A: 9, B: 1}, Model.V2)
    assert [(each.offset, each.metadata) for each in found] == [(9, "fg1;model=v2|theirs"), (1, "fg1;model=v2")]


def test_the_offset_to_commit_is_behind_the_last_message_in_whatever_order_they_are() -> None:
    """An app may sort them by key or time; what is behind a lower offset would be processed again."""
    assert ends_of([message(A, 7), message(B, 2), message(A, 5), message(A, 6)]) == {A: 8, B: 3}


def test_a_consumer_that_cannot_be_moved_is_replaced(unassigned: Consumer) -> None:
    """It would go on behind messages that no member has processed, or before some that another member has."""
    with pytest.raises(MustRejoin, match="could not be moved"):
        move(unassigned, {A: 9})
    with pytest.raises(MustRejoin, match="could not be moved"):
        rewind(unassigned, OWNED, [message(A, 7)])
    rewind(unassigned, OWNED, [message(("another member's", 0), 7)])


def test_a_consumer_is_rewound_to_the_committed_offset_or_to_the_first_message() -> None:
    """Nothing was committed in B, so that its first message is the only place that is known."""
    consumer = Seeks()
    rewind(consumer, OWNED, [message(A, 7), message(B, 3), message(B, 2)])  # type: ignore[arg-type]
    assert consumer == {A: 5, B: 2}


def test_a_round_that_was_not_run_to_its_end_is_taken_back(unassigned: Consumer) -> None:
    """The next commit would skip the rest; and an open transaction of that round may not commit any more (R9)."""
    state = MemberState(partitions=OWNED)
    state.begin([message(A, 5), message(A, 6), message(B, 0)])
    state.end(state.in_hand[:2])
    before = state.assignment
    with pytest.raises(MustRejoin, match="could not be moved"):
        take_back(unassigned, state)
    assert not before.current
    assert state.unfinished, "the next attempt takes it back as well"
    consumer = Seeks()
    take_back(consumer, state)  # type: ignore[arg-type]
    assert (consumer, state.unfinished) == ({A: 5, B: 0}, False)


def test_a_round_that_has_ended_is_not_taken_back(unassigned: Consumer) -> None:
    state = MemberState(partitions=OWNED)
    state.begin([message(A, 5)])
    state.end(state.in_hand)
    before = state.assignment
    for _ in range(2):
        take_back(unassigned, state)
    assert before.current
