"""Plans and outcomes as people read them, whole."""

from dataclasses import replace

import pytest

from featuregate import presets
from featuregate.admin.metadata_log import UNTIL, WHAT_TO_DO
from featuregate.admin.outcomes import FeatureOutcome, Outcome, lagging
from featuregate.admin.plans import UnreadLatch, plan
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import disable, downgrade, moving, upgrade
from featuregate.kafka_errors import broker_error
from featuregate.testing import release_view

NOT_ASKED = "controllers were not asked: where they cannot run a level, they refuse it whatever brokers can"
IN_LOG = (
    "may be in the metadata log still: a node of Kafka before 4.0 that reads it there does not start: before a "
    f"rollback to such a release, {WHAT_TO_DO}"
)


def back(feature: str, level: int, release: str, lowest: int = 0) -> str:
    """Return the line on the way back from a level."""
    start = f"  way back  {feature}: Kafka before {release} does not start with {level}"
    return f"{start}; to go back, lower it to {lowest}, then {UNTIL}"


def test_a_downgrade_says_what_closes_and_what_it_affects() -> None:
    """One line for each thing, and one for each latch that cannot be read."""
    view = release_view("4.2.0", "4.2.0", epoch=50)
    latched = {"next": presets.kip848, "g": UnreadLatch("file", "a~1", "cannot be parsed")}
    moves = moving(downgrade({"group.version": 0, "kraft.version": 0, "transaction.version": 1}), view)
    assert str(plan(view, moves.updates, latched=latched, left_out=moves.left_out)).splitlines() == [
        "unknown: 2 updates of cluster static, epoch 50, all or nothing",
        "  accepted  group.version: 1 -> 0",
        "  accepted  transaction.version: 2 -> 1",
        "  left out  kraft.version: is at 0 already",
        "  closes    kip848, kip890",
        (
            "  affects   next, which stays latched: group.version>=1: the finalized level is 0 (absent) at "
            "epoch 50 (and 2 more)"
        ),
        "  unread    g: cannot be parsed: whether this update affects it is unknown",
        f"  note      {NOT_ASKED}",
        f"  note      group.version=1 {IN_LOG}",
        f"  note      transaction.version=2 {IN_LOG}",
    ]


def test_an_upgrade_says_what_opens_and_what_cannot_be_undone() -> None:
    """Levels of metadata.version have names."""
    view = release_view("4.2.0", epoch=0, finalized={"metadata.version": 21}, cluster_id="")
    updates = upgrade({"metadata.version": 29, "group.version": 1, "kraft.version": 1})
    assert str(plan(view, updates, controllers=replace(view, role="controller"))).splitlines() == [
        "unknown: 3 updates of cluster unknown, epoch 0, all or nothing",
        "  accepted  metadata.version: 21 (3.9-IV0) -> 29 (4.2-IV1)",
        "  accepted  group.version: 0 -> 1",
        "  unknown   kraft.version: 0 -> 1: only the leader of the quorum knows whether every voter supports it",
        (
            "  no return  metadata.version: 29 cannot be lowered below 23 (4.0-IV1) again, and Kafka before "
            "4.0 does not start any more"
        ),
        "  no return  kraft.version: 1 cannot be lowered again, and Kafka before 3.9 does not start any more",
        back("metadata.version", 29, "4.2", 23),
        back("group.version", 1, "4.0"),
        "  opens     kip848",
    ]


def test_a_plan_says_what_was_not_seen() -> None:
    """Silent nodes, controllers that were not asked, voters that are not known, and names that no node knows."""
    view = release_view("3.9", "3.9", silent=[2], epoch=5)
    updates = upgrade({"metadata.version": 29, "grup.version": 1, "kraft.version": 1})
    quorum = Quorum(voters=None, addresses=("c1:9", "c2:9"), problem="no right")
    silent = "broker 2 (broker-2:9092) is silent, and counts with the levels of its registration"
    assert str(plan(view, (*updates, *disable("transaction.version")), quorum=quorum)).splitlines() == [
        "refused: 4 updates of cluster static, epoch 5, each by itself",
        (
            "  refused   metadata.version: 21 (3.9-IV0) -> 29 (4.2-IV1): Invalid update version 29 for feature "
            "metadata.version. Broker 1 only supports versions 1-21"
        ),
        (
            "  refused   grup.version: 0 -> 1: Invalid update version 1 for feature grup.version. Broker 1 "
            "does not support this feature."
        ),
        f"  unknown   kraft.version: 0 -> 1: {silent}",
        f"  unknown   transaction.version: 0 -> 0: {silent}",
        "  no return  kraft.version: 1 cannot be lowered again, and Kafka before 3.9 does not start any more",
        "  note      no node here knows grup.version; did you mean group.version?",
        f"  note      {NOT_ASKED} (voters: c1:9, c2:9)",
        "  note      the voters are not known, so a controller that has gone looks like one that is down: no right",
        (
            "  note      controllers before 4.1 write a level of kraft.version that their quorum does not "
            "have, and brokers report it (KAFKA-18979); whether these are newer is not known "
            "while metadata.version is below 4.1-IV0"
        ),
        "  note      broker 2 (broker-2:9092) is silent: silent in this test",
        (
            "  note      no node that answered can run this level of metadata.version, grup.version: roll the "
            "software of all nodes first"
        ),
    ]


def test_the_roll_comes_first_only_where_every_node_is_too_old_for_a_rise() -> None:
    """A node that leaves a feature out supports level 0 of it."""
    text = "no node that answered can run this level of x.version: roll the software of all nodes first"
    view = release_view("3.9", "4.2", epoch=5)
    assert text in plan(view, upgrade({"x.version": 1})).notes
    assert not any("roll the software" in note for note in plan(view, upgrade({"metadata.version": 29})).notes)
    assert not any("roll the software" in note for note in plan(view, downgrade({"x.version": 1})).notes)
    silent = release_view("4.2", silent=[1], epoch=5)
    assert not any("roll the software" in note for note in plan(silent, upgrade({"x.version": 1})).notes)


@pytest.mark.parametrize(
    ("cluster_id", "dry_run", "head"),
    [
        ("c", False, "update of cluster c: 1 of 2 refused"),
        (None, True, "dry run of cluster unknown: 1 of 2 refused"),
    ],
)
def test_an_outcome_reads_as_text(cluster_id: str | None, head: str, *, dry_run: bool) -> None:
    """A line for each feature."""
    agreed, refused = upgrade({"a": 1, "b": 2})
    features = (
        FeatureOutcome(update=agreed, error=None),
        FeatureOutcome(update=refused, error=broker_error(95, "no")),
    )
    assert str(Outcome(cluster_id=cluster_id, dry_run=dry_run, features=features)).splitlines() == [
        head,
        "  a to 1: agreed",
        "  b to 2: INVALID_UPDATE_VERSION (error 95): no",
    ]


def test_nodes_that_lag_are_told_by_what_they_show() -> None:
    """An epoch of 0 is one, and an absent level is 0."""
    view = release_view("4.2", "4.2", "4.2", silent=[2], epoch=0, finalized={"a": 1, "b": 2})
    unknown = replace(view, brokers=(*view.brokers[:2], replace(view.brokers[2], epoch=-1)))
    assert lagging(unknown, {"a": 2, "b": 2, "c": 1}) == (
        "broker 1 (broker-1:9092) shows a 1, c 0",
        "broker 2 (broker-2:9092) is silent: silent in this test",
        "broker 3 (broker-3:9092) does not know what is finalized",
    )
    assert lagging(replace(view, brokers=view.brokers[:1]), {"a": 1, "c": 0}) == ()
