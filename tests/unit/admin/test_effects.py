"""What a level does to configs beside itself, from the configs of one cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ScriptedCluster

from featuregate import Admin
from featuregate.admin.effects import ConfigValue, InSyncConfigs, effects_on_in_sync
from featuregate.admin.plans import plan
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import upgrade
from featuregate.catalog import effects, effects_measured, effects_of
from featuregate.testing import release_view

ELR, MIN_INSYNC = "eligible.leader.replicas.version", "min.insync.replicas"
TOPIC, DYNAMIC, DEFAULT, PROPERTIES, KAFKA = 1, 2, 3, 4, 5
RAISED = upgrade({ELR: 1})
VIEW = release_view("4.2", finalized={"metadata.version": 29}, epoch=50)


def configs(*brokers: list[tuple[str, int]], **kept: object) -> InSyncConfigs:
    """Return what brokers 1, 2 and so on say; a controller of its own has Kafka's default."""
    told = {at: tuple(ConfigValue(*each) for each in values) for at, values in enumerate(brokers, 1)}
    return replace(InSyncConfigs(brokers=told, controllers={101: (ConfigValue("1", KAFKA),)}), **kept)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "voters", "falls"),
    [
        (configs([("2", PROPERTIES), ("1", KAFKA)]), {101}, True),
        (configs([("2", DYNAMIC), ("1", KAFKA)]), {101}, True),
        (configs([("1", KAFKA)]), {101}, False),
        (configs([("2", DEFAULT), ("2", PROPERTIES)]), {101}, False),
        (configs([("3", DYNAMIC), ("2", DEFAULT), ("1", KAFKA)]), {101}, True),
        (configs([("1", PROPERTIES)], [("2", PROPERTIES)]), {101}, True),
        (configs([("2", PROPERTIES)], [("2", PROPERTIES)]), {1, 2}, False),
        (configs([("2", DYNAMIC), ("1", PROPERTIES)]), {1}, True),
        (configs([("two", PROPERTIES)]), {101}, True),
        (configs([("9" * 5000, PROPERTIES)]), {101}, True),
    ],
)
def test_a_value_falls_where_the_controller_writes_a_lower_default(
    found: InSyncConfigs, voters: set[int], *, falls: bool
) -> None:
    """A default of the cluster that is there stays; else it is that of the controller, and dynamic values go."""
    said = effects_on_in_sync(found, voters)
    assert (said.problems, said.falling) == ((), frozenset({MIN_INSYNC} if falls else ()))
    remedy = "--entity-type brokers --entity-default --alter --add-config min.insync.replicas="
    assert any(remedy in note for note in said.notes) is falls


@pytest.mark.parametrize(
    ("found", "voters", "problem"),
    [
        (None, {101}, "was not read"),
        (configs(), {101}, "no broker was asked"),
        (configs([("1", KAFKA)], problems=("broker 2 is silent",)), {101}, "broker 2 is silent"),
        (configs([("1", KAFKA)]), None, "the voters are not known"),
        (configs([("1", KAFKA)]), {101, 102}, "of controller 102 was not read: ask it too (--controllers)"),
        (configs([("1", KAFKA)], problems=("controller 102 did not say it",)), {101, 102}, "did not say it"),
    ],
)
def test_what_was_not_read_is_unknown(found: InSyncConfigs | None, voters: set[int] | None, problem: str) -> None:
    """A controller that was not asked may be the one that writes its value."""
    said = effects_on_in_sync(found, voters)
    (only,) = said.problems
    assert problem in only
    quorum = Quorum(voters=None if voters is None else frozenset(voters))
    made = plan(VIEW, RAISED, controllers=replace(VIEW, role="controller"), quorum=quorum, configs=found)
    assert made.judgement == "unknown"


def test_each_broker_and_topic_has_what_it_has_now_and_will_have() -> None:
    found = configs([("2", DYNAMIC), ("2", PROPERTIES)], [("3", PROPERTIES)], topics={"b": None, "a": None, "own": "2"})
    said = effects_on_in_sync(found, {101})
    after = "1 (written by the controller, from its properties)"
    assert [str(change) for change in said.changes] == [
        f"{MIN_INSYNC} of broker 1: 2 (dynamic, of the broker) -> {after}",
        f"{MIN_INSYNC} of broker 2: 3 (in its properties) -> {after}",
        f"{MIN_INSYNC} of 2 topics without a value of their own (a, b): 2 or 3 -> {after}",
        f"{MIN_INSYNC} of 1 topics with a value of their own (own): 2 -> 2",
    ]
    assert [change.falls for change in said.changes] == [True, True, True, False]
    assert said.notes[0].endswith("min.insync.replicas=3")
    assert "topics with fewer replicas than that refuse acks=all" in said.notes[0]


def test_the_default_that_keeps_all_values_is_the_highest_number() -> None:
    found = configs([("9", PROPERTIES)], [("10", PROPERTIES)], [("two", PROPERTIES)])
    assert effects_on_in_sync(found, {101}).notes[0].endswith("min.insync.replicas=10")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_no_value_that_falls_is_left_out(brokers: list[int], controllers: list[int]) -> None:
    """Whichever controller is active then."""
    found = configs(*([(str(value), PROPERTIES)] for value in brokers))
    others = {100 + at: (ConfigValue(str(value), PROPERTIES),) for at, value in enumerate(controllers)}
    said = effects_on_in_sync(replace(found, controllers=others), others)
    assert bool(said.falling) == (min(controllers) < max(brokers))


def test_every_level_that_nodes_support_was_measured() -> None:
    """Levels of the newest release, too; only one level changes anything else."""
    tops = {name: top for name, (_, top) in release_view("4.4").brokers[0].supported.items()}
    assert all(
        effects_measured(name, level) for name, top in tops.items() for level in range(8 if top > 7 else 1, top + 1)
    )
    assert not effects_measured("group.version", 99)
    assert {(each.feature, each.name) for each in effects()} == {(ELR, MIN_INSYNC)}
    assert all(each.stays for each in effects_of(ELR, 0, 1))
    assert effects_of(ELR, 1, 1) == ()


def test_brokers_controllers_and_topics_are_read_with_their_sources() -> None:
    """As one client sees them; a topic that the client may not see is named, and what it has is its brokers' matter."""
    with ScriptedCluster(2) as brokers, ScriptedCluster(1, role="controller") as controllers:
        for cluster in (brokers, controllers):
            cluster.apply({ELR: 0})
            cluster.vote(1)
        brokers.topics = ("plain", "own", "hidden")
        brokers.in_sync = {
            "1": [("2", PROPERTIES), ("1", KAFKA)],
            "2": [("1", KAFKA)],
            "plain": [("2", PROPERTIES)],
            "own": [("3", TOPIC), ("2", PROPERTIES)],
            "hidden": 29,
        }
        controllers.in_sync = {"1": [("1", KAFKA)]}
        made = Admin(brokers.bootstrap).plan(RAISED, controllers=controllers.bootstrap)
        assert [change.where for change in made.effects.changes if change.falls] == [
            "broker 1",
            "1 topics without a value of their own (plain)",
        ]
        assert made.effects.problems == ()
        assert made.judgement == "refused"
        asked = {"controllers": controllers.bootstrap, "accept_effects": [MIN_INSYNC]}
        assert Admin(brokers.bootstrap).plan(RAISED, **asked).judgement == "accepted"
        assert any("the client may not see hidden" in note for note in made.notes)

        brokers.in_sync["2"] = 31
        made = Admin(brokers.bootstrap).plan(RAISED, controllers=controllers.bootstrap)
        assert any("broker 2 was not read: CLUSTER_AUTHORIZATION_FAILED" in each for each in made.unread_effects)
        brokers.in_sync["2"] = []
        controllers.shut(1)
        made = Admin(brokers.bootstrap, timeout=2).plan(RAISED)
        assert any("of broker 2 was not read" in each for each in made.unread_effects)


def test_a_source_that_only_newer_brokers_know_keeps_its_number() -> None:
    assert [str(ConfigValue("1", source)) for source in (0, KAFKA, 9)] == ["1", "1 (Kafka's default)", "1 (source 9)"]
