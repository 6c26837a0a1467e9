"""Latches of an app and of its groups as records of a compacted topic: facts that only grow, in any order."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import latch_states, times

from featuregate.errors import ConfigError, LatchStoreError
from featuregate.gating.burn_in import why_waiting
from featuregate.gating.latch_documents import latch_document
from featuregate.gating.latches import BurnIn, LatchedGate, LatchKey, LatchState, join
from featuregate_confluent.client.topic_latch_store import TopicLatchStore
from featuregate_confluent.latch import latch_records
from featuregate_confluent.latch.group_agreement import STAGES, GroupLatch, GroupLatchState
from featuregate_confluent.latch.latch_records import (
    KeptRecords,
    group_records_of,
    group_state_of,
    key_prefix,
    records_of,
    stage_keys,
    state_of,
    superseded,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
states = latch_states(names, names, times)
EMPTY = LatchState(cluster_id="c")

group_states = st.builds(
    GroupLatchState, st.dictionaries(names, st.sampled_from(STAGES), max_size=3), st.none() | times
)
KEY = GroupLatch("c", "billing", "a|b %", "TxnOffsetCommit>=3")
NO_GROUP = GroupLatchState()


@given(states)
def test_a_state_is_read_as_it_was_written(state: LatchState) -> None:
    """Whatever names hold."""
    assert state_of("app", "c", records_of("app", state).items()) == (join(EMPTY, state), {})


@given(st.lists(states, max_size=4), st.randoms())
def test_records_of_several_writers_are_joined_in_any_order(written: list[LatchState], random) -> None:
    """As the states would be."""
    records = [record for state in written for record in records_of("app", state).items()]
    random.shuffle(records)
    joined = EMPTY
    for state in written:
        joined = join(joined, state)
    assert state_of("app", "c", records).state == joined


@given(states, states)
def test_a_tombstone_over_what_is_superseded_loses_nothing(one: LatchState, other: LatchState) -> None:
    """Only burn-ins are superseded, never a level or a gate."""
    records = {**records_of("app", one), **records_of("app", other)}
    joined = join(one, other)
    gone = superseded(records, key_prefix("app", "c"), records_of("app", joined), ())
    kept = {**{key: value for key, value in records.items() if key not in gone}, **records_of("app", joined)}
    assert state_of("app", "c", kept.items()).state == joined


def test_records_of_others_are_skipped() -> None:
    """Another app, another cluster whose topic is mirrored, other software and unknown facts do not count."""
    latched = LatchedGate(gate="a", requirement="b", opened_at=1.0, epoch=1)
    theirs = LatchState(cluster_id="other", gates={latched.key: latched})
    records = {
        **records_of("app", theirs),
        **records_of("app2", LatchState(cluster_id="c", gates={latched.key: latched})),
        b"fg1|orders||model|kip447|v2": b"fg1;model=v2",
        key_prefix("app", "c") + b"news|of|later": b"{}",
    }
    assert state_of("app", "c", records.items()) == (EMPTY, {})


BURN_IN = b"burn-in|slow|group.version%3E%3D1|"
SINCE = b'{"since": null}'
GOOD = LatchedGate(gate="eos", requirement="group.version>=1", opened_at=1.0, epoch=1)
DAMAGED = {
    "a level that is a word": (b"level|x|one", b"{}"),
    "a level above all": (b"level|x|99999999", b"{}"),
    "a number of a million digits": (b"level|x|" + b"9" * 1_000_000, b"{}"),
    "digits of another script": ("level|x|\u0663".encode(), b"{}"),
    "a gate without a time": (b"gate|a|b", b"{}"),
    "a gate that is no JSON": (b"gate|a|b", b"{"),
    "a gate that is a list": (b"gate|a|b", b"[]"),
    "a gate of the year 0": (b"gate|a|b", b'{"opened_at": -62167219200, "epoch": 1}'),
    "a gate after all years": (b"gate|a|b", b'{"opened_at": 1e308, "epoch": 1}'),
    "a gate of no number": (b"gate|a|b", b'{"opened_at": NaN, "epoch": 1}'),
    "a key that is no UTF-8": (b"gate|\xff|b", b'{"opened_at": 1, "epoch": 1}'),
    "an attempt that is no number": (BURN_IN + b"x|1", SINCE),
    "an attempt below 1": (BURN_IN + b"0|1", SINCE),
    "seconds that are none": (BURN_IN + b"1|x", SINCE),
    "seconds of no number": (BURN_IN + b"1|nan", SINCE),
    "seconds without an end": (BURN_IN + b"1|inf", SINCE),
    "seconds below 0": (BURN_IN + b"1|-1e308", SINCE),
    "seconds that no burn-in has": (BURN_IN + b"1|1e308", SINCE),
    "a burn-in of the year 0": (BURN_IN + b"1|60.0", b'{"since": -62167219200}'),
    "a burn-in that began at no time": (BURN_IN + b"1|60.0", b'{"since": 1e999}'),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_invariant_18_a_damaged_record_stops_nothing_but_itself(name: str) -> None:
    """It is left out with a reason, because it might have been a latch; the others count."""
    key, value = DAMAGED[name]
    state = LatchState(cluster_id="c", levels={"f": 1}, gates={GOOD.key: GOOD})
    records = [(key_prefix("app", "c") + key, value), *records_of("app", state).items()]
    read = state_of("app", "c", records)
    assert read.state == state
    ((damaged, said),) = read.damaged.items()
    assert damaged == records[0][0]
    assert superseded(dict(records), key_prefix("app", "c"), records_of("app", state), read.damaged) == []
    assert said.startswith("the record with the key fg1|app|c|")
    assert said.endswith("and left out: write a tombstone over it")
    assert len(said) < 1000


FACTS = st.tuples(st.sampled_from([b"level|", b"gate|", BURN_IN, b"group|", b""]), st.binary(max_size=20))


@given(st.lists(st.tuples(FACTS, st.binary(max_size=20) | st.sampled_from([SINCE, b"{}", b"{"])), max_size=5))
def test_invariant_18_whatever_records_hold_the_gate_can_be_decided(
    written: list[tuple[tuple[bytes, bytes], bytes]],
) -> None:
    """What is read can be written, joined and shown to people."""
    records = [(key_prefix("app", "c") + kind + rest, value) for (kind, rest), value in written]
    state = state_of("app", "c", records).state
    assert state_of("app", "c", records_of("app", state).items()).state == state
    json.dumps(latch_document(state))
    for counted in state.burn_ins.values():
        why_waiting(counted, 1e30, 1e9)
    assert group_state_of("app", KEY, records).stages == {}


def test_a_requirement_is_spelled_as_this_release_does() -> None:
    """Newer catalogs know names where older ones had numbers: the promise is the same."""
    key = key_prefix("app", "c") + b"gate|eos|api%3A28%3E%3D3"
    state = state_of("app", "c", [(key, b'{"opened_at": 1.0, "epoch": 1}')]).state
    assert list(state.gates) == [LatchKey("eos", "TxnOffsetCommit>=3")]
    group = key_prefix("app", "c") + b"group|billing|a%7Cb%20%25|api%3A28%3E%3D3|"
    records = [(group + b"m|ready", b"{}"), (group + b"opened", b"{}")]
    assert group_state_of("app", KEY, records) == GroupLatchState({"m": "ready"}, 0.0)
    assert stage_keys("app", KEY, [name for name, _ in records], {"m"}) == [group + b"m|ready"]


def test_only_own_records_are_kept_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic may have those of many apps, and of a peer that writes what it likes."""
    kept = KeptRecords(key_prefix("app", "c"))
    for key in (b"fg1|app2|c|level|f|1", b"fg1|app|d|level|f|1", b"other", None):
        kept.take(key, b"x" * 2**20)
    own = key_prefix("app", "c") + b"level|f|1"
    kept.take(own, b"{}")
    kept.take(own, b"{ }")
    assert kept.records() == [(own, b"{}"), (own, b"{ }")]
    kept.take(own, None)
    assert kept.records() == []
    with pytest.raises(OverflowError, match="more than"):
        kept.take(own, b"x" * 2**25)
    monkeypatch.setattr(latch_records, "MOST_LATCH_RECORDS", 0)
    with pytest.raises(OverflowError, match="has more than 0 records"):
        KeptRecords(b"").take(b"a", b"")


def test_many_records_are_read_in_one_pass() -> None:
    """Twice as many cost twice as much: the joins of ten thousand states took a minute."""
    state = LatchState(cluster_id="c", levels={f"f{number}": 1 for number in range(50_000)})
    assert state_of("app", "c", records_of("app", state).items()).state.levels == dict(sorted(state.levels.items()))


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
    assert state_of("app", "c", records) == (EMPTY, {})


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


def test_a_damaged_opening_is_an_opening() -> None:
    """To read it as none would close the group; its time is for people."""
    (key,) = group_records_of("app", KEY, GroupLatchState(opened_at=1.0))
    assert group_state_of("app", KEY, [(key, b"{}")]) == GroupLatchState(opened_at=0.0)


@pytest.mark.parametrize("app", ["", " ", "team-\udce9"])
def test_an_app_that_no_key_can_hold_is_refused_where_the_store_is_made(app: str) -> None:
    """Each load would fail, and no gate would open."""
    with pytest.raises(ConfigError, match="app: must be the name that all instances of the app share"):
        TopicLatchStore({"bootstrap.servers": "b:1"}, app=app)


class MadeTopic(TopicLatchStore):
    """A topic that is read at once, of records that a peer has written."""

    def _read(self, until: float, cluster_id: str) -> list[tuple[bytes, bytes]]:  # noqa: ARG002 - as that of the store
        return [(key_prefix("app", cluster_id) + b"gate|eos|Fetcj%3E%3D1", b"{}")] * 3


def test_invariant_14_records_are_read_within_the_time_of_a_call() -> None:
    """To read requirements takes time, too: 100,000 of unknown APIs took a minute, whatever the timeout."""
    assert MadeTopic({}, app="app", timeout=60.0).load("c") is None
    late = MadeTopic({}, app="app", timeout=-1.0)
    for call in (lambda: late.load("c"), lambda: late.save(EMPTY)):
        with pytest.raises(LatchStoreError, match="its records were not read within -1 s"):
            call()
