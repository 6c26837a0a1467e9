"""The latch protocol's decisions, one by one; ``test_latch_model.py`` proves them together."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent.errors import ModelRefused, SwitchFatal
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import (
    Member,
    ModelChoice,
    Observation,
    decide,
    ids_to_take,
    latch,
    partitions_to_read,
    require_same_cluster,
)
from featuregate_confluent.models import Model, tagged

P0, P1 = ("in", 0), ("in", 1)
LEGACY, BRIDGE, V2 = Model


def member(model: Model | None = BRIDGE, name: str = "app", instance_id: str | None = None) -> Member:
    client_id = name if model is None else tagged(name, model)
    return Member(member_id=f"{client_id}-1b2c", client_id=client_id, instance_id=instance_id, host="/10.0.0.1")


READY = Observation(
    gate_open=True,
    gate_why="open: 3 of 3 brokers",
    latch=None,
    members=(member(), member(V2)),
    generation_of_members=5,
    generation=5,
)
LONG = tuple(member(None, f"{i}\n" + "x" * 5000) for i in range(50))
SEEN = {
    "all is proved": READY,
    "first generation": replace(READY, generation=0, generation_of_members=0),
    "gate closed": replace(READY, gate_open=False, gate_why="broker 2 has TxnOffsetCommit up to 2"),
    "gate closed, members unknown": replace(READY, gate_open=False, gate_why="as it says", members=None),
    "members unknown": replace(READY, members=None),
    "read in another generation": replace(READY, generation_of_members=4),
    "read in no generation": replace(READY, generation_of_members=None),
    "no generation at all": replace(READY, generation=-1, generation_of_members=-1),
    "no members": replace(READY, members=()),
    "a foreign member": replace(READY, members=(member(), member(None))),
    "a legacy member": replace(READY, members=(member(LEGACY), member())),
    "two below": replace(READY, members=(member(), member(None, "old-app", "rack-7"), member(LEGACY))),
    "many long names": replace(READY, members=LONG),
    "three long names": replace(READY, members=LONG[:3]),
    "a name that just fits": replace(READY, members=(member(None, "x" * 80),)),
}
"""What was seen of cluster and group, but for the latch."""

maybe = st.none() | st.sampled_from(list(Model))
members = st.builds(member, maybe)
seens = st.builds(
    Observation,
    gate_open=st.booleans(),
    gate_why=st.just("as the gate says"),
    latch=maybe,
    members=st.none() | st.lists(members, max_size=3).map(tuple),
    generation_of_members=st.none() | st.integers(-1, 2),
    generation=st.integers(-1, 2),
)


def attempt(pinned: Model | None, seen: Observation, running: Model | None) -> ModelChoice | None:
    try:
        return decide(pinned, seen, running)
    except ModelRefused:
        return None


def test_the_latch_is_the_highest_that_anybody_left() -> None:
    """It may be in own partitions, in other members' or in the latch topic. The app's own text does not count."""
    low, high, none = Mark(BRIDGE), Mark(V2), Mark(None, "v2")
    assert latch([low, high]) is V2
    assert latch([high, low]) is V2
    assert latch([low, none], V2) is V2
    assert latch([low, none], LEGACY) is BRIDGE
    assert latch([none, none]) is None
    assert latch([]) is None


def test_all_decisions_are_as_kept() -> None:
    """The model for each pin, sight, latch and model that the process has committed in, or ``-``: refused; and why."""
    kept, told = Path(__file__).with_name("decisions.txt"), list[str]()
    reasons: dict[str, str] = {}
    models = (None, *Model)
    for (name, seen), pinned in product(SEEN.items(), models):
        grid = ""
        for latched, running in product(models, models):
            try:
                choice = decide(pinned, replace(seen, latch=latched), running)
                letter, why = choice.model.label[0], choice.why
            except ModelRefused as refused:
                letter, why = "-", str(refused)
            grid += letter if running or not latched else f" {letter}"
            reasons.setdefault(why, f"{name}, pinned {label(pinned)}, latch {label(latched)}, ran {label(running)}")
        told.append(f"{name:29} {label(pinned):6} {grid}")
    told += [f"{where}:\n  {why}" for why, where in reasons.items()]
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


def label(model: Model | None) -> str:
    return "none" if model is None else model.label


@pytest.mark.parametrize(("instance_id", "promised"), [("one", None), ("one#fg=bridge", BRIDGE), (None, V2)])
def test_a_static_member_promises_what_its_instance_id_says(instance_id: str | None, promised: Model | None) -> None:
    """Its client id may be that of the software that it has replaced."""
    assert member(V2, instance_id=instance_id).model is promised


@pytest.mark.parametrize("model", [LEGACY, BRIDGE])
def test_one_producer_for_each_partition_takes_every_id(model: Model) -> None:
    """The ids are sorted, so that members take them in the same order."""
    assert ids_to_take(model, {P1: Mark(V2), P0: Mark(None)}) == (P0, P1)


def test_v2_takes_the_ids_of_partitions_that_it_has_not_marked() -> None:
    """A foreign zombie may hold them until a v2 commit is in the partition."""
    marks = {("in", n): Mark(model) for n, model in enumerate((None, LEGACY, BRIDGE, V2))}
    assert ids_to_take(V2, marks) == (("in", 0), ("in", 1), ("in", 2))
    assert ids_to_take(V2, {}) == ()


@pytest.mark.parametrize(("before", "after"), [(None, V2), (None, LEGACY), (LEGACY, BRIDGE), (V2, V2)])
def test_a_kept_partition_goes_on_from_where_it_is(before: Model | None, after: Model) -> None:
    """Under the id that it had, a process that was replaced is told so."""
    assert partitions_to_read(before, after, owned=(P1, P0), new=(P1,)) == (P1,)


@pytest.mark.parametrize(("before", "after"), [(LEGACY, V2), (BRIDGE, V2), (V2, BRIDGE)])
def test_another_kind_of_producer_reads_every_offset_anew(before: Model, after: Model) -> None:
    """Somebody may have taken the old id and committed, and the new one would never be fenced for it."""
    assert partitions_to_read(before, after, owned=(P1, P0), new=()) == (P0, P1)


@given(pinned=maybe, seen=seens, running=maybe)
def test_every_decision_keeps_the_rules(pinned: Model | None, seen: Observation, running: Model | None) -> None:
    choice = attempt(pinned, seen, running)
    if choice is None:
        assert pinned is not None, "there is always a model to run in"
        return
    assert choice.why
    # a pinned model is never replaced silently
    assert pinned in (None, choice.model)
    # neither the process nor a latch at v2 falls; with auto not even a latch at bridge does
    assert running is None or choice.model >= running
    assert seen.latch is not V2 or choice.model is V2
    assert pinned is not None or seen.latch is None or choice.model >= seen.latch
    if choice.model is V2 and V2 not in (seen.latch, running):  # a first v2 is always proved
        assert seen.gate_open
        assert seen.members
        assert seen.generation_of_members == seen.generation >= 0
        assert all(one.model is not None and one.model >= BRIDGE for one in seen.members)


SEND_THERE = (
    r"^the gate was decided for (cluster 'static'|no cluster), but the consumer is connected to "
    r"(cluster 'other'|a cluster without an id): make the discoverer in 'features' with the consumer's "
    r"bootstrap\.servers, or leave it out; in a test, show a view with this cluster_id$"
)


@pytest.mark.parametrize(("decided", "connected"), [("static", "other"), ("static", None), (None, "other")])
def test_a_gate_of_another_cluster_decides_nothing(decided: str | None, connected: str | None) -> None:
    """Its brokers say nothing about those that the consumer is connected to, whether it is open or closed."""
    gate = StaticFeatures(release_view("4.2", cluster_id=decided)).gate("kip447", presets.kip447)  # type: ignore[arg-type]
    with pytest.raises(SwitchFatal, match=SEND_THERE):
        require_same_cluster(gate.decision, connected)
    old = StaticFeatures(release_view("2.4", cluster_id="x")).gate("kip447", presets.kip447)
    with pytest.raises(SwitchFatal, match=r"^the gate was decided for cluster 'x', but"):
        require_same_cluster(old.decision, connected)


def test_a_gate_that_was_forced_open_without_a_cluster_decides_nothing() -> None:
    """No broker has proved anything; while it is closed, it is no more than not known yet."""
    features = StaticFeatures()
    gate = features.gate("kip447", presets.kip447)
    require_same_cluster(gate.decision, "c")
    features.force_open("kip447")
    with pytest.raises(SwitchFatal, match=r"^the gate was decided for no cluster, but"):
        require_same_cluster(gate.decision, "c")


@pytest.mark.parametrize("cluster_id", ["c", None])
def test_a_gate_of_the_consumer_s_own_cluster_decides(cluster_id: str | None) -> None:
    """Also where brokers report no cluster id to either."""
    features = StaticFeatures(release_view("4.2", cluster_id=cluster_id))  # type: ignore[arg-type]
    require_same_cluster(features.gate("kip447", presets.kip447).decision, cluster_id)
