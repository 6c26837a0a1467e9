"""Latches of an app and of its groups as records of a compacted topic: facts that only grow, in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import LatchStoreError
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState, join
from featuregate_confluent.latch.group_agreement import STAGES, GroupLatch, GroupLatchState
from featuregate_confluent.latch.latch_records import (
    group_records_of,
    group_state_of,
    key_prefix,
    records_of,
    stage_keys,
    state_of,
    superseded,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
times = st.floats(0, 2e9)
gates = st.builds(LatchedGate, gate=names, requirement=names, opened_at=times, epoch=st.integers(-1, 9))
burn_ins = st.builds(
    BurnIn,
    gate=names,
    requirement=names,
    attempt=st.integers(1, 3),
    seconds=st.floats(0, 1e6),
    since=st.none() | times,
)
states = st.builds(
    lambda levels, opened, counted: LatchState(
        cluster_id="c",
        levels=levels,
        gates={each.key: each for each in opened},
        burn_ins={each.key: each for each in counted},
    ),
    st.dictionaries(names, st.integers(1, 9), max_size=3),
    st.lists(gates, max_size=3),
    st.lists(burn_ins, max_size=3),
)
EMPTY = LatchState(cluster_id="c")

group_states = st.builds(
    GroupLatchState, st.dictionaries(names, st.sampled_from(STAGES), max_size=3), st.none() | st.floats(0, 2e9)
)
KEY = GroupLatch("c", "billing", "a|b %", "TxnOffsetCommit>=3")
NO_GROUP = GroupLatchState()


@given(states)
def test_a_state_is_read_as_it_was_written(state: LatchState) -> None:
    """Whatever names hold."""
    assert state_of("app", "c", records_of("app", state).items()) == join(EMPTY, state)


@given(st.lists(states, max_size=4), st.randoms())
def test_records_of_several_writers_are_joined_in_any_order(written: list[LatchState], random) -> None:
    """As the states would be."""
    records = [record for state in written for record in records_of("app", state).items()]
    random.shuffle(records)
    joined = EMPTY
    for state in written:
        joined = join(joined, state)
    assert state_of("app", "c", records) == joined


@given(states, states)
def test_a_tombstone_over_what_is_superseded_loses_nothing(one: LatchState, other: LatchState) -> None:
    """Only burn-ins are superseded, never a level or a gate."""
    records = {**records_of("app", one), **records_of("app", other)}
    joined = join(one, other)
    gone = superseded(records, "app", joined)
    kept = {**{key: value for key, value in records.items() if key not in gone}, **records_of("app", joined)}
    assert state_of("app", "c", kept.items()) == joined


def test_records_of_others_are_skipped() -> None:
    """Of another app, of another cluster whose topic is mirrored, of other software, and facts that are not known."""
    latched = LatchedGate(gate="a", requirement="b", opened_at=1.0, epoch=1)
    theirs = LatchState(cluster_id="other", gates={latched.key: latched})
    records = {
        **records_of("app", theirs),
        **records_of("app2", LatchState(cluster_id="c", gates={latched.key: latched})),
        b"orders|kip447|v2": b"fg1;model=v2",
        key_prefix("app", "c") + b"news|of|later": b"{}",
    }
    assert state_of("app", "c", records.items()) == EMPTY


DAMAGED = "fg1|app|c|{}: the record with this key is damaged ({}): write a tombstone over it"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (b"level|x|one", b"{}", "invalid literal for int() with base 10: 'one'"),
        (b"gate|a|b", b"{}", "value.opened_at: this is missing"),
        (b"burn-in|a|b|1|x", b'{"since": null}', "could not convert string to float: 'x'"),
        (b"gate|\xff|b", b"{}", "'utf-8' codec can't decode byte 0xff in position 5: invalid start byte"),
    ],
)
def test_a_damaged_record_is_an_error(key: bytes, value: bytes, problem: str) -> None:
    """It might be a latch. The error has its key, as far as that is text."""
    with pytest.raises(LatchStoreError) as raised:
        state_of("app", "c", [(key_prefix("app", "c") + key, value)])
    assert str(raised.value) == DAMAGED.format(key.decode(errors="replace"), problem)
    with pytest.raises(LatchStoreError, match=r"is damaged \(value: this is not JSON: "):
        state_of("app", "c", [(key_prefix("app", "c") + b"gate|a|b", b"{")])


def test_the_records_are_as_documented() -> None:
    """Other releases read them, so their keys are a promise."""
    gate = LatchedGate(gate="a|b", requirement="x>=3", opened_at=1.5, epoch=3)
    burn_in = BurnIn(gate="a", requirement="x", attempt=2, seconds=60.0, since=None)
    state = LatchState(cluster_id="c", levels={"f": 1}, gates={gate.key: gate}, burn_ins={burn_in.key: burn_in})
    assert records_of("app", state) == {
        b"fg1|app|c|level|f|1": b"{}",
        b"fg1|app|c|gate|a%7Cb|x%3E%3D3": b'{"opened_at": 1.5, "epoch": 3}',
        b"fg1|app|c|burn-in|a|x|2|60.0": b'{"since": null}',
    }
    assert group_records_of("app", KEY, GroupLatchState({"m/1": "ready"}, 1.0)) == {
        b"fg1|app|c|group|billing|a%7Cb%20%25|TxnOffsetCommit%3E%3D3|m%2F1|ready": b"{}",
        b"fg1|app|c|group|billing|a%7Cb%20%25|TxnOffsetCommit%3E%3D3|opened": b'{"opened_at": 1.0}',
    }


@given(st.lists(group_states, max_size=4), st.randoms())
def test_records_of_several_members_are_joined_in_any_order(written: list[GroupLatchState], random) -> None:
    """The highest stage of each member, and the earliest opening; other groups and the latches see none of it."""
    records = [record for state in written for record in group_records_of("app", KEY, state).items()]
    random.shuffle(records)
    joined = NO_GROUP
    for state in written:
        joined = joined.join(state)
    earliest = [value for value in records if b"opened" in value[0][-6:]]
    assert group_state_of("app", KEY, records).stages == joined.stages
    assert (group_state_of("app", KEY, records).opened_at is None) is not bool(earliest)
    assert group_state_of("app", KEY._replace(group="other"), records) == NO_GROUP
    assert group_state_of("app2", KEY, records) == NO_GROUP
    assert state_of("app", "c", records) == EMPTY


@given(group_states, group_states, group_states)
def test_states_join_in_any_order(one: GroupLatchState, other: GroupLatchState, third: GroupLatchState) -> None:
    """Joining twice changes nothing."""
    assert one.join(other) == other.join(one)
    assert one.join(one) == one
    assert one.join(other).join(third) == one.join(other.join(third))


@given(group_states, st.sets(names))
def test_tombstones_forget_those_who_have_gone(state: GroupLatchState, gone: set[str]) -> None:
    """An opening stays."""
    records = group_records_of("app", KEY, state)
    kept = {key: value for key, value in records.items() if key not in stage_keys("app", KEY, records, gone)}
    stages = {member: stage for member, stage in state.stages.items() if member not in gone}
    assert group_state_of("app", KEY, kept.items()) == GroupLatchState(stages, state.opened_at)


def test_a_damaged_opening_is_an_error() -> None:
    """To read it as none would close the group."""
    (key,) = group_records_of("app", KEY, GroupLatchState(opened_at=1.0))
    with pytest.raises(LatchStoreError) as raised:
        group_state_of("app", KEY, [(key, b"{}")])
    group = "group|billing|a%7Cb%20%25|TxnOffsetCommit%3E%3D3|opened"
    assert str(raised.value) == DAMAGED.format(group, "value.opened_at: this is missing")
