"""What a member knows of its group, as a value: no group is asked here."""

from dataclasses import replace
from itertools import pairwise

import pytest

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent.errors import ModelRefused
from featuregate_confluent.events import CommitsBlocked, LatchRead, ModelChanged, SwitchEvent
from featuregate_confluent.latch.protocol import Member
from featuregate_confluent.member.group_state import GroupState, events_between
from featuregate_confluent.models import Model
from featuregate_confluent.producing.offsets import uncontradicted

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
