"""Plans: the judgement, the gates that open and close, and the gates that are affected."""

from dataclasses import replace

import pytest

from featuregate import Feature, presets
from featuregate.admin.plans import latched_in, plan
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.errors import InvalidUpdate
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState
from featuregate.testing import release_view

VIEW = release_view("4.2.0", "4.2.0", epoch=50)


def test_one_refusal_makes_the_whole_refused() -> None:
    """Without a refusal, one unknown prediction makes the plan unknown."""
    fine, bad = upgrade({"share.version": 1}), upgrade({"group.version": 9})
    assert plan(VIEW, fine).judgement == "accepted"
    assert plan(VIEW, (*fine, *bad)).judgement == "refused"
    silent = release_view("4.2.0", "4.2.0", silent=[2], epoch=50)
    assert plan(silent, fine).judgement == "unknown"


def test_invariant_11_a_plan_over_silent_nodes_alone_is_unknown() -> None:
    """Silent nodes may still support UpdateFeatures."""
    silent = release_view("4.2.0", "4.2.0", silent=[1, 2], epoch=-1, finalized={})
    made = plan(silent, (*upgrade({"share.version": 1}), *disable("group.version")))
    assert {each.judgement for each in made.updates} == {"unknown"}
    assert made.updates[0].text == "no node has answered, so it is not known what the controller supports"
    old = plan(release_view("2.6"), upgrade({"share.version": 1})).updates[0]
    assert (old.judgement, old.text) == (
        "refused",
        "The node does not support UpdateFeatures: features came with Kafka 2.7",
    )


def test_controllers_tell_what_is_spoken_where_every_broker_is_silent() -> None:
    """The plan takes the versions of UpdateFeatures from the controllers, so it is unknown and not refused."""
    brokers = release_view("4.2.0", silent=[1], epoch=-1, finalized={})
    controllers = replace(release_view("4.2.0", epoch=50), role="controller")
    made = plan(brokers, upgrade({"share.version": 1}), controllers=controllers)
    assert (made.judgement, "counts with the levels of its registration" in made.updates[0].text) == ("unknown", True)


def test_what_opens_and_what_closes_is_named() -> None:
    """The plan lists the presets that require the feature."""
    assert plan(VIEW, disable("group.version")).closes == ("kip848",)
    low = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
    assert plan(low, upgrade({"group.version": 1})).opens == ("kip848",)


def test_a_preset_that_was_closed_before_is_not_closed_by_it() -> None:
    """The plan lists changes only."""
    low = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
    assert plan(low, disable("group.version")).closes == ()


@pytest.mark.parametrize("configs", [True, False])
def test_a_preset_opens_where_levels_were_unknown(*, configs: bool) -> None:
    """Whether or not the configs that it needs as well are known."""
    unknown = release_view("4.2.0", epoch=-1, finalized={})
    if not configs:
        unknown = replace(unknown, brokers=tuple(replace(one, configs={}) for one in unknown.brokers))
    made = plan(unknown, upgrade({"group.version": 1}))
    assert (made.opens, made.closes) == (("kip848",), ())


def test_an_update_opens_no_preset_of_other_features() -> None:
    """Levels without an epoch are no levels, and stay so for the features that are not updated."""
    made = plan(replace(VIEW, epoch=-1), upgrade({"metadata.version": 30}))
    assert (made.opens, made.closes) == ((), ())


def test_an_affected_gate_is_named() -> None:
    """The latched gate stays open, while the brokers no longer have the level that it requires."""
    latched = {"next": presets.kip848, "eos": presets.kip447, "tv": Feature("transaction.version") >= 1}
    (affected,) = plan(VIEW, disable("group.version"), latched=latched).affected
    assert affected.gate == "next"
    assert "group.version>=1" in affected.why


def test_a_gate_whose_level_is_missing_already_is_not_affected() -> None:
    """The level is too low with the update and without it."""
    latched = {"tv": Feature("transaction.version") >= 9}
    assert plan(VIEW, disable("group.version"), latched=latched).affected == ()


@pytest.mark.parametrize(("release", "level", "closes"), [("4.2.0", 29, ()), ("3.9.2", 21, ("below",))])
def test_a_refused_update_opens_and_affects_no_gate(release: str, level: int, closes: tuple[str, ...]) -> None:
    """From 4.0 on one refused update takes the accepted ones with it."""
    seen = release_view(release, epoch=50, finalized={"metadata.version": level})
    latched = {"below": Feature("metadata.version") >= level}
    made = plan(seen, (*upgrade({"group.version": 9}), *downgrade({"metadata.version": level - 1})), latched=latched)
    assert [each.judgement for each in made.updates] == ["refused", "accepted"]
    assert made.opens == ()
    assert tuple(affected.gate for affected in made.affected) == closes


def test_a_feature_that_is_misspelt_is_noted() -> None:
    """The note has similar names from the table and the cluster; a new feature of the cluster gets no note."""
    assert any("did you mean group.version?" in note for note in plan(VIEW, upgrade({"grup.version": 1})).notes)
    assert not any("did you mean" in note for note in plan(VIEW, upgrade({"bogus": 1})).notes)
    newer = replace(VIEW, brokers=tuple(replace(one, supported={"grup.version": (0, 1)}) for one in VIEW.brokers))
    assert not any("did you mean" in note for note in plan(newer, upgrade({"grup.version": 1})).notes)


def test_a_latch_of_a_file_is_read_as_it_was_written() -> None:
    """Two latches with one gate name and two requirements stay two."""
    keys = [LatchKey("g", "group.version>=1"), LatchKey("g", "transaction.version>=2")]
    gates = {key: LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=1.0, epoch=5) for key in keys}
    found = latched_in(LatchState(cluster_id="c", gates=gates))
    assert {name: str(requirement) for name, requirement in found.items()} == {
        "g": "group.version>=1",
        "g (transaction.version>=2)": "transaction.version>=2",
    }


def test_invariant_11_a_latch_that_this_release_cannot_parse_is_unread() -> None:
    """The other latches count, and a plan that would be accepted is unknown."""
    keys = [LatchKey("g", "group.version>=1"), LatchKey("new", "group.version~3")]
    gates = {key: LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=1.0, epoch=5) for key in keys}
    latched = latched_in(LatchState(cluster_id="c", gates=gates))
    made = plan(VIEW, disable("group.version"), latched=latched)
    assert made.judgement == "unknown"
    assert [affected.gate for affected in made.affected] == ["g"]
    assert [(unread.gate, unread.requirement) for unread in made.unread] == [("new", "group.version~3")]
    assert plan(VIEW, upgrade({"group.version": 9}), latched=latched).judgement == "refused"


def test_what_was_not_seen_is_noted() -> None:
    """The notes of a plan say which nodes did not answer or were not asked."""
    notes = plan(release_view("4.2.0", "4.2.0", silent=[2]), upgrade({"share.version": 1})).notes
    (silent,) = release_view("4.2.0", "4.2.0", silent=[2]).missing
    assert silent.failure is not None
    asked = "controllers were not asked: where they cannot run a level, they refuse it whatever brokers can"
    assert notes == (asked, f"{silent.name} is silent: {silent.failure.text}")
    rights = "this user has no ALTER on the cluster: the controller refuses any change that this user asks for"
    viewer = Quorum(voters=frozenset(), may_alter=False)
    assert plan(VIEW, upgrade({"share.version": 1}), quorum=viewer).notes == (asked, rights)
    quorum = Quorum(voters=None, addresses=("c1:9093", "c2:9093"), problem="no rights")
    assert plan(VIEW, upgrade({"share.version": 1}), quorum=quorum).notes == (
        f"{asked} (voters: c1:9093, c2:9093)",
        "the voters are not known, so a controller that has gone looks like one that is down: no rights",
    )
    controllers = replace(VIEW, role="controller", brokers=tuple(replace(b, role="controller") for b in VIEW.brokers))
    one, two = controllers.brokers
    voters = Quorum(voters=frozenset({one.node_id or 0}))
    counted = plan(None, upgrade({"share.version": 1}), controllers=controllers, quorum=voters)
    assert counted.notes == (
        f"{two.name} is registered and is not a voter: what it registered counts all the same",
        "brokers were not asked: where a registered one cannot run a level, the controller refuses it",
    )


def test_an_unsafe_downgrade_is_refused_with_a_note() -> None:
    """No controller supports an unsafe downgrade of metadata.version, and a note says so."""
    made = plan(VIEW, downgrade({"metadata.version": 7}, unsafe=True))
    assert made.judgement == "refused"
    assert "no release of Kafka carries out an unsafe downgrade of metadata.version (KAFKA-13896)" in made.notes


@pytest.mark.parametrize(("release", "level", "noted"), [("3.9.2", 21, True), ("4.0", 25, True), ("4.2.0", 29, False)])
def test_a_level_of_kraft_version_that_may_be_a_mere_record_is_noted(release: str, level: int, *, noted: bool) -> None:
    """Controllers before 4.1 write a level that their quorum does not have (KAFKA-18979)."""
    made = plan(release_view(release, finalized={"metadata.version": level}, epoch=50), upgrade({"kraft.version": 1}))
    assert any("KAFKA-18979" in note for note in made.notes) is noted


@pytest.mark.parametrize(
    ("updates", "stays"),
    [
        (disable("transaction.version"), ["transaction.version=2"]),
        (downgrade({"transaction.version": 1}), ["transaction.version=2"]),
        (
            (*disable("group.version"), *downgrade({"transaction.version": 1})),
            ["group.version=1", "transaction.version=2"],
        ),
        (
            (*downgrade({"metadata.version": 28}), *disable("group.version")),
            ["group.version=1", "metadata.version=29"],
        ),
        (downgrade({"metadata.version": 28}), ["metadata.version=29"]),
        (upgrade({"share.version": 1}), []),
        ((*downgrade({"metadata.version": 7}), *disable("group.version")), []),
        ((*upgrade({"metadata.version": 30}), *disable("group.version")), ["group.version=1"]),
        (disable("bogus.version"), []),
        (disable("share.version"), []),
    ],
)
def test_a_lowered_level_stays_in_the_metadata_log(updates: tuple[Update, ...], stays: list[str]) -> None:
    """Until a snapshot, which no change of a level writes. Where one update is refused, nothing is lowered."""
    finalized = {"metadata.version": 29, "group.version": 1, "transaction.version": 2}
    made = plan(release_view("4.3", epoch=50, finalized=finalized), updates)
    notes = [note for note in made.in_log if "may have been" not in note]
    assert [note.partition(" ")[0] for note in notes] == stays
    assert all("wait until every node has written a snapshot" in note for note in notes)


@pytest.mark.parametrize(("release", "noted"), [("3.9", True), ("4.3", False)])
def test_a_level_that_no_node_can_run_yet_asks_for_the_roll_first(release: str, *, noted: bool) -> None:
    """A plan before the roll was refused six times, and said nothing of the software."""
    made = plan(release_view(release, finalized={"metadata.version": 21}, epoch=50), upgrade({"metadata.version": 30}))
    notes = [note for note in made.notes if "roll the software of all nodes first" in note]
    assert bool(notes) is noted


def test_zookeeper_has_no_metadata_log() -> None:
    """Its controller keeps levels in ZooKeeper."""
    view = release_view("2.8.2", epoch=5, finalized={"bogus.version": 2})
    assert not any("metadata log" in note for note in plan(view, downgrade({"bogus.version": 1})).in_log)


def test_kraft_version_may_be_raised_though_the_rest_is_refused() -> None:
    """From 4.1 on the quorum raises its version before the controller checks the other updates."""
    both = upgrade({"kraft.version": 1, "transaction.version": 9})
    text = "kraft.version may be raised for good though {} is refused: send it by itself"
    assert text.format("transaction.version") in plan(VIEW, both).notes
    three = upgrade({"kraft.version": 1, "group.version": 9, "transaction.version": 9})
    assert text.format("group.version and transaction.version") in plan(VIEW, three).notes
    for harmless in (upgrade({"kraft.version": 1, "share.version": 1}), upgrade({"transaction.version": 9})):
        assert not any("raised for good" in note for note in plan(VIEW, harmless).notes)
    before = release_view("3.9.2", epoch=50)
    assert not any("raised for good" in note for note in plan(before, both).notes)


def test_a_plan_reads_as_text() -> None:
    """The text has the judgement first, and then a line for each feature, with its levels by name."""
    first, second, *_ = str(plan(VIEW, downgrade({"metadata.version": 27}))).splitlines()
    assert first.startswith("accepted: 1 update of cluster ")
    assert first.endswith("all or nothing")
    assert second == "  accepted  metadata.version: 29 (4.2-IV1) -> 27 (4.1-IV1)"


def test_a_refusal_reads_as_the_controllers_words() -> None:
    """The message of the controller follows the levels."""
    text = str(plan(VIEW, downgrade({"metadata.version": 22})))
    assert (
        "metadata.version: 29 (4.2-IV1) -> 22 (4.0-IV0): Unsupported metadata.version downgrade from 29 to 22." in text
    )


def test_levels_without_an_epoch_are_unknown() -> None:
    """A broker with epoch -1 does not know the finalized levels."""
    made = plan(
        release_view("4.2.0", finalized={}, epoch=-1), (*upgrade({"group.version": 1}), *disable("share.version"))
    )
    assert made.judgement == "unknown"
    assert "group.version: unknown -> 1" in str(made)
    assert "no epoch" in str(made)
    assert "2 updates" in str(made)


def test_opening_and_affected_gates_read_as_text() -> None:
    """The text has a line for each gate."""
    low = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
    assert "  opens     kip848" in str(plan(low, upgrade({"group.version": 1}))).splitlines()
    text = str(plan(VIEW, disable("group.version"), latched={"next": presets.kip848}))
    assert "  affects   next, which stays latched: group.version>=1" in text


def test_a_plan_needs_updates_and_one_cluster() -> None:
    """A plan refuses no updates, no view, and views of two clusters."""
    with pytest.raises(InvalidUpdate):
        plan(VIEW, ())
    with pytest.raises(ValueError, match=r"^a plan needs the view of brokers, or that of controllers$"):
        plan(None, upgrade({"a": 1}))
    other = release_view("4.2.0", cluster_id="another")
    with pytest.raises(ValueError, match=rf"^these are views of two clusters: {VIEW.cluster_id} and another$"):
        plan(VIEW, upgrade({"a": 1}), controllers=other)
