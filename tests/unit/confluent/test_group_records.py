"""The agreement of a group as records of a compacted topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import LatchStoreError
from featuregate.gating.latches import LatchState
from featuregate_confluent.latch.group_agreement import STAGES, GroupLatch, GroupLatchState
from featuregate_confluent.latch.latch_records import group_records_of, group_state_of, stage_keys, state_of

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
states = st.builds(
    GroupLatchState, st.dictionaries(names, st.sampled_from(STAGES), max_size=3), st.none() | st.floats(0, 2e9)
)
KEY = GroupLatch("c", "billing", "a|b %", "TxnOffsetCommit>=3")
EMPTY = GroupLatchState()


@given(st.lists(states, max_size=4), st.randoms())
def test_records_of_several_writers_are_joined_in_any_order(written: list[GroupLatchState], random) -> None:
    """The highest stage of each member, and the earliest opening; other groups and the latches see none of it."""
    records = [record for state in written for record in group_records_of("app", KEY, state).items()]
    random.shuffle(records)
    joined = EMPTY
    for state in written:
        joined = joined.join(state)
    earliest = [value for value in records if b"opened" in value[0][-6:]]
    assert group_state_of("app", KEY, records).stages == joined.stages
    assert (group_state_of("app", KEY, records).opened_at is None) is not bool(earliest)
    assert group_state_of("app", KEY._replace(group="other"), records) == EMPTY
    assert group_state_of("app2", KEY, records) == EMPTY
    assert state_of("app", "c", records) == LatchState(cluster_id="c")


@given(states, states, states)
def test_states_join_in_any_order(one: GroupLatchState, other: GroupLatchState, third: GroupLatchState) -> None:
    """Joining twice changes nothing."""
    assert one.join(other) == other.join(one)
    assert one.join(one) == one
    assert one.join(other).join(third) == one.join(other.join(third))


@given(states, st.sets(names))
def test_tombstones_forget_those_who_have_gone(state: GroupLatchState, gone: set[str]) -> None:
    """An opening stays."""
    records = group_records_of("app", KEY, state)
    kept = {key: value for key, value in records.items() if key not in stage_keys("app", KEY, records, gone)}
    stages = {member: stage for member, stage in state.stages.items() if member not in gone}
    assert group_state_of("app", KEY, kept.items()) == GroupLatchState(stages, state.opened_at)


def test_a_damaged_opening_is_an_error() -> None:
    """To read it as none would close the group."""
    (key,) = group_records_of("app", KEY, GroupLatchState(opened_at=1.0))
    with pytest.raises(LatchStoreError, match=r"is damaged .* write a tombstone over it"):
        group_state_of("app", KEY, [(key, b"{}")])
