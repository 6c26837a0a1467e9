"""The latch protocol's decisions, one by one; ``test_latch_model.py`` proves them together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent.errors import ModelRefused, SwitchFatal
from featuregate_confluent.latch import tags
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
from featuregate_confluent.models import Model

P0, P1 = ("in", 0), ("in", 1)
LEGACY, BRIDGE, V2 = Model


def member(model: Model | None = BRIDGE, name: str = "app", instance_id: str | None = None) -> Member:
    client_id = name if model is None else tags.tagged(name, model)
    return Member(member_id=f"{client_id}-1b2c", client_id=client_id, instance_id=instance_id, host="/10.0.0.1")


READY = Observation(
    gate_open=True,
    gate_why="open: 3 of 3 brokers",
    latch=None,
    members=(member(), member(V2)),
    generation_of_members=5,
    generation=5,
)
CLOSED = replace(READY, gate_open=False, gate_why="broker 2 has TxnOffsetCommit up to 2")
GATE_CLOSED = "the cluster cannot do it, or does not show that it can (broker 2 has TxnOffsetCommit up to 2)"
LATCHED = replace(CLOSED, latch=V2, members=None)
OTHER_GENERATION = "the group's members were not read in generation {}, in which the commit would be made"

NOT_READY = {
    "members unknown": (replace(READY, members=None), "the group's members could not be read"),
    "read in another generation": (replace(READY, generation_of_members=4), OTHER_GENERATION.format(5)),
    "read in no generation": (replace(READY, generation_of_members=None), OTHER_GENERATION.format(5)),
    "no generation at all": (replace(READY, generation=-1, generation_of_members=-1), OTHER_GENERATION.format(-1)),
    "no members": (replace(READY, members=()), "the group shows no members, not even this one"),
    "a foreign member": (
        replace(READY, members=(member(), member(None))),
        "members below bridge: client 'app' on '/10.0.0.1' shows no tag of featuregate",
    ),
    "a legacy member": (
        replace(READY, members=(member(LEGACY), member())),
        "members below bridge: client 'app#fg=legacy' on '/10.0.0.1' is legacy",
    ),
}
"""What was seen, and the sentence that says what stands against v2."""

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
    low, high, none = {P0: Mark(BRIDGE)}, {P1: Mark(V2)}, {P0: Mark(None, "v2")}
    assert latch(low, high, None) is V2
    assert latch(high, low, None) is V2
    assert latch(low, none, V2) is V2
    assert latch(low, none, LEGACY) is BRIDGE
    assert latch(none, none, None) is None
    assert latch({}, {}, None) is None


def test_auto_runs_v2_where_everything_is_proved() -> None:
    """The reason says what was proved."""
    choice = decide(None, READY, BRIDGE)
    assert choice.model is V2
    assert choice.why == "every broker checks the group's generation, and every live member (2) is bridge at least"


@pytest.mark.parametrize(("seen", "obstacle"), NOT_READY.values(), ids=NOT_READY)
def test_auto_waits_in_bridge_for_the_group(seen: Observation, obstacle: str) -> None:
    """All brokers check the generation, but one fact about the members is missing."""
    assert decide(None, seen, None) == ModelChoice(BRIDGE, f"not v2 yet: {obstacle}")


def test_the_first_generation_is_one() -> None:
    """Members that were read in it are known."""
    assert decide(None, replace(READY, generation=0, generation_of_members=0), None).model is V2


def test_auto_is_legacy_where_the_gate_is_closed() -> None:
    """The reason repeats what the gate says of the brokers."""
    assert decide(None, CLOSED, None) == ModelChoice(LEGACY, f"not higher: {GATE_CLOSED}")


@pytest.mark.parametrize(("latched", "running"), [(BRIDGE, None), (None, BRIDGE), (BRIDGE, LEGACY)])
def test_a_closed_gate_does_not_lower_what_was_reached(latched: Model | None, running: Model | None) -> None:
    """The view may be stale, but the group's own commits are not."""
    assert decide(None, replace(CLOSED, latch=latched), running).model is BRIDGE


@pytest.mark.parametrize("pinned", [None, V2])
def test_a_latch_at_v2_decides_alone(pinned: Model | None) -> None:
    """The member's own view of cluster and group does not count."""
    assert decide(pinned, LATCHED, None) == ModelChoice(V2, "the group is latched at v2, and never goes back by itself")


@pytest.mark.parametrize("pinned", [LEGACY, BRIDGE])
def test_a_latch_at_v2_refuses_a_lower_pin_and_names_the_way_back(pinned: Model) -> None:
    """The error also says what may go wrong."""
    with pytest.raises(ModelRefused) as refused:
        decide(pinned, LATCHED, None)
    assert refused.value.model is pinned
    assert refused.value.why == (
        "the group is latched at v2: set model to auto or v2. To go back, stop every member and wait until no "
        "transaction is open, then 'featuregate group rollback'; a zombie of v2 that is overlooked may leave its "
        "outputs there twice"
    )
    with pytest.raises(ModelRefused, match=r"is refused: this process has committed in v2: set model to auto"):
        decide(pinned, READY, V2)


@pytest.mark.parametrize("pinned", [LEGACY, BRIDGE])
def test_a_lower_pin_is_obeyed_before_the_latch(pinned: Model) -> None:
    """The member stays below v2 even where v2 would be possible."""
    assert decide(pinned, READY, None) == ModelChoice(pinned, "pinned, and the group is not latched at v2")
    assert decide(pinned, replace(CLOSED, latch=BRIDGE), None).model is pinned


def test_a_pin_does_not_lower_a_process_that_runs() -> None:
    """The process has committed in the higher model."""
    with pytest.raises(ModelRefused) as refused:
        decide(LEGACY, READY, BRIDGE)
    assert refused.value.model is LEGACY
    assert refused.value.why == "this process has committed in bridge; restart it to lower its pin"
    assert decide(BRIDGE, READY, BRIDGE).model is BRIDGE


def test_a_process_that_has_committed_in_v2_stays() -> None:
    """It stays even where the marks were lost and there is no latch topic."""
    seen, _ = NOT_READY["a foreign member"]
    stays = ModelChoice(V2, "this process has committed in v2, and never goes back by itself")
    assert decide(None, seen, V2) == decide(V2, seen, V2) == stays


def test_pinned_v2_needs_the_same_proof() -> None:
    """A pinned model is not safe by itself. What stands against it is the reason."""
    assert decide(V2, READY, None) == ModelChoice(V2, f"pinned, and {decide(None, READY, None).why}")
    for seen, obstacle in ((CLOSED, GATE_CLOSED), *NOT_READY.values()):
        with pytest.raises(ModelRefused) as refused:
            decide(V2, seen, None)
        assert refused.value.model is V2
        assert refused.value.why == f"{obstacle}; model=auto waits for it in a lower model"


def test_pinned_v2_is_refused_with_the_members_name() -> None:
    """An operator can look for the client id, the host and the instance id."""
    seen = replace(READY, members=(member(), member(None, "old-app", "rack-7"), member(LEGACY)))
    with pytest.raises(ModelRefused) as refused:
        decide(V2, seen, None)
    assert refused.value.why == (
        "members below bridge: client 'old-app' on '/10.0.0.1', instance 'rack-7' shows no tag of featuregate; "
        "client 'app#fg=legacy' on '/10.0.0.1' is legacy; model=auto waits for it in a lower model"
    )


def test_a_sentence_stays_a_sentence() -> None:
    """Many members, long names and line breaks may come from the network."""
    seen = replace(READY, members=tuple(member(None, f"{i}\n" + "x" * 5000) for i in range(50)))
    why = decide(None, seen, None).why
    name = r"client '{}\n" + "x" * 78 + "...' on '/10.0.0.1' shows no tag of featuregate"
    named = [name.format(i) for i in range(3)]
    assert why == f"not v2 yet: members below bridge: {'; '.join(named)}; and 47 more"
    three = decide(None, replace(seen, members=seen.members[:3]), None).why  # type: ignore[index]
    assert three == f"not v2 yet: members below bridge: {'; '.join(named)}"
    fits = member(None, "x" * 80)
    assert str(fits) == f"client '{'x' * 80}' on '/10.0.0.1'"


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
def test_nothing_is_ever_lowered(pinned: Model | None, seen: Observation, running: Model | None) -> None:
    """Neither the process nor a latch at v2 falls; with auto not even a latch at bridge does."""
    choice = attempt(pinned, seen, running)
    if choice is None:
        return
    assert running is None or choice.model >= running
    assert seen.latch is not V2 or choice.model is V2
    assert pinned is not None or seen.latch is None or choice.model >= seen.latch
    assert choice.why


@given(pinned=maybe, seen=seens, running=maybe)
def test_a_first_v2_is_always_proved(pinned: Model | None, seen: Observation, running: Model | None) -> None:
    """The gate is open, and every live member of this generation is bridge at least."""
    choice = attempt(pinned, seen, running)
    if choice is None or choice.model is not V2 or V2 in (seen.latch, running):
        return
    assert seen.gate_open
    assert seen.members
    assert seen.generation_of_members == seen.generation >= 0
    assert all(one.model is not None and one.model >= BRIDGE for one in seen.members)


@given(seen=seens, running=maybe)
def test_auto_is_never_refused(seen: Observation, running: Model | None) -> None:
    """There is always a model to run in."""
    assert attempt(None, seen, running) is not None


@given(pinned=st.sampled_from(list(Model)), seen=seens, running=maybe)
def test_a_pin_is_obeyed_or_refused(pinned: Model, seen: Observation, running: Model | None) -> None:
    """A pinned model is never replaced silently."""
    choice = attempt(pinned, seen, running)
    assert choice is None or choice.model is pinned


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
