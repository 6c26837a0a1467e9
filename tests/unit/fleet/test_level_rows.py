"""Finalized levels: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, use, view
from told_rows import told

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
    assert (
        told(brokers(view(missing=True, seen=NOW - HOUR), NOW))
        == """
stale brokers, the cluster: Its brokers were asked for their levels too long ago: an operator may have raised
    some since then. -> Give --bootstrap-server to 'featuregate fleet readiness', which asks them now.
    [last_seen=22.11:00]
unknown brokers, broker 2 (b2:9092): It did not answer: no answer. -> Run 'featuregate fleet run' with
    --bootstrap-server again when it is back. [last_seen=22.11:00]
"""
    )
    assert list(brokers(NOW_AT_4_2, NOW)) == []


def test_levels_that_a_release_supports_are_told() -> None:
    """By their names."""
    assert (
        levels(NOW_AT_4_2, "4.2")
        == """
ok feature-levels, group.version=1: Kafka 4.2 supports 0 to 1. -> (nothing) [last_seen=22.12:00]
ok feature-levels, metadata.version=4.0-IV3: Kafka 4.2 supports 3.3-IV3 to 4.2-IV1. -> (nothing)
    [last_seen=22.12:00]
ok feature-levels, transaction.version=1: Kafka 4.2 supports 0 to 2. -> (nothing) [last_seen=22.12:00]
"""
    )
    assert (
        levels(view("3.9", metadata_version=6, group_version=0, transaction_version=0), "4.2")
        == """
block feature-levels, metadata.version=3.3-IV2: Kafka 4.2 supports 3.3-IV3 to 4.2-IV1, and its brokers do not
    start with another level. -> Before, run 'featuregate upgrade --feature metadata.version=7'; 'featuregate
    plan --controllers' says whether controllers accept it. [last_seen=22.12:00]
"""
    )


def test_levels_that_a_release_does_not_support_are_told_with_a_way() -> None:
    """Or that there is none."""
    assert (
        levels(NOW_AT_4_2, "3.9")
        == """
block feature-levels, group.version=1: Kafka 3.9 supports no group.version, and its brokers do not start with
    another level. -> Before, run 'featuregate downgrade --feature group.version=0', which loses nothing. Then
    wait until every node has written a snapshot since then (__cluster_metadata-0/*.checkpoint; by
    metadata.log.max.snapshot.interval.ms each hour), or restart the nodes with a shorter interval.
    [last_seen=22.12:00]
block feature-levels, metadata.version=4.0-IV3: Kafka 3.9 supports 3.0-IV1 to 3.9-IV0, and its brokers do not
    start with another level. -> There is no way: the controller refuses metadata.version=3.9-IV0. Unsupported
    metadata.version downgrade from 25 to 21. Refusing to perform the requested downgrade because it might
    delete metadata information. [last_seen=22.12:00]
block feature-levels, transaction.version=1: Kafka 3.9 supports no transaction.version, and its brokers do not
    start with another level. -> Before, run 'featuregate downgrade --feature transaction.version=0', which
    loses nothing. Then wait until every node has written a snapshot since then
    (__cluster_metadata-0/*.checkpoint; by metadata.log.max.snapshot.interval.ms each hour), or restart the
    nodes with a shorter interval. [last_seen=22.12:00]
"""
    )
    assert (
        levels(replace(NOW_AT_4_2, finalized={"metadata.version": 99, "bogus.version": 3}), "4.2")
        == """
block feature-levels, bogus.version=3: Kafka 4.2 supports no bogus.version, and its brokers do not start with
    another level. -> There is no way: the controller refuses bogus.version=0. Invalid update version 0 for
    feature bogus.version. Feature bogus.version not found. [last_seen=22.12:00]
block feature-levels, metadata.version=UNKNOWN 99: Kafka 4.2 supports 3.3-IV3 to 4.2-IV1, and its brokers do
    not start with another level. -> There is no way: the controller refuses metadata.version=4.2-IV1.
    Unsupported metadata.version downgrade from 99 to 29. Refusing to perform the requested downgrade because
    it might delete metadata information. [last_seen=22.12:00]
"""
    )
    assert (
        levels(replace(view("2.8"), finalized={"x": 1}), "3.9")
        == """
block feature-levels, x=1: Kafka 3.9 supports no x, and its brokers do not start with another level. -> It is
    not known whether the controller accepts x=0: no release of Kafka has a feature for a controller with
    ZooKeeper, which alone knows. [last_seen=22.12:00]
"""
    )


def test_a_cluster_whose_levels_are_not_known_is_told() -> None:
    """Unless it is older than levels."""
    unknown = replace(NOW_AT_4_2, epoch=-1, finalized={})
    assert (
        levels(unknown, "4.2")
        == """
unknown feature-levels, the cluster: No broker reports finalized levels. -> Run 'featuregate fleet run' with
    --bootstrap-server again. [last_seen=22.12:00]
"""
    )
    assert levels(unknown, "3.9") == levels(unknown, "4.2")
    assert list(finalized_levels(replace(view("2.6"), epoch=-1, finalized={}), captured()["3.9"])) == []
    assert (
        levels(view("2.8"), "4.0")
        == """
block feature-levels, the cluster: It runs with ZooKeeper, because not all brokers support metadata.version;
    Kafka 4.0 runs with KRaft alone. -> Before, migrate the cluster to KRaft with a release that runs with
    both, such as 3.9 (KIP-866), and finalize metadata.version 3.3-IV3 or higher there. [last_seen=22.12:00]
"""
    )
    assert (
        told([no_levels()])
        == """
unknown feature-levels, the cluster: The tables have no finalized levels. -> Run 'featuregate fleet run' with
    --bootstrap-server. []
"""
    )


def test_levels_that_were_lowered_are_told() -> None:
    """Of the last time; after a day every node has written a snapshot."""
    seen = {
        "group.version": ((3, 1), (2, 0)),
        "metadata.version": ((48, 25), (47, 27), (25, 21)),
        "transaction.version": ((3, 2), (1, None)),
        "share.version": ((3, 1),),
    }
    at = tuple(LevelAt(name, level, NOW - back * HOUR) for name, those in seen.items() for back, level in those)
    low = view("3.9", metadata_version=21, group_version=0, transaction_version=0)
    assert (
        told(logged_levels(Evidence(levels=at[::-1]), low, captured()["3.9"]))
        == """
unknown metadata-log, group.version=1: It was lowered before 2026-11-22 10:00 UTC, and may be in the metadata
    log still: a controller of Kafka 3.9 that reads it there does not start. -> Wait until every node has
    written a snapshot since then (__cluster_metadata-0/*.checkpoint; by metadata.log.max.snapshot.interval.ms
    each hour), or restart the nodes with a shorter interval. [last_seen=22.12:00]
warn metadata-log, metadata.version=4.1-IV1: It was lowered before 2026-11-21 11:00 UTC, and may be in the
    metadata log still: a controller of Kafka 3.9 that reads it there does not start. -> Wait until every node
    has written a snapshot since then (__cluster_metadata-0/*.checkpoint; by
    metadata.log.max.snapshot.interval.ms each hour), or restart the nodes with a shorter interval.
    [last_seen=22.12:00]
unknown metadata-log, transaction.version=2: It was lowered before 2026-11-22 11:00 UTC, and may be in the
    metadata log still: a controller of Kafka 3.9 that reads it there does not start. -> Wait until every node
    has written a snapshot since then (__cluster_metadata-0/*.checkpoint; by
    metadata.log.max.snapshot.interval.ms each hour), or restart the nodes with a shorter interval.
    [last_seen=22.12:00]
"""
    )
    assert list(logged_levels(Evidence(levels=at), NOW_AT_4_2, captured()["3.9"])) == []


def test_what_the_controller_says_of_a_level_is_told() -> None:
    """And what it does not know."""
    none = Evidence(records_read=NOW)
    for_level = [
        told(finalize(none, NOW_AT_4_2, Finalize(*move), NOW))
        for move in (("transaction.version", 1), ("transaction.version", 2), ("transaction.version", 9))
    ]
    assert (
        "".join(for_level)
        == """
ok feature-levels, transaction.version=1: It is finalized already. -> (nothing) [last_seen=22.12:00]

warn feature-levels, transaction.version=2: Brokers can run it, from 1. Controllers were not asked: one may
    refuse it. -> Ask them: 'featuregate plan --controllers'. [last_seen=22.12:00]

block feature-levels, transaction.version=9: The controller refuses it: Invalid update version 9 for feature
    transaction.version. Broker 1 only supports versions 0-2 -> Do first what it asks for.
    [last_seen=22.12:00]
"""
    )
    assert (
        told(finalize(none, NOW_AT_4_2, Finalize("kraft.version", 1), NOW))
        == """
unknown feature-levels, kraft.version=1: only the leader of the quorum knows whether every voter supports it.
    -> Ask the controller: 'featuregate plan'. [last_seen=22.12:00]
"""
    )
    assert (
        told(finalize(Evidence(), replace(NOW_AT_4_2, epoch=-1), Finalize("group.version", 0), NOW))
        == """
unknown feature-levels, group.version=0: no node reports finalized levels. -> Ask the controller: 'featuregate
    plan'. [last_seen=22.12:00]
unknown coordinator-records, the cluster: The records of its coordinators were not read. -> Run 'featuregate
    fleet run' with --bootstrap-server, as a user with READ on coordinators' topics. []
"""
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
    assert (
        told(finalize(evidence, NOW_AT_4_2, Finalize("group.version", 0), NOW - 2 * HOUR))
        == """
ok feature-levels, group.version=0: The controller accepts it, from 1. -> (nothing) [last_seen=22.12:00]
block protocols, group 'payments': It has members of the consumer protocol, which brokers do not serve with
    group.version=0. -> Stop the members of group 'payments', or move them to another protocol, before.
    [client_id=a, b, count=3, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    assert (
        told(finalize(evidence, NOW_AT_4_2, Finalize("group.version", 0), NOW))
        == """
ok feature-levels, group.version=0: The controller accepts it, from 1. -> (nothing) [last_seen=22.12:00]
stale coordinator-records, the cluster: The records of coordinators were read too long ago. -> Read the
    records again: 'featuregate fleet run' with --bootstrap-server. [count=14, first_seen=15.12:00,
    last_seen=22.11:00]
block protocols, group 'payments': It has members of the consumer protocol, which brokers do not serve with
    group.version=0. -> Stop the members of group 'payments', or move them to another protocol, before.
    [client_id=a, b, count=3, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    shared = view("4.2", share_version=1)
    assert (
        told(finalize(evidence, shared, Finalize("share.version", 0), NOW - HOUR))
        == """
unknown feature-levels, share.version=0: the answer depends on the release of the controllers, which were not
    asked: name them, too (--controllers). -> Ask the controller: 'featuregate plan'. [last_seen=22.12:00]
block protocols, group 's': It has members of the share protocol, which brokers do not serve with
    share.version=0. -> Stop the members of group 's', or move them to another protocol, before. [count=2,
    first_seen=15.12:00, last_seen=22.11:00]
"""
    )


def test_a_level_that_brokers_stop_to_support_is_told() -> None:
    """The cluster has to be above it."""
    moves = Deprecate("metadata.version", 25), Deprecate("metadata.version", 24), Deprecate("group.version", 2)
    assert (
        "".join(told(deprecate(NOW_AT_4_2, move)) for move in moves)
        == """
block feature-levels, metadata.version=4.0-IV3: The cluster runs at 4.0-IV3. -> Finalize a higher level first:
    ask --finalize. [last_seen=22.12:00]

ok feature-levels, metadata.version=4.0-IV2: The cluster runs at 4.0-IV3. -> (nothing) [last_seen=22.12:00]

block feature-levels, group.version=2: The cluster runs at 1. -> Finalize a higher level first: ask
    --finalize. [last_seen=22.12:00]
"""
    )
    assert (
        told(deprecate(replace(NOW_AT_4_2, epoch=-1), Deprecate("group.version", 0)))
        == """
unknown feature-levels, group.version=0: No broker reports finalized levels. -> (nothing) [last_seen=22.12:00]
"""
    )
