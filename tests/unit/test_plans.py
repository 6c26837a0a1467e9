"""Plans: one judgement, what opens and closes, and what it would affect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from featuregate import Feature, presets
from featuregate.admin.plans import latched_in, plan
from featuregate.admin.updates import disable, downgrade, upgrade
from featuregate.errors import InvalidUpdate
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState
from featuregate.testing import release_view

VIEW = release_view("4.2.0", "4.2.0", epoch=50)


def test_one_refusal_makes_the_whole_refused() -> None:
    """And one doubt makes it unknown where nothing is refused."""
    fine, bad = upgrade({"share.version": 1}), upgrade({"group.version": 9})
    assert plan(VIEW, fine).judgement == "accepted"
    assert plan(VIEW, (*fine, *bad)).judgement == "refused"
    silent = release_view("4.2.0", "4.2.0", silent=[2], epoch=50)
    assert plan(silent, fine).judgement == "unknown"


def test_invariant_11_a_plan_over_silent_nodes_alone_is_unknown() -> None:
    """That no node has answered does not mean that no node supports UpdateFeatures."""
    silent = release_view("4.2.0", "4.2.0", silent=[1, 2], epoch=-1, finalized={})
    made = plan(silent, (*upgrade({"share.version": 1}), *disable("group.version")))
    assert {each.judgement for each in made.updates} == {"unknown"}
    assert "no node has answered" in made.updates[0].text


def test_controllers_tell_what_is_spoken_where_every_broker_is_silent() -> None:
    """It used to be refused, as by a cluster that knows no features."""
    brokers = release_view("4.2.0", silent=[1], epoch=-1, finalized={})
    controllers = replace(release_view("4.2.0", epoch=50), role="controller")
    made = plan(brokers, upgrade({"share.version": 1}), controllers=controllers)
    assert (made.judgement, "counts by what it said" in made.updates[0].text) == ("unknown", True)


def test_what_opens_and_what_closes_is_named() -> None:
    """By the presets that need the feature."""
    assert plan(VIEW, disable("group.version")).closes == ("kip848",)
    low = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
    assert plan(low, upgrade({"group.version": 1})).opens == ("kip848",)


def test_a_preset_that_was_closed_before_is_not_closed_by_it() -> None:
    """Only what changes is told."""
    low = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
    assert plan(low, disable("group.version")).closes == ()


def test_a_latched_client_that_would_be_hurt_is_named() -> None:
    """It goes on as before, because a latch never closes; the brokers do not."""
    latched = {"next": presets.kip848, "eos": presets.kip447, "tv": Feature("transaction.version") >= 1}
    (affected,) = plan(VIEW, disable("group.version"), latched=latched).affected
    assert affected.gate == "next"
    assert "group.version>=1" in affected.why


def test_whoever_is_hurt_already_is_not_hurt_by_it() -> None:
    """The level is too low with the update and without it."""
    latched = {"tv": Feature("transaction.version") >= 9}
    assert plan(VIEW, disable("group.version"), latched=latched).affected == ()


@pytest.mark.parametrize(("release", "level", "closes"), [("4.2.0", 29, ()), ("3.9.2", 21, ("below",))])
def test_what_is_refused_opens_nothing_and_hurts_nobody(release: str, level: int, closes: tuple[str, ...]) -> None:
    """From 4.0 on it takes with it what would have been accepted."""
    seen = release_view(release, epoch=50, finalized={"metadata.version": level})
    latched = {"below": Feature("metadata.version") >= level}
    made = plan(seen, (*upgrade({"group.version": 9}), *downgrade({"metadata.version": level - 1})), latched=latched)
    assert [each.judgement for each in made.updates] == ["refused", "accepted"]
    assert made.opens == ()
    assert tuple(affected.gate for affected in made.affected) == closes


def test_a_feature_that_is_misspelt_is_noted() -> None:
    """With those that look like it, of the table and of the cluster; a new one of the cluster is no mistake."""
    assert any("did you mean group.version?" in note for note in plan(VIEW, upgrade({"grup.version": 1})).notes)
    assert not any("did you mean" in note for note in plan(VIEW, upgrade({"bogus": 1})).notes)
    newer = replace(VIEW, brokers=tuple(replace(one, supported={"grup.version": (0, 1)}) for one in VIEW.brokers))
    assert not any("did you mean" in note for note in plan(newer, upgrade({"grup.version": 1})).notes)


def test_a_latch_of_a_file_is_read_as_it_was_written() -> None:
    """Two latches by one name are two."""
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
    """A plan says what it does not know."""
    notes = plan(release_view("4.2.0", "4.2.0", silent=[2]), upgrade({"share.version": 1})).notes
    assert any("controllers were not asked" in note for note in notes)
    assert any("is silent" in note for note in notes)


def test_unsafe_never_pretends() -> None:
    """For metadata.version it is said in a note, too."""
    made = plan(VIEW, downgrade({"metadata.version": 7}, unsafe=True))
    assert made.judgement == "refused"
    assert any("KAFKA-13896" in note for note in made.notes)


@pytest.mark.parametrize(("release", "level", "noted"), [("3.9.2", 21, True), ("4.0", 25, True), ("4.2.0", 29, False)])
def test_a_level_of_kraft_version_that_may_be_a_mere_record_is_noted(release: str, level: int, *, noted: bool) -> None:
    """Controllers before 4.1 write it though their quorum does not have it (KAFKA-18979)."""
    made = plan(release_view(release, finalized={"metadata.version": level}, epoch=50), upgrade({"kraft.version": 1}))
    assert any("KAFKA-18979" in note for note in made.notes) is noted


def test_kraft_version_may_be_raised_though_the_rest_is_refused() -> None:
    """From 4.1 on the quorum raises it before the controller judges what comes behind it."""
    both = upgrade({"kraft.version": 1, "transaction.version": 9})
    assert any("kraft.version may be raised for good" in note for note in plan(VIEW, both).notes)
    for harmless in (upgrade({"kraft.version": 1, "share.version": 1}), upgrade({"transaction.version": 9})):
        assert not any("raised for good" in note for note in plan(VIEW, harmless).notes)
    before = release_view("3.9.2", epoch=50)
    assert not any("raised for good" in note for note in plan(before, both).notes)


def test_a_plan_reads_as_text() -> None:
    """The judgement first, then each feature with its levels by name."""
    first, second, *_ = str(plan(VIEW, downgrade({"metadata.version": 27}))).splitlines()
    assert first.startswith("accepted: 1 update of cluster ")
    assert first.endswith("all or nothing")
    assert second == "  accepted  metadata.version: 29 (4.2-IV1) -> 27 (4.1-IV1)"


def test_a_refusal_reads_as_the_controllers_words() -> None:
    """Behind the levels."""
    text = str(plan(VIEW, downgrade({"metadata.version": 22})))
    assert (
        "metadata.version: 29 (4.2-IV1) -> 22 (4.0-IV0): Unsupported metadata.version downgrade from 29 to 22." in text
    )


def test_levels_that_nobody_tells_are_unknown() -> None:
    """An epoch of -1 says so."""
    made = plan(
        release_view("4.2.0", finalized={}, epoch=-1), (*upgrade({"group.version": 1}), *disable("share.version"))
    )
    assert made.judgement == "unknown"
    assert "group.version: unknown -> 1" in str(made)
    assert "no epoch" in str(made)
    assert "2 updates" in str(made)


def test_what_opens_and_who_is_hurt_reads_as_text() -> None:
    """A line each."""
    low = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
    assert "  opens     kip848" in str(plan(low, upgrade({"group.version": 1}))).splitlines()
    text = str(plan(VIEW, disable("group.version"), latched={"next": presets.kip848}))
    assert "  affects   next, which stays latched: group.version>=1" in text


def test_a_plan_needs_updates_and_one_cluster() -> None:
    """Else it is refused before it judges."""
    with pytest.raises(InvalidUpdate):
        plan(VIEW, ())
    with pytest.raises(ValueError, match="needs the view"):
        plan(None, upgrade({"a": 1}))
    other = release_view("4.2.0", cluster_id="another")
    with pytest.raises(ValueError, match="two clusters"):
        plan(VIEW, upgrade({"a": 1}), controllers=other)
