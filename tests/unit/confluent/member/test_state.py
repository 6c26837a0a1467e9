"""The partitions of a member, how far each is processed, and the round in hand."""

import pytest
from confluent_kafka import Message, TopicPartition

from featuregate_confluent.errors import SwitchFatal
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.member.positions import next_offsets
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.models import Model

A, B = ("orders", 0), ("orders", 1)
THEIRS = Mark(Model.BRIDGE, "theirs")
MESSAGES = [Message(topic="orders", partition=0, offset=offset, value=b"") for offset in (5, 6, 7)]


@pytest.fixture
def state() -> MemberState:
    """Own A from offset 5 on, and B, in which nothing was ever committed."""
    state = MemberState()
    assert state.take({A: (5, THEIRS), B: (None, Mark(None))}) == {}, "nothing was owned before"
    return state


def test_each_change_ends_the_assignment(state: MemberState) -> None:
    """The messages from before may not be committed; a new consumer is a change, too."""
    changes = (lambda: state.take({}), lambda: state.drop([A]), lambda: state.drop([A]), state.clear)
    for change in changes:
        before = state.assignment
        assert before.current
        change()
        assert (before.current, state.assignment.current) == (False, True)
    assert state.partitions == {}


def test_the_consumer_is_moved_where_another_member_has_moved_on(state: MemberState) -> None:
    """It would process again what the other has committed. A partition whose offset is the same is not touched."""
    assert state.take({A: (5, THEIRS), B: (None, Mark(None))}) == {}
    assert state.take({A: (9, THEIRS), ("orders", 2): (1, Mark(None))}) == {A: 9}
    assert next_offsets(state.partitions) == {A: 9, ("orders", 2): 1}


def test_a_commit_moves_the_member_on(state: MemberState) -> None:
    state.advance([TopicPartition(*A, 9, "fg1;model=v2|theirs")])
    assert state.partitions == {A: (9, Mark(Model.V2, "theirs")), B: (None, Mark(None))}


def test_a_round_is_unfinished_until_all_its_messages_were_in_a_transaction(state: MemberState) -> None:
    """The next commit would skip what was left out."""
    assert not state.unfinished
    state.begin(MESSAGES)
    state.end(MESSAGES[:2])
    assert state.unfinished
    state.end(MESSAGES[2:])
    assert not state.unfinished


def test_a_poll_that_the_app_gives_to_no_transaction_is_unfinished(state: MemberState) -> None:
    """It caught an error before. Messages that it leaves out of a round that it gives are left out on purpose."""
    state.receive(MESSAGES)
    assert state.unfinished
    state.begin([])
    assert not state.unfinished
    state.receive(MESSAGES)
    state.begin(MESSAGES[:1])
    assert state.unfinished
    state.end(MESSAGES[:1])
    assert not state.unfinished


def test_a_message_is_given_to_transactions_once(state: MemberState) -> None:
    """Those of an aborted transaction come again: a second attempt with the same ones would commit them twice."""
    state.receive(MESSAGES)
    state.begin(MESSAGES[:1])
    state.begin(MESSAGES[1:])
    for twice in (MESSAGES, MESSAGES[:1]):
        with pytest.raises(SwitchFatal, match="messages of an aborted transaction come again"):
            state.begin(twice)
    later = [Message(topic="orders", partition=0, offset=9, value=b"")]
    state.receive(later)
    with pytest.raises(SwitchFatal, match="those of an earlier consume"):
        state.begin(MESSAGES)
    state.begin(later)


def test_a_new_consumer_has_no_round_in_hand(state: MemberState) -> None:
    """It begins at the committed offsets."""
    state.begin(MESSAGES)
    state.clear()
    assert not state.unfinished


def test_a_member_that_was_replaced_owns_nothing_until_the_next_consumer(state: MemberState) -> None:
    """It says why, and has no round left to take back."""
    state.begin(MESSAGES)
    state.lose("its producer was fenced")
    assert (state.partitions, state.lost, state.unfinished) == ({}, "its producer was fenced", False)
    state.clear()
    assert state.lost is None
