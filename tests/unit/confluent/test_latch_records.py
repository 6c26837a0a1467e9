"""Latches as records of a compacted topic: facts that only grow, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import LatchStoreError
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState, join
from featuregate_confluent.latch.latch_records import key_prefix, records_of, state_of, superseded

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


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"level|x|one", b"{}"), (b"gate|a|b", b"{"), (b"gate|a|b", b"{}"), (b"burn-in|a|b|1|x", b'{"since": null}')],
)
def test_a_damaged_record_is_an_error(key: bytes, value: bytes) -> None:
    """It might be a latch."""
    with pytest.raises(LatchStoreError, match=r"is damaged .* write a tombstone over it"):
        state_of("app", "c", [(key_prefix("app", "c") + key, value)])
