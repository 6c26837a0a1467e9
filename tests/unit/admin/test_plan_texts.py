"""Plans and outcomes as people read them, compared whole with ``plans.txt``, and what a plan affects."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from transcripts import sections

from featuregate import Config, Feature, View, presets
from featuregate.admin.effects import ConfigValue, InSyncConfigs
from featuregate.admin.outcomes import FeatureOutcome, Outcome, lagging
from featuregate.admin.plans import Plan, UnreadLatch, latched_in, plan
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import Update, disable, downgrade, moving, to_release, upgrade
from featuregate.errors import InvalidUpdate
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState
from featuregate.kafka_errors import broker_error
from featuregate.testing import release_view


def lowers() -> Plan:
    view = release_view("4.2.0", "4.2.0", epoch=50)
    latched = {"next": presets.kip848, "g": UnreadLatch("file", "a~1", "cannot be parsed")}
    moves = moving(downgrade({"group.version": 0, "kraft.version": 0, "transaction.version": 1}), view)
    return plan(view, moves.updates, latched=latched, left_out=moves.left_out)


def raises() -> Plan:
    view = release_view("4.2.0", epoch=0, finalized={"metadata.version": 21}, cluster_id="")
    updates = upgrade({"metadata.version": 29, "group.version": 1, "kraft.version": 1})
    return plan(view, updates, controllers=replace(view, role="controller"))


def not_seen() -> Plan:
    view = release_view("3.9", "3.9", silent=[2], epoch=5)
    updates = upgrade({"metadata.version": 29, "grup.version": 1, "kraft.version": 1})
    quorum = Quorum(voters=None, addresses=("c1:9", "c2:9"), problem="no right")
    return plan(view, (*updates, *disable("transaction.version")), quorum=quorum)


def outcome(cluster_id: str | None, *, dry_run: bool) -> Outcome:
    agreed, refused = upgrade({"a": 1, "b": 2})
    told = (FeatureOutcome(update=agreed, error=None), FeatureOutcome(update=refused, error=broker_error(95, "no")))
    return Outcome(cluster_id=cluster_id, dry_run=dry_run, features=told)


VIEW = release_view("4.2.0", "4.2.0", epoch=50)
LOW = release_view("4.2.0", epoch=50, finalized={"metadata.version": 29})
NO_LEVELS = release_view("4.2.0", epoch=-1, finalized={})
NO_CONFIGS = replace(NO_LEVELS, brokers=tuple(replace(one, configs={}) for one in NO_LEVELS.brokers))
SILENT = release_view("4.2.0", "4.2.0", silent=[1, 2], epoch=-1, finalized={})
LIKE_GROUP = replace(VIEW, brokers=tuple(replace(one, supported={"grup.version": (0, 1)}) for one in VIEW.brokers))
CONTROLLERS = replace(VIEW, role="controller", brokers=tuple(replace(one, role="controller") for one in VIEW.brokers))
ELR = "eligible.leader.replicas.version"
WITH_ELR = release_view("4.2", finalized={"metadata.version": 29, ELR: 1}, epoch=50)
FROM_3_9 = release_view("4.2", finalized={"metadata.version": 21, "kraft.version": 0}, epoch=50)
VOTER = Quorum(voters=frozenset({1}))
BUILT_IN, OWN = ConfigValue("1", 5), ConfigValue("2", 4)
FALLS = InSyncConfigs(brokers={1: (OWN,)}, controllers={1: (BUILT_IN,)})
STAYS = InSyncConfigs(brokers={1: (BUILT_IN,)})
GROUP = release_view("4.2", epoch=5, finalized={"metadata.version": 29, "group.version": 9})
NEWER = {**GROUP.brokers[0].supported, "group.version": GROUP.brokers[0].supported["group.version"]._replace(max=9)}
KRAFT, SHARE, DISABLED = upgrade({"kraft.version": 1}), upgrade({"share.version": 1}), disable("group.version")
KEYS = [LatchKey("g", "group.version>=1"), LatchKey("new", "group.version~3")]
LATCHED = latched_in(
    LatchState(
        cluster_id="c",
        gates={key: LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=1.0, epoch=5) for key in KEYS},
    )
)


def of(*updates: Update, at: View | None = VIEW, **more: Any) -> Callable[[], Plan]:
    return lambda: plan(at, updates, **more)


def at_level(release: str, level: int) -> View:
    return release_view(release, finalized={"metadata.version": level}, epoch=50)


def down_beside_a_refusal(release: str, level: int) -> Callable[[], Plan]:
    updates = (*upgrade({"group.version": 9}), *downgrade({"metadata.version": level - 1}))
    latched = {"below": Feature("metadata.version") >= level}
    return of(*updates, at=at_level(release, level), latched=latched)


def asked_all(*updates: Update, at: View, **more: Any) -> Callable[[], Plan]:
    return of(*updates, at=at, controllers=replace(at, role="controller"), quorum=VOTER, **more)


def moved(wanted: tuple[Update, ...], at: View, **more: Any) -> Callable[[], Plan]:
    moves = moving(wanted, at)
    return asked_all(*moves.updates, at=at, left_out=moves.left_out, **more)


SCENES: dict[str, Callable[[], object]] = {
    "all is accepted": of(*SHARE),
    "one refusal makes the whole refused": of(*SHARE, *upgrade({"group.version": 9})),
    "one that is unknown makes the whole unknown": of(*SHARE, at=release_view("4.2.0", "4.2.0", silent=[2], epoch=50)),
    "silent nodes alone may still support it": of(*SHARE, *DISABLED, at=SILENT),
    "before 2.7 nothing supports it": of(*SHARE, at=release_view("2.6")),
    "controllers tell what is spoken where every broker is silent": of(
        *SHARE, at=SILENT, controllers=replace(LOW, role="controller")
    ),
    "a preset closes": of(*DISABLED),
    "a preset opens": of(*upgrade({"group.version": 1}), at=LOW),
    "a preset that was closed before is not closed by it": of(*DISABLED, at=LOW),
    "a preset opens where levels were unknown": of(
        *upgrade({"group.version": 1}), *disable("share.version"), at=NO_LEVELS
    ),
    "and where configs are unknown, too": of(*upgrade({"group.version": 1}), at=NO_CONFIGS),
    "levels without an epoch are none, and open no preset of other features": of(
        *upgrade({"metadata.version": 30}), at=replace(VIEW, epoch=-1)
    ),
    "a gate is affected, and not one whose level is missing already": of(
        *DISABLED,
        latched={
            "next": presets.kip848,
            "eos": presets.kip447,
            "tv": Feature("transaction.version") >= 1,
            "missing": Feature("transaction.version") >= 9,
        },
    ),
    "from 4.0 on a refusal takes what is accepted with it": down_beside_a_refusal("4.2.0", 29),
    "before 4.0 each update stands by itself": down_beside_a_refusal("3.9.2", 21),
    "a feature that is like one of the table": of(*upgrade({"grup.version": 1})),
    "a feature that is like none": of(*upgrade({"bogus": 1})),
    "a feature that the cluster knows": of(*upgrade({"grup.version": 1}), at=LIKE_GROUP),
    "a latch that this release cannot parse": of(*DISABLED, latched=LATCHED),
    "a gate loses one of two ways, and brokers were not asked for the other": of(
        *DISABLED,
        at=replace(VIEW, brokers=tuple(replace(one, configs={}) for one in VIEW.brokers)),
        latched={"g": (Feature("group.version") >= 1) | Config("log.retention.hours").has("7")},
    ),
    "a refusal outweighs a latch that cannot be parsed": of(*upgrade({"group.version": 9}), latched=LATCHED),
    "this user may not alter": of(*SHARE, quorum=Quorum(voters=frozenset(), may_alter=False)),
    "the voters are not known": of(
        *SHARE, quorum=Quorum(voters=None, addresses=("c1:9093", "c2:9093"), problem="no rights")
    ),
    "one is registered and is not a voter, and brokers were not asked": of(
        *SHARE, at=None, controllers=CONTROLLERS, quorum=Quorum(voters=frozenset({1}))
    ),
    "no release carries out an unsafe downgrade": of(*downgrade({"metadata.version": 7}, unsafe=True)),
    "a level of kraft.version may be a mere record in 3.9": of(*KRAFT, at=at_level("3.9.2", 21)),
    "and in 4.0": of(*KRAFT, at=at_level("4.0", 25)),
    "and not in 4.2": of(*KRAFT, at=at_level("4.2.0", 29)),
    "nor where it is there already": of(
        *KRAFT, at=release_view("3.9.2", epoch=50, finalized={"metadata.version": 21, "kraft.version": 1})
    ),
    "a level of which no release is known stays in the log": of(
        *DISABLED, at=replace(GROUP, brokers=(replace(GROUP.brokers[0], supported=NEWER),))
    ),
    "no node can run the level yet": of(*upgrade({"metadata.version": 30}), at=at_level("3.9", 21)),
    "every node can run the level": of(*upgrade({"metadata.version": 30}), at=at_level("4.3", 21)),
    "one of two nodes can run the level, and none knows the other feature": of(
        *upgrade({"metadata.version": 29, "x.version": 1}), at=release_view("3.9", "4.2", epoch=5)
    ),
    "what is lowered asks for no roll": of(*downgrade({"x.version": 1}), at=release_view("3.9", "4.2", epoch=5)),
    "nor does what a silent node may run": of(*upgrade({"x.version": 1}), at=release_view("4.2", silent=[1], epoch=5)),
    "ZooKeeper has no metadata log": of(
        *downgrade({"bogus.version": 1}), at=release_view("2.8.2", epoch=5, finalized={"bogus.version": 2})
    ),
    # from 4.1 on the quorum raises its version before the controller checks the other updates
    "kraft.version may be raised though the rest is refused": of(*KRAFT, *upgrade({"transaction.version": 9})),
    "though two others are": of(*KRAFT, *upgrade({"group.version": 9, "transaction.version": 9})),
    "it is raised with what is accepted": of(*KRAFT, *SHARE),
    "in 3.9 each stands by itself": of(
        *KRAFT, *upgrade({"transaction.version": 9}), at=release_view("3.9.2", epoch=50)
    ),
    "levels have names": of(*downgrade({"metadata.version": 27})),
    "a refusal has the words of the controller": of(*downgrade({"metadata.version": 22})),
    "a downgrade says what closes and what it affects": lowers,
    "an upgrade says what opens and what cannot be undone": raises,
    "a plan says what was not seen": not_seen,
    "a lowered level restores nothing": of(*disable(ELR), at=WITH_ELR),
    "a level that was never there has changed nothing": of(*disable(ELR), at=LOW),
    "a value that falls is refused": asked_all(*upgrade({ELR: 1}), at=LOW, configs=FALLS),
    "and accepted by name": asked_all(
        *upgrade({ELR: 1}), at=LOW, configs=FALLS, accept_effects=["min.insync.replicas"]
    ),
    "a level that is there writes nothing": asked_all(*upgrade({ELR: 1}), at=WITH_ELR, configs=FALLS),
    # a 3.9 node did not start then
    "nothing to lower is no clearance": moved(
        downgrade({"metadata.version": 21, "group.version": 0}), at_level("4.3", 21)
    ),
    "but where no node could have raised it": moved(downgrade({"metadata.version": 21}), at_level("3.9", 21)),
    "a release and what it cannot take back": moved(to_release("4.2"), FROM_3_9, configs=STAYS),
    "a refused update takes nothing away": of(*upgrade({"metadata.version": 33}), at=at_level("4.2", 21)),
    "an update": lambda: outcome("c", dry_run=False),
    "a dry run": lambda: outcome(None, dry_run=True),
}
READ = sections(__file__, "plans.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_a_plan_or_an_outcome_reads_as_text(scene: str) -> None:
    assert str(SCENES[scene]()) == READ[scene]


def test_nodes_that_lag_are_told_by_what_they_show() -> None:
    view = release_view("4.2", "4.2", "4.2", silent=[2], epoch=0, finalized={"a": 1, "b": 2})
    unknown = replace(view, brokers=(*view.brokers[:2], replace(view.brokers[2], epoch=-1)))
    assert lagging(unknown, {"a": 2, "b": 2, "c": 1}) == (
        "broker 1 (broker-1:9092) shows a 1, c 0",
        "broker 2 (broker-2:9092) is silent: silent in this test",
        "broker 3 (broker-3:9092) does not know what is finalized",
    )
    assert lagging(replace(view, brokers=view.brokers[:1]), {"a": 1, "c": 0}) == ()


def test_a_latch_of_a_file_is_read_as_it_was_written() -> None:
    """Two latches with one gate name and two requirements stay two."""
    keys = [LatchKey("g", "group.version>=1"), LatchKey("g", "transaction.version>=2")]
    gates = {key: LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=1.0, epoch=5) for key in keys}
    found = latched_in(LatchState(cluster_id="c", gates=gates))
    assert {name: str(requirement) for name, requirement in found.items()} == {
        "g": "group.version>=1",
        "g (transaction.version>=2)": "transaction.version>=2",
    }


@pytest.mark.parametrize(
    ("updates", "stays"),
    [
        (disable("transaction.version"), ["transaction.version=2"]),
        (downgrade({"transaction.version": 1}), ["transaction.version=2"]),
        (
            (*disable("group.version"), *downgrade({"transaction.version": 1})),
            ["group.version=1", "transaction.version=2"],
        ),
        ((*downgrade({"metadata.version": 28}), *disable("group.version")), ["group.version=1", "metadata.version=29"]),
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


def test_a_plan_needs_updates_and_one_cluster() -> None:
    with pytest.raises(InvalidUpdate):
        plan(VIEW, ())
    with pytest.raises(ValueError, match=r"^a plan needs the view of brokers, or that of controllers$"):
        plan(None, upgrade({"a": 1}))
    other = release_view("4.2.0", cluster_id="another")
    with pytest.raises(ValueError, match=rf"^these are views of two clusters: {VIEW.cluster_id} and another$"):
        plan(VIEW, upgrade({"a": 1}), controllers=other)
