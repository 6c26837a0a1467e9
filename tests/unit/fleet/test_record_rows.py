"""Records of coordinators: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, OFFSETS, STATES, WEEK, use
from told_rows import said, told

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import DropApi, ReleaseApis
from featuregate_fleet.readiness.checks.record_checks import coordinator_records, models
from featuregate_fleet.readiness.evidence import Evidence, RecordUse

HOUR = timedelta(hours=1)
MEMBER = use("ConsumerGroupMemberMetadata", 5, client_ids=("b", "a"))


def records(version: str, *those: RecordUse, **more: object) -> str:
    evidence = replace(Evidence(records=those, records_read=NOW - HOUR), **more)  # type: ignore[arg-type]
    return told(coordinator_records(evidence, version, NOW - 2 * HOUR))


def test_records_that_a_release_reads_are_one_row() -> None:
    """With their number, and the time of the oldest one."""
    old = replace(MEMBER, first_seen=NOW - 2 * WEEK, count=4)
    assert records("4.2.0", MEMBER, old) == said("record 1")
    assert records("4.2.0") == said("record 2")
    assert list(coordinator_records(Evidence(records=(MEMBER,)), "3.9.2", NOW)) == []


def test_records_that_are_old_or_not_known_are_told() -> None:
    """They prove nothing."""
    assert records("0.8", MEMBER) == said("record 3")
    unreadable = replace(MEMBER, reason="unreadable", record_type=None)
    assert records("4.2.0", unreadable, unreadable, MEMBER) == said("record 4")
    stale = Evidence(records=(MEMBER,), records_read=NOW - HOUR)
    assert told(coordinator_records(stale, "3.9.2", NOW)) == said("record 5")
    changed = replace(stale, levels_unchanged=False)
    assert told(coordinator_records(changed, "3.9.2", NOW)) == said("record 6")


def test_records_that_an_older_release_cannot_read_are_told_by_group() -> None:
    """Those of members block, and those of a group without members warn; what is overwritten may be there still."""
    of_groups = (
        MEMBER,
        use("ConsumerGroupMetadata", 3, count=1, client_ids=("c",), first_seen=NOW - 2 * WEEK),
        use("ConsumerGroupMetadata", 3, group="empty"),
        use("ConsumerGroupMetadata", 3, group="past", current=False),
        use("ShareGroupMemberMetadata", 10, group="shared", protocol="share"),
    )
    assert records("3.9.2", *of_groups) == said("record 7")
    assert records("3.4.0", *of_groups) == said("record 8")


def test_records_of_transactions_and_of_no_known_kind_are_told() -> None:
    """A tagged field may be ignored."""
    odd = replace(use("x", 99), kind=None, group=None)
    transaction = use("TransactionLog", 0, 1, topic=STATES, group=None, transactional_id="t", tagged_fields=("f",))
    plain = replace(transaction, transactional_id="u", version=0, tagged_fields=())
    for_release = [records(version, odd, transaction, plain) for version in ("4.2.0", "3.9.2", "3.4.0")]
    assert "".join(for_release) == said("record 9")
    assert records("3.9.2", replace(odd, topic="__other"), replace(odd, record_type=None), plain) == said("record 10")
    offsets = use("OffsetCommit", 1, 4, tagged_fields=("topicId",), topic=OFFSETS)
    assert records("3.9.2", offsets) == said("record 11")


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
    assert told(models(evidence, ReleaseApis(captured()["2.4"]))) == said("record 12")
    assert told(models(evidence, ReleaseApis(captured()["0.10.2"]))) == said("record 13")
    assert list(models(evidence, ReleaseApis(captured()["2.5"]))) == []
    assert list(models(evidence, DropApi(28, 5))) == []
    assert list(models(replace(evidence, records_read=None), ReleaseApis(captured()["2.4"]))) == []
