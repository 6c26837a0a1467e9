"""Records of coordinators: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, OFFSETS, STATES, WEEK, use
from told_rows import told

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import ReleaseApis, WithoutOldVersions
from featuregate_fleet.readiness.checks.record_checks import coordinator_records, models
from featuregate_fleet.readiness.evidence import Evidence, RecordUse

HOUR = timedelta(hours=1)
MEMBER = use("ConsumerGroupMemberMetadata", 5, client_ids=("b", "a"))


def records(version: str, *those: RecordUse, **more: object) -> str:
    """Return what is told of records that were read an hour ago."""
    evidence = replace(Evidence(records=those, records_read=NOW - HOUR), **more)  # type: ignore[arg-type]
    return told(coordinator_records(evidence, version, NOW - 2 * HOUR))


def test_records_that_a_release_reads_are_one_row() -> None:
    """With their number, and the time of the oldest one."""
    old = replace(MEMBER, first_seen=NOW - 2 * WEEK, count=4)
    assert (
        records("4.2.0", MEMBER, old)
        == """
ok coordinator-records, the cluster: Coordinators of Kafka 4.2.0 read all records of groups and transactional
    ids. -> (nothing) [count=7, first_seen=08.12:00, last_seen=22.11:00]
"""
    )
    assert (
        records("4.2.0")
        == """
ok coordinator-records, the cluster: Coordinators of Kafka 4.2.0 read all records of groups and transactional
    ids. -> (nothing) [last_seen=22.11:00]
"""
    )
    assert list(coordinator_records(Evidence(records=(MEMBER,)), "3.9.2", NOW)) == []


def test_records_that_are_old_or_not_known_are_told() -> None:
    """They prove nothing."""
    assert (
        records("0.8", MEMBER)
        == """
unknown coordinator-records, the cluster: Kafka 0.8 has no known coordinator of the classic protocol alone. ->
    Read the records again: 'featuregate fleet run' with --bootstrap-server. [count=3, first_seen=15.12:00,
    last_seen=22.11:00]
"""
    )
    unreadable = replace(MEMBER, reason="unreadable", record_type=None)
    assert (
        records("4.2.0", unreadable, unreadable, MEMBER)
        == """
unknown coordinator-records, the cluster: 6 records of coordinators cannot be decoded. -> Read the records
    again: 'featuregate fleet run' with --bootstrap-server. [count=9, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    stale = Evidence(records=(MEMBER,), records_read=NOW - HOUR)
    assert (
        told(coordinator_records(stale, "3.9.2", NOW))
        == """
stale coordinator-records, the cluster: The records of coordinators were read too long ago. -> Read the
    records again: 'featuregate fleet run' with --bootstrap-server. [count=3, first_seen=15.12:00,
    last_seen=22.11:00]
"""
    )
    changed = replace(stale, levels_unchanged=False)
    assert (
        told(coordinator_records(changed, "3.9.2", NOW))
        == """
stale coordinator-records, the cluster: The records of coordinators were read before the levels of the cluster
    changed. -> Read the records again: 'featuregate fleet run' with --bootstrap-server. [count=3,
    first_seen=15.12:00, last_seen=22.11:00]
"""
    )


def test_records_that_an_older_release_cannot_read_are_told_by_group() -> None:
    """Those of members block, and those of a group without members warn; what is overwritten may be there still."""
    of_groups = (
        MEMBER,
        use("ConsumerGroupMetadata", 3, count=1, client_ids=("c",), first_seen=NOW - 2 * WEEK),
        use("ConsumerGroupMetadata", 3, group="empty"),
        use("ConsumerGroupMetadata", 3, group="past", current=False),
        use("ShareGroupMemberMetadata", 10, group="shared", protocol="share"),
    )
    assert (
        records("3.9.2", *of_groups)
        == """
warn coordinator-records, group 'empty': A coordinator of Kafka 3.9.2 goes on without these records: record
    type 3 is unknown. Records: ConsumerGroupMetadata. -> Move group 'empty' to what Kafka 3.9.2 has, or stop
    its members, before the brokers move. [versions=0, count=3, first_seen=15.12:00, last_seen=22.11:00]
block coordinator-records, group 'payments': A coordinator of Kafka 3.9.2 goes on without these records:
    record type 5 is unknown. Records: ConsumerGroupMemberMetadata, ConsumerGroupMetadata. -> Move group
    'payments' to what Kafka 3.9.2 has, or stop its members, before the brokers move. [client_id=a, b, c,
    versions=0, count=4, first_seen=08.12:00, last_seen=22.11:00]
block coordinator-records, group 'shared': A coordinator of Kafka 3.9.2 goes on without these records: record
    type 10 is unknown. Records: ShareGroupMemberMetadata. -> Move group 'shared' to what Kafka 3.9.2 has, or
    stop its members, before the brokers move. [versions=0, count=3, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    assert (
        records("3.4.0", *of_groups)
        == """
block coordinator-records, group 'empty': A coordinator of Kafka 3.4.0 stops loading the whole partition, and
    every group or id in it starts over: record type 3 is unknown. Records: ConsumerGroupMetadata. -> Stop
    group 'empty', delete it, and wait until compaction has removed its records. [versions=0, count=3,
    first_seen=15.12:00, last_seen=22.11:00]
unknown coordinator-records, group 'past': A coordinator of Kafka 3.4.0 stops loading the whole partition, and
    every group or id in it starts over: record type 3 is unknown. The records are overwritten, and may still
    be in the log. Records: ConsumerGroupMetadata. -> Stop group 'past', delete it, and wait until compaction
    has removed its records. [versions=0, count=3, first_seen=15.12:00, last_seen=22.11:00]
block coordinator-records, group 'payments': A coordinator of Kafka 3.4.0 stops loading the whole partition,
    and every group or id in it starts over: record type 5 is unknown. Records: ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata. -> Stop group 'payments', delete it, and wait until compaction has removed its
    records. [client_id=a, b, c, versions=0, count=4, first_seen=08.12:00, last_seen=22.11:00]
block coordinator-records, group 'shared': A coordinator of Kafka 3.4.0 stops loading the whole partition, and
    every group or id in it starts over: record type 10 is unknown. Records: ShareGroupMemberMetadata. -> Stop
    group 'shared', delete it, and wait until compaction has removed its records. [versions=0, count=3,
    first_seen=15.12:00, last_seen=22.11:00]
"""
    )


def test_records_of_transactions_and_of_no_known_kind_are_told() -> None:
    """A tagged field may be ignored."""
    odd = replace(use("x", 99), kind=None, group=None)
    transaction = use("TransactionLog", 0, 1, topic=STATES, group=None, transactional_id="t", tagged_fields=("f",))
    plain = replace(transaction, transactional_id="u", version=0, tagged_fields=())
    for_release = [records(version, odd, transaction, plain) for version in ("4.2.0", "3.9.2", "3.4.0")]
    assert (
        "".join(for_release)
        == """
warn coordinator-records, transactional id 't': A coordinator of Kafka 4.2.0 goes on without some fields:
    tagged fields are unknown: f. Records: TransactionLog. -> (nothing) [versions=1, count=3,
    first_seen=15.12:00, last_seen=22.11:00]
unknown coordinator-records, unknown records in __consumer_offsets: A coordinator of Kafka 4.2.0 goes on
    without these records: record type 99 is unknown. It is not known whether a group needs them. Records:
    type 99. -> Upgrade featuregate where you run 'featuregate fleet', and read the records again.
    [versions=0, count=3, first_seen=15.12:00, last_seen=22.11:00]

warn coordinator-records, transactional id 't': A coordinator of Kafka 3.9.2 goes on without some fields:
    tagged fields are unknown: f. Records: TransactionLog. -> (nothing) [versions=1, count=3,
    first_seen=15.12:00, last_seen=22.11:00]
unknown coordinator-records, unknown records in __consumer_offsets: A coordinator of Kafka 3.9.2 goes on
    without these records: record type 99 is unknown. It is not known whether a group needs them. Records:
    type 99. -> Upgrade featuregate where you run 'featuregate fleet', and read the records again.
    [versions=0, count=3, first_seen=15.12:00, last_seen=22.11:00]

block coordinator-records, transactional id 't': A coordinator of Kafka 3.4.0 stops loading the whole
    partition, and every group or id in it starts over: value version 1 is not one of 0 to 0. Records:
    TransactionLog. -> Stop transactional id 't', delete it, and wait until compaction has removed its
    records. [versions=1, count=3, first_seen=15.12:00, last_seen=22.11:00]
block coordinator-records, unknown records in __consumer_offsets: A coordinator of Kafka 3.4.0 stops loading
    the whole partition, and every group or id in it starts over: record type 99 is unknown. Records: type 99.
    -> Stop unknown records in __consumer_offsets, delete it, and wait until compaction has removed its
    records. [versions=0, count=3, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    assert (
        records("3.9.2", replace(odd, topic="__other"), replace(odd, record_type=None), plain)
        == """
ok coordinator-records, the cluster: Coordinators of Kafka 3.9.2 read all records of groups and transactional
    ids. -> (nothing) [count=9, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    offsets = use("OffsetCommit", 1, 4, tagged_fields=("topicId",), topic=OFFSETS)
    assert (
        records("3.9.2", offsets)
        == """
warn coordinator-records, group 'payments': A coordinator of Kafka 3.9.2 goes on without some fields: tagged
    fields are unknown: topicId. Records: OffsetCommit. -> (nothing) [versions=4, count=3,
    first_seen=15.12:00, last_seen=22.11:00]
"""
    )


def test_groups_whose_generation_is_not_checked_any_more_are_told() -> None:
    """By their models."""
    uses = (
        use("OffsetCommit", 1, group="g", model="v2", count=2),
        use("OffsetCommit", 1, group="g", model="bridge", first_seen=NOW - 2 * WEEK),
        use("OffsetCommit", 1, group="h", model="unknown"),
        use("OffsetCommit", 1, group="old", model="v2", current=False),
        use("OffsetCommit", 1, group="plain", model="v1"),
    )
    evidence = Evidence(records=uses, records_read=NOW - HOUR)
    assert (
        told(models(evidence, ReleaseApis(captured()["2.4"])))
        == """
block models, group 'g': It commits in the model bridge, v2, for which brokers check the generation of members
    (TxnOffsetCommit 3), and Kafka 2.4 does not. -> Roll the group back before: 'featuregate group rollback'.
    [api=TxnOffsetCommit, count=5, first_seen=08.12:00, last_seen=22.11:00]
block models, group 'h': It commits in the model unknown, for which brokers check the generation of members
    (TxnOffsetCommit 3), and Kafka 2.4 does not. -> Roll the group back before: 'featuregate group rollback'.
    [api=TxnOffsetCommit, count=3, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    assert (
        told(models(evidence, ReleaseApis(captured()["0.10.2"])))
        == """
block models, group 'g': It commits in the model bridge, v2, for which brokers check the generation of members
    (TxnOffsetCommit 3), and Kafka 0.10.2 does not. -> Roll the group back before: 'featuregate group
    rollback'. [api=TxnOffsetCommit, count=5, first_seen=08.12:00, last_seen=22.11:00]
block models, group 'h': It commits in the model unknown, for which brokers check the generation of members
    (TxnOffsetCommit 3), and Kafka 0.10.2 does not. -> Roll the group back before: 'featuregate group
    rollback'. [api=TxnOffsetCommit, count=3, first_seen=15.12:00, last_seen=22.11:00]
"""
    )
    assert list(models(evidence, ReleaseApis(captured()["2.5"]))) == []
    assert list(models(evidence, WithoutOldVersions(28, 5))) == []
    assert list(models(replace(evidence, records_read=None), ReleaseApis(captured()["2.4"]))) == []
