"""Finalized levels: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, use, view
from told_rows import said, told

from featuregate.catalog import captured
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.checks.level_checks import (
    brokers,
    deprecate,
    finalize,
    finalized_levels,
    logged_levels,
    no_levels,
)
from featuregate_fleet.readiness.evidence import Evidence, LevelAt
from featuregate_fleet.readiness.moves import Deprecate, Finalize

HOUR = timedelta(hours=1)
NOW_AT_4_2 = view("4.2")


def levels(seen: View, release: str) -> str:
    return told(finalized_levels(seen, captured()[release]))


def test_brokers_are_to_answer_just_now() -> None:
    """A level may have been raised since."""
    assert told(brokers(view(missing=True, seen=NOW - HOUR), NOW)) == said("level 1")
    assert list(brokers(NOW_AT_4_2, NOW)) == []


def test_levels_that_a_release_supports_are_told() -> None:
    """By their names."""
    assert levels(NOW_AT_4_2, "4.2") == said("level 2")
    assert levels(view("3.9", metadata_version=6, group_version=0, transaction_version=0), "4.2") == said("level 3")


def test_levels_that_a_release_does_not_support_are_told_with_a_way() -> None:
    """Or that there is none."""
    assert levels(NOW_AT_4_2, "3.9") == said("level 4")
    assert levels(replace(NOW_AT_4_2, finalized={"metadata.version": 99, "bogus.version": 3}), "4.2") == said("level 5")
    assert levels(replace(view("2.8"), finalized={"x": 1}), "3.9") == said("level 6")


def test_a_cluster_whose_levels_are_not_known_is_told() -> None:
    """Unless it is older than levels."""
    unknown = replace(NOW_AT_4_2, epoch=-1, finalized={})
    assert levels(unknown, "4.2") == said("level 7")
    assert levels(unknown, "3.9") == levels(unknown, "4.2")
    assert list(finalized_levels(replace(view("2.6"), epoch=-1, finalized={}), captured()["3.9"])) == []
    assert levels(view("2.8"), "4.0") == said("level 8")
    assert told([no_levels()]) == said("level 9")


def test_levels_that_were_lowered_are_told() -> None:
    """The last time counts, and not a run that saw no level; after a day every node has written a snapshot."""
    seen = {
        "group.version": ((3, 1), (2, 0)),
        "metadata.version": ((48, 25), (47, 27), (25, 21)),
        "transaction.version": ((50, 2), (49, None), (1, 0)),
        "share.version": ((3, 1),),
    }
    at = tuple(LevelAt(name, level, NOW - back * HOUR) for name, those in seen.items() for back, level in those)
    low = view("3.9", metadata_version=21, group_version=0, transaction_version=0, share_version=1)
    assert told(logged_levels(Evidence(levels=at[::-1]), low, captured()["3.9"])) == said("level 10")
    assert list(logged_levels(Evidence(levels=at), view("4.2", share_version=1), captured()["3.9"])) == []


def test_what_the_controller_says_of_a_level_is_told() -> None:
    """And what it does not know."""
    none = Evidence(records_read=NOW)
    for_level = [
        told(finalize(none, NOW_AT_4_2, Finalize(*move), NOW))
        for move in (("transaction.version", 1), ("transaction.version", 2), ("transaction.version", 9))
    ]
    assert "".join(for_level) == said("level 11")
    assert told(finalize(none, NOW_AT_4_2, Finalize("kraft.version", 1), NOW)) == said("level 12")
    assert told(finalize(Evidence(), replace(NOW_AT_4_2, epoch=-1), Finalize("group.version", 0), NOW)) == said(
        "level 13"
    )


def test_members_whose_protocol_a_level_takes_away_are_told() -> None:
    """By group, and only of that protocol."""
    records = (
        use("ConsumerGroupMemberMetadata", 5, client_ids=("b", "a")),
        use("ConsumerGroupMemberMetadata", 5, group="late", current=False),
        use("ConsumerGroupMemberMetadata", 5, group="gone", version=None),
        use("ConsumerGroupMetadata", 3, group="empty"),
        use("ShareGroupMemberMetadata", 10, group="s", protocol="share", count=2),
    )
    evidence = Evidence(records=records, records_read=NOW - HOUR)
    assert told(finalize(evidence, NOW_AT_4_2, Finalize("group.version", 0), NOW - 2 * HOUR)) == said("level 14")
    assert told(finalize(evidence, NOW_AT_4_2, Finalize("group.version", 0), NOW)) == said("level 15")
    shared = view("4.2", share_version=1)
    assert told(finalize(evidence, shared, Finalize("share.version", 0), NOW - HOUR)) == said("level 16")


def test_a_level_that_brokers_stop_to_support_is_told() -> None:
    """The cluster has to be above it."""
    moves = Deprecate("metadata.version", 25), Deprecate("metadata.version", 24), Deprecate("group.version", 2)
    assert "".join(told(deprecate(NOW_AT_4_2, move)) for move in moves) == said("level 17")
    assert told(deprecate(replace(NOW_AT_4_2, epoch=-1), Deprecate("group.version", 0))) == said("level 18")
