"""Moves of levels and releases, judged by finalized levels and the records of coordinators."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fleet_evidence import NOW, STATES, WEEK, use, view

from featuregate.admin.metadata_log import WHAT_TO_DO
from featuregate.catalog import captured
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, LevelAt, RecordUse, confirmed
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict

LOG = BrokerLog(hours=3, requests=9, first_seen=NOW - WEEK / 2, last_seen=NOW)
MEMBER = use("ConsumerGroupMemberMetadata", 5, client_ids=("pay-1",))
OFFSET = use("OffsetCommit", 1, 4)
UNDECODED = replace(use("", 99, reason="unknown-type", group=None), kind=None)
"""A record of a type that featuregate does not know: neither is its key decoded."""


def report(move: Move, *records: RecordUse, of: View | None = None, read: datetime | None = NOW) -> Report:
    """Assess a cluster with a broker whose log is covered."""
    evidence = Evidence(
        brokers={"1": LOG}, expected=frozenset({"1"}), rows=1, read=1, view=of, records=records, records_read=read
    )
    return assess(evidence, move, NOW, WEEK)


def verdicts(found: Report, check: str) -> dict[str, Verdict]:
    """Return the verdicts of one check by subject."""
    return {row.subject: row.verdict for row in found.rows if row.check == check}


def down(version: str) -> DowngradeTo:
    """Name a downgrade."""
    return DowngradeTo(captured()[".".join(version.split(".")[:2])], version)


# ---------------------------------------------------------------- levels


def lowered(*more: LevelAt, of: View, at: datetime = NOW) -> dict[str, Verdict]:
    """Return the verdicts on the metadata log of a cluster whose group.version was 1 until some time."""
    levels = (LevelAt("group.version", 1, NOW - WEEK), LevelAt("group.version", 0, at), *more)
    evidence = Evidence(brokers={"1": LOG}, expected=frozenset({"1"}), view=of, records_read=NOW, levels=levels)
    return verdicts(assess(evidence, down("3.9.2"), NOW, WEEK), "metadata-log")


def test_a_level_that_was_lowered_may_be_in_the_metadata_log():
    """Real controllers of 3.9.2 do not start with it, until a snapshot of the log is newer."""
    of = view(group_version=0)
    assert lowered(of=of) == {"group.version=1": Verdict.UNKNOWN}
    assert lowered(of=of, at=NOW - WEEK / 2) == {"group.version=1": Verdict.WARN}
    assert lowered(of=view()) == {}, "the level itself blocks"


def test_metadata_version_that_was_lowered_is_in_the_log_as_well():
    """No change of a level writes a snapshot (seen: 3.9.2 to 4.3.0)."""
    versions = (LevelAt("metadata.version", 25, NOW - WEEK), LevelAt("metadata.version", 21, NOW))
    assert lowered(*versions, of=view(group_version=0, metadata_version=21), at=NOW - WEEK / 2) == {
        "group.version=1": Verdict.WARN,
        "metadata.version=4.0-IV3": Verdict.UNKNOWN,
    }


def test_brokers_of_a_release_that_supports_all_levels_start():
    """So the move is safe, as far as levels and records go."""
    assert report(down("4.1.1"), OFFSET, of=view()).verdict is Verdict.OK


def test_a_level_that_the_release_does_not_support_blocks():
    """The row says what the controller would answer to lowering it."""
    found = report(down("3.9.2"), of=view())
    levels = verdicts(found, "feature-levels")
    assert levels["group.version=1"] is Verdict.BLOCK
    advice = {row.subject: row.do for row in found.rows}
    assert advice["group.version=1"] == (
        f"Before, run 'featuregate downgrade --feature group.version=0', which loses nothing. Then {WHAT_TO_DO}."
    )
    assert advice["metadata.version=4.0-IV3"].startswith("There is no way: the controller refuses")
    assert "might delete metadata" in advice["metadata.version=4.0-IV3"]


def test_a_level_below_what_a_newer_release_supports_blocks_the_upgrade():
    """Kafka 4 starts with 3.3-IV3 at the earliest."""
    old = view("3.9", metadata_version=4, group_version=0, transaction_version=0)
    found = report(ToRelease(captured()["4.2"]), of=old)
    (row,) = [row for row in found.rows if row.verdict is Verdict.BLOCK]
    assert row.subject == "metadata.version=3.3-IV0"
    assert "featuregate upgrade --feature metadata.version=7" in row.do


ZOOKEEPER = {name: replace(view(name), finalized={}, epoch=epoch) for name, epoch in (("2.6", -1), ("3.2", 0))}
"""Clusters of releases that had no other mode, and so supported no metadata.version."""


@pytest.mark.parametrize("of", ZOOKEEPER.values())
def test_a_cluster_with_zookeeper_blocks_a_release_without_it(of: View):
    """It has no level to compare, and brokers of 4.2 do not start. 3.9 runs with ZooKeeper, too."""
    (row,) = [row for row in report(ToRelease(captured()["4.2"]), of=of).rows if row.verdict is Verdict.BLOCK]
    assert (row.check, row.subject) == ("feature-levels", "the cluster")
    assert "migrate the cluster to KRaft" in row.do
    assert "metadata.version 3.3-IV3 or higher" in row.do
    assert report(ToRelease(captured()["3.9"]), of=of).verdict is Verdict.OK


def test_a_cluster_in_the_middle_of_its_migration_to_kraft_blocks_a_release_without_zookeeper():
    """Its controllers have a metadata.version, and the brokers that were not restarted yet support none."""
    of = view("3.9", metadata_version=21, group_version=0, transaction_version=0)
    begun = replace(of, brokers=(of.brokers[0], replace(of.brokers[1], node_id=2, supported={})))
    assert report(ToRelease(captured()["4.2"]), of=of).verdict is Verdict.OK
    assert verdicts(report(ToRelease(captured()["4.2"]), of=begun), "feature-levels") == {"the cluster": Verdict.BLOCK}


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        (replace(view("3.9"), finalized={}), Verdict.BLOCK),
        (replace(view("3.9"), finalized={}, epoch=-1), Verdict.UNKNOWN),
        (View(cluster_id="c", seen_at=NOW.timestamp()), Verdict.UNKNOWN),
    ],
)
def test_a_release_that_needs_a_level_does_not_pass_without_one(of: View, verdict: Verdict):
    """Kafka 4 needs metadata.version 3.3-IV3, whether the cluster finalized nothing or does not say what."""
    assert set(verdicts(report(ToRelease(captured()["4.2"]), of=of), "feature-levels").values()) == {verdict}


@pytest.mark.parametrize("to", ["3.9", "4.2"])
def test_invariant_11_without_levels_a_move_to_a_release_is_unknown(to: str):
    """Brokers of the release may not start with what is finalized."""
    found = report(ToRelease(captured()[to]))
    assert (found.verdict, verdicts(found, "feature-levels")) == (Verdict.UNKNOWN, {"the cluster": Verdict.UNKNOWN})


@pytest.mark.parametrize(
    ("move", "verdict"),
    [
        (Finalize("transaction.version", 2), Verdict.WARN),  # controllers were not asked
        (Finalize("transaction.version", 1), Verdict.OK),
        (Finalize("transaction.version", 9), Verdict.BLOCK),
        (Finalize("eligible.leader.replicas.version", 1), Verdict.WARN),
        (Deprecate("group.version", 0), Verdict.OK),
        (Deprecate("group.version", 1), Verdict.BLOCK),
        (Deprecate("share.version", 0), Verdict.BLOCK),
    ],
)
def test_a_level_is_judged_by_the_rules_of_the_controller(move: Move, verdict: Verdict):
    """Request logs are not asked for: brokers serve the same at all levels."""
    assert report(move, of=view()).verdict is verdict


def test_a_level_that_needs_another_one_names_it():
    """`--finalize` says what is not finalized yet (KIP-1022)."""
    found = report(Finalize("eligible.leader.replicas.version", 1), of=view("4.0", metadata_version=20))
    (row,) = [row for row in found.rows if row.verdict is Verdict.BLOCK]
    assert "depends on metadata.version level" in row.why


def test_a_level_that_changes_a_config_says_so():
    """Real clusters lower min.insync.replicas with it, and do not raise it again."""
    found = report(Finalize("eligible.leader.replicas.version", 1), of=view())
    (row,) = [row for row in found.rows if "min.insync.replicas" in row.why]
    assert (row.verdict, "lowering it again does not restore that" in row.why) == (Verdict.WARN, True)
    assert "featuregate plan" in row.do


def test_a_broker_that_does_not_answer_is_unknown():
    """The levels that the silent broker supports are unknown."""
    found = report(Finalize("transaction.version", 2), of=view(missing=True))
    assert found.verdict is Verdict.UNKNOWN
    assert verdicts(found, "brokers") == {"broker 2 (b2:9092)": Verdict.UNKNOWN}


@pytest.mark.parametrize("move", [Finalize("transaction.version", 2), Deprecate("group.version", 0), down("4.1")])
def test_levels_that_were_read_long_ago_are_stale(move: Move):
    """The cluster may have other levels now."""
    assert report(move, of=view(seen=NOW - 2 * WEEK)).verdict is Verdict.STALE


HOURS_AGO = NOW - timedelta(hours=2)


@pytest.mark.parametrize("move", [Finalize("transaction.version", 2), Deprecate("group.version", 0), down("4.1")])
def test_levels_of_hours_ago_are_stale_where_a_raised_one_would_matter(move: Move):
    """An operator may have raised one since then."""
    assert report(move, of=view(seen=HOURS_AGO)).verdict is Verdict.STALE
    assert report(move, of=view(seen=NOW)).verdict is not Verdict.STALE


@pytest.mark.parametrize(("to", "verdict"), [("4.2", Verdict.OK), ("3.9", Verdict.STALE)])
def test_a_release_that_supports_all_that_brokers_do_takes_levels_of_last_week(to: str, verdict: Verdict):
    """No level that these brokers can have been raised to stops it; an older release stops at one."""
    of = view("4.0", metadata_version=21, group_version=0, transaction_version=0, seen=HOURS_AGO)
    assert verdicts(report(ToRelease(captured()[to]), of=of), "brokers").get("the cluster", Verdict.OK) is verdict


def test_records_of_hours_ago_count_while_levels_are_as_they_were():
    """Clients write other kinds of records once a level is raised."""
    old = Evidence(brokers={"1": LOG}, expected=frozenset({"1"}), rows=1, read=1, records_read=HOURS_AGO)
    seen = replace(old, view=view(seen=HOURS_AGO))
    for now, verdict in ((view(seen=NOW), Verdict.OK), (view(metadata_version=26, seen=NOW), Verdict.STALE)):
        found = assess(confirmed(seen, now), down("4.2"), NOW, WEEK)
        assert verdicts(found, "coordinator-records") == {"the cluster": verdict}
    assert verdicts(assess(seen, down("4.2"), NOW, WEEK), "coordinator-records") == {"the cluster": Verdict.STALE}


@pytest.mark.parametrize("move", [down("4.2"), Finalize("group.version", 0)])
def test_records_of_a_minute_ago_say_nothing_of_levels_that_were_raised_since(move: Move):
    """A group of the new protocol may have begun since then: a plan said ok, and its consumers died."""
    read = NOW - timedelta(minutes=1)
    old = Evidence(brokers={"1": LOG}, expected=frozenset({"1"}), rows=1, read=1, records_read=read)
    seen = replace(old, view=view(group_version=0, seen=read))
    for level, stale in ((1, 1), (0, 0)):
        found = assess(confirmed(seen, view(group_version=level, seen=NOW)), move, NOW, WEEK)
        rows = [row for row in found.rows if row.verdict is Verdict.STALE and row.check == "coordinator-records"]
        assert len(rows) == stale
        assert all("were read before the levels of the cluster changed" in row.why for row in rows)


def test_levels_that_no_broker_reports_have_not_changed():
    """Brokers before 2.7 have none: records count for an hour, as without a look at the brokers."""
    older, read = replace(view(seen=NOW), epoch=-1, finalized={}), NOW - timedelta(minutes=1)
    seen = Evidence(brokers={"1": LOG}, expected=frozenset({"1"}), rows=1, read=1, records_read=read, view=older)
    for before in (seen, replace(seen, view=None)):
        rows = assess(confirmed(before, older), down("2.8"), NOW, WEEK).rows
        assert [row.verdict for row in rows if row.check == "coordinator-records"] == [Verdict.OK]


def test_levels_that_are_confirmed_go_on_from_those_of_the_tables():
    """A level that was lowered since the last run may be in the metadata log."""
    levels = (LevelAt("group.version", 1, NOW - WEEK), LevelAt("metadata.version", 21, NOW - WEEK))
    seen = Evidence(brokers={"1": LOG}, expected=frozenset({"1"}), view=view(seen=HOURS_AGO), levels=levels)
    now = confirmed(seen, view("3.9", metadata_version=21, group_version=0, transaction_version=0))
    found = verdicts(assess(now, down("3.9.2"), NOW, WEEK), "metadata-log")
    assert found["group.version=1"] is Verdict.UNKNOWN


# ---------------------------------------------------------------- records


def test_members_of_a_protocol_that_the_level_takes_away_block():
    """By the name of their group; other groups are left out."""
    move = Finalize("group.version", 0)
    found = report(move, MEMBER, use("ConsumerGroupMetadata", 3, group="empty"), of=view())
    assert verdicts(found, "protocols") == {"group 'payments'": Verdict.BLOCK}
    assert report(move, OFFSET, use("GroupMetadata", 2, 3), of=view()).verdict is Verdict.OK
    gone = use("ConsumerGroupMemberMetadata", 5, None)
    assert report(move, gone, of=view()).verdict is Verdict.OK
    assert report(move, of=view(), read=None).verdict is Verdict.UNKNOWN


def test_a_level_that_takes_a_protocol_away_needs_new_and_readable_records():
    """A group of the protocol may have begun since they were read, or be in those that cannot be decoded."""
    move = Finalize("group.version", 0)
    assert report(move, of=view(), read=NOW - 2 * WEEK).verdict is Verdict.STALE
    assert report(move, MEMBER, of=view(), read=NOW - 2 * WEEK).verdict is Verdict.STALE
    unreadable = replace(MEMBER, group=None, protocol=None, reason="unreadable")
    assert report(move, unreadable, of=view()).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("version", "record", "verdict"),
    [
        ("3.9.2", OFFSET, Verdict.OK),  # as KIP-915 wants it
        ("3.9.2", MEMBER, Verdict.BLOCK),  # is skipped: the member is gone
        ("3.9.2", use("ConsumerGroupMetadata", 3), Verdict.WARN),  # an empty group
        ("3.9.2", use("ConsumerGroupMemberMetadata", 5, None), Verdict.OK),
        ("3.4.0", OFFSET, Verdict.BLOCK),  # stops the partition
        ("3.4.1", OFFSET, Verdict.OK),
        ("3.4.0", use("ConsumerGroupMemberMetadata", 5, None), Verdict.BLOCK),  # a tombstone of an unknown type
        ("3.4.0", use("OffsetCommit", 1, 4, current=False), Verdict.UNKNOWN),  # may be in the log still
        ("4.0.0", use("OffsetCommit", 1, 4, tagged_fields=("topic_id",)), Verdict.WARN),
        ("4.1.0", use("OffsetCommit", 1, 4, tagged_fields=("topic_id",)), Verdict.OK),
        ("4.1.0", UNDECODED, Verdict.UNKNOWN),  # may be of a group that has members
        ("4.1.0", replace(UNDECODED, version=None), Verdict.OK),  # its tombstone
        ("4.1.0", use("OffsetCommit", 1, 4, reason="unreadable"), Verdict.UNKNOWN),
        ("3.4.0", use("TransactionLog", 0, 1, topic=STATES, group=None, transactional_id="app"), Verdict.BLOCK),
    ],
)
def test_records_are_held_against_what_the_release_reads(version: str, record: RecordUse, verdict: Verdict):
    """Of the patch that is named: 3.4.1 reads more than 3.4.0."""
    found = report(down(version), record)
    assert set(verdicts(found, "coordinator-records").values()) == {verdict}


def test_the_row_names_the_group_its_clients_and_the_number_of_records():
    """And when they were seen, so that it does not age with the records themselves."""
    found = report(down("3.9.2"), MEMBER)
    (row,) = [row for row in found.rows if row.check == "coordinator-records"]
    assert (row.subject, row.client_id, row.count, row.last_seen) == ("group 'payments'", "pay-1", 3, NOW)
    assert "record type 5 is unknown" in row.why


@pytest.mark.parametrize(("read", "verdict"), [(None, Verdict.UNKNOWN), (NOW - 2 * WEEK, Verdict.STALE)])
def test_records_that_were_not_read_lately_say_nothing(read: datetime | None, verdict: Verdict):
    """A group without evidence is not ok."""
    found = report(down("4.1.1"), of=view(), read=read)
    assert set(verdicts(found, "coordinator-records").values()) == {verdict}


def test_a_cluster_without_groups_is_ok():
    """Its topics were read, and are empty or not there."""
    assert set(verdicts(report(down("4.1.1")), "coordinator-records").values()) == {Verdict.OK}


@pytest.mark.parametrize(
    ("model", "version", "verdicts_"),
    [
        ("v2", "2.4.1", {Verdict.BLOCK}),
        ("unknown", "2.4.1", {Verdict.BLOCK}),
        ("legacy", "2.4.1", set()),
        ("v2", "2.8.2", set()),
    ],
)
def test_a_model_that_needs_generations_blocks_where_brokers_do_not_check_them(
    model: str, version: str, verdicts_: set[Verdict]
):
    """Brokers before 2.5 accept a zombie's offsets, and say nothing (KIP-447)."""
    found = report(down(version), use("OffsetCommit", 1, 3, model=model))
    assert set(verdicts(found, "models").values()) == verdicts_
