"""What a member knows: its partitions and how far each is processed, the round in hand, and its group as a value."""

from dataclasses import replace
from itertools import pairwise
from time import process_time

import pytest
from confluent_kafka import Message, TopicPartition

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent.errors import ModelRefused, SwitchFatal
from featuregate_confluent.events import CommitsBlocked, LatchRead, ModelChanged, SwitchEvent
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Member
from featuregate_confluent.member.positions import next_offsets
from featuregate_confluent.member.state import GroupState, MemberState, events_between
from featuregate_confluent.models import Model
from featuregate_confluent.producing.offsets import uncontradicted

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


def test_messages_that_the_app_takes_off_its_list_are_in_hand_still(state: MemberState) -> None:
    """After an abort they have to come again, which a list that is empty would not show."""
    state.receive(own := list(MESSAGES))
    own.clear()
    assert state.unfinished
    state.begin(own := list(MESSAGES))
    own.clear()
    state.end(own)
    assert state.unfinished
    assert list(state.in_hand) == MESSAGES


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


def test_messages_are_not_given_after_those_behind_them(state: MemberState) -> None:
    """The commit of the later ones has skipped them, and an abort would not bring them back."""
    other = Message(topic="orders", partition=1, offset=0, value=b"")
    state.receive([*MESSAGES, other])
    state.begin([MESSAGES[2], MESSAGES[0]])  # in one call in any order
    state.begin([other])
    with pytest.raises(SwitchFatal, match=r"given orders\[0\]@6 after messages behind it"):
        state.begin([MESSAGES[1]])


def test_messages_one_by_one_cost_no_more_than_their_number(state: MemberState) -> None:
    """Each call looked at all messages of the calls before: ten thousand of a poll took half a minute."""
    state.receive(messages := [Message(topic="orders", partition=0, offset=at, value=b"") for at in range(5_000)])
    began = process_time()
    for each in messages:
        state.begin([each])
    assert process_time() - began < 2


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


OURS = (Member(member_id="1", client_id="billing#fg=bridge", instance_id=None, host="/127.0.0.1"),)
IN_3 = GroupState(generation=3)


def test_a_member_does_not_move_up_while_a_broker_shows_that_it_is_too_old() -> None:
    """The gate is sticky and stays open, but that broker would accept the offsets of a zombie (R4)."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    gate = features.gate("kip447", presets.kip447)
    chosen = IN_3.choose(None, uncontradicted(gate.decision), OURS)
    assert (chosen.model, chosen.first_v2_generation) == (Model.V2, 3)
    features.show(release_view("4.2", "2.4"))
    assert gate.open
    fallen = chosen.choose(None, uncontradicted(gate.decision), OURS)
    assert (fallen.model, fallen.first_v2_generation) == (Model.LEGACY, None), "it had not committed in v2"
    with pytest.raises(ModelRefused, match=r"broker-2:9092.* serves TxnOffsetCommit 0..2"):
        chosen.choose(Model.V2, uncontradicted(gate.decision), OURS)


def test_a_member_that_has_committed_in_v2_stays_in_v2() -> None:
    """The latch is the group's, and outlives what a broker shows."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    gate = features.gate("kip447", presets.kip447)
    group = IN_3.choose(None, uncontradicted(gate.decision), OURS).committed(Model.V2, 3)
    features.show(release_view("4.2", "2.4"))
    later = replace(group, generation=4).choose(None, uncontradicted(gate.decision))
    for each in (group, later):
        assert (each.model, each.latch, each.latch_in_topic, each.first_v2_generation) == (*[Model.V2] * 3, None)
        assert each.why == "the group is latched at v2, and never goes back by itself"


def test_a_commit_below_v2_latches_the_group_there_and_chooses_nothing() -> None:
    """The member still waits for what keeps it from v2, and says so."""
    gate = StaticFeatures(release_view("4.2")).gate("kip447", presets.kip447)
    chosen = IN_3.choose(None, gate.decision)
    group = chosen.committed(Model.BRIDGE, 4)
    assert (group.latch, group.committed_in, group.latch_in_topic) == (Model.BRIDGE, Model.BRIDGE, None)
    assert (group.generation, group.choice) == (4, chosen.choice)


def test_a_latch_only_rises() -> None:
    """Marks that are read later may be older ones."""
    group = IN_3.latched(Model.BRIDGE, "all marks")
    assert group.latched(None, "latch topic") is group.latched(Model.LEGACY, "own marks") is group
    assert group.latched(Model.V2, "own marks").latch_source == "own marks"


def test_commits_are_blocked_while_the_coordinator_is_too_old() -> None:
    """Or while it is unknown whether it is. Another broker that is too old blocks nothing, nor does a lower model."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    gate = features.gate("kip447", presets.kip447)
    group = IN_3.choose(None, gate.decision, OURS).committed(Model.V2, 3)
    assert group.checked(gate.decision) is group
    features.show(release_view("4.2", "2.4"))
    unknown = group.checked(gate.decision)
    assert unknown.commit_blocker
    assert "not known yet who coordinates" in unknown.why
    old = replace(unknown, coordinator=2).checked(gate.decision)
    assert "broker 2 coordinates this group" in old.why
    assert replace(old, coordinator=1).checked(gate.decision).commit_blocker is None
    features.show(release_view("4.2", "4.2"))
    assert old.checked(gate.decision).coordinator is None, "it may move until the gate closes again"
    assert replace(IN_3, coordinator=2).checked(gate.decision).commit_blocker is None


def test_each_change_is_an_event_once() -> None:
    features = StaticFeatures(release_view("4.2", "4.2"))
    gate = features.gate("kip447", presets.kip447)
    latched = IN_3.latched(Model.LEGACY, "all marks")
    chosen = latched.choose(None, gate.decision, OURS)
    committed = chosen.committed(Model.V2, 3)
    features.show(release_view("4.2", "2.4"))
    blocked = committed.checked(gate.decision)
    steps = [IN_3, latched, chosen, committed, blocked, blocked, committed]
    events: list[SwitchEvent] = [event for pair in pairwise(steps) for event in events_between(*pair)]
    assert events == [
        LatchRead(latch=Model.LEGACY, source="all marks"),
        ModelChanged(before=None, after=Model.V2, why=chosen.why, generation=3),
        LatchRead(latch=Model.V2, source="commit"),
        CommitsBlocked(why=blocked.why),
    ]
