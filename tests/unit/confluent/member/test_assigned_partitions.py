"""The partitions of a member, and how far each is processed."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Message
from hypothesis import given
from hypothesis import strategies as st

from featuregate_confluent.errors import MustRejoin
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.models import Model
from featuregate_confluent.member.assigned_partitions import AssignedPartitions, by_partition

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "g"}
SILENT = logging.getLogger("test.silent")
A, B = ("orders", 0), ("orders", 1)
THEIRS = Mark(Model.BRIDGE, "theirs")


OWNED = {A: (5, THEIRS), B: (None, Mark(None))}


def owning() -> AssignedPartitions:
    """Own A from offset 5 on, and B, in which nothing was ever committed."""
    assigned = AssignedPartitions()
    with Consumer(NOWHERE, logger=SILENT) as unused:
        assigned.take(unused, OWNED)  # nothing was owned before, so that no consumer has to be moved
    return assigned


def message(partition: tuple[str, int], offset: int) -> Message:
    return Message(topic=partition[0], partition=partition[1], offset=offset, value=b"")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100))))
def test_messages_are_sorted_by_partition_and_stay_in_order(places: list[tuple[int, int]]) -> None:
    """None is left out, and within a partition the order is that of arrival."""
    parts = by_partition([message(("t", number), offset) for number, offset in places])
    assert {key: [each.offset() for each in some] for key, some in parts.items()} == {
        ("t", number): [offset for each, offset in places if each == number] for number, _ in places
    }


def test_each_change_ends_the_assignment() -> None:
    """Messages from before belong to nobody; a new consumer is a change, too."""
    assigned = owning()
    for change in (lambda: assigned.drop([A]), lambda: assigned.drop([A]), assigned.clear):
        before = assigned.assignment
        assert before.current
        change()
        assert (before.current, assigned.assignment.current) == (False, True)
    assert len(assigned) == 0


def test_a_consumer_is_assigned_to_where_it_goes_on() -> None:
    """Without an offset where nothing was committed: auto.offset.reset decides there."""
    places = owning().places([A, B])
    assert [(each.topic, each.partition, each.offset) for each in places] == [(*A, 5), (*B, OFFSET_INVALID)]
    assert owning().positions() == {A: 5}


def test_a_commit_moves_on_and_keeps_the_apps_text() -> None:
    """The position is that of the commit; what the app had beside the offset stays."""
    assigned = owning()
    committed = assigned.offsets({A: 9, B: 1}, Model.V2)
    assigned.advance(committed)
    assert assigned.positions() == {A: 9, B: 1}
    assert [each.metadata for each in committed] == ["fg1;model=v2|theirs", "fg1;model=v2"]
    assert assigned.offsets({A: 10}, Model.V2)[0].metadata == "fg1;model=v2|theirs"


def test_a_consumer_that_cannot_be_rewound_is_replaced() -> None:
    """This one is not assigned to the partition: its next messages would have left the ones in hand out."""
    with Consumer(NOWHERE, logger=SILENT) as consumer:
        with pytest.raises(MustRejoin, match="could not be rewound"):
            owning().rewind(consumer, [message(A, 7)])
        owning().rewind(consumer, [message(("another's", 0), 7)])  # is no business of ours


def test_a_consumer_that_cannot_be_moved_to_where_another_has_come_is_replaced() -> None:
    """It would process again what the other has committed; where nothing has moved, it is not touched."""
    assigned = owning()
    with Consumer(NOWHERE, logger=SILENT) as consumer:  # which is assigned to nothing
        assigned.take(consumer, OWNED)
        with pytest.raises(MustRejoin, match="could not be moved"):
            assigned.take(consumer, {A: (9, THEIRS)})
    assert assigned.positions() == {A: 9}


def test_a_round_that_was_not_run_to_its_end_is_taken_back() -> None:
    """The next commit would pass over what is left of it; and no transaction of it may commit any more."""
    assigned = owning()
    round_ = [message(A, 5), message(A, 6), message(B, 0)]
    with Consumer(NOWHERE, logger=SILENT) as consumer:  # which is assigned to nothing: rewinding it is told
        assigned.begin(round_)
        assigned.end(round_[:2])
        before = assigned.assignment
        with pytest.raises(MustRejoin, match="could not be rewound"):
            assigned.take_back(consumer)
        assert not before.current


def test_a_round_that_has_ended_is_let_be() -> None:
    """So is one that was taken back already, and one of the consumer before."""
    assigned = owning()
    round_ = [message(A, 5), message(A, 6), message(B, 0)]
    with Consumer(NOWHERE, logger=SILENT) as consumer:
        assigned.begin(round_)
        assigned.end(round_[:2])
        assigned.end(round_[2:])
        before = assigned.assignment
        assigned.take_back(consumer)
        assigned.take_back(consumer)
        assert before.current
        assigned.begin(round_)
        assigned.clear()
        assigned.take(consumer, OWNED)
        assigned.take_back(consumer)


def test_who_has_lost_its_place_owns_nothing_until_the_next_consumer() -> None:
    """It says why, and has nothing left that it could give again."""
    assigned = owning()
    assigned.begin([message(A, 5)])
    assigned.lose("its producer was fenced")
    assert (len(assigned), assigned.lost) == (0, "its producer was fenced")
    with Consumer(NOWHERE, logger=SILENT) as consumer:
        assigned.take_back(consumer)
    assigned.clear()
    assert assigned.lost is None
