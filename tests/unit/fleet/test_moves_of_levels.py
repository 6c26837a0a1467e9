"""Moves of levels and releases, judged by finalized levels and the records of coordinators."""

from dataclasses import replace
from datetime import timedelta

import pytest
from fleet_evidence import LOG, NOW, TO_4_2, WEEK, assessed, view

from featuregate.catalog import captured
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.evidence import Evidence, confirmed
from featuregate_fleet.readiness.moves import DowngradeTo, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict


def report(move: Move, of: View | None = None) -> Report:
    return assessed(move=move, view=of, records_read=NOW)


def verdicts(found: Report, check: str) -> dict[str, Verdict]:
    return {row.subject: row.verdict for row in found.rows if row.check == check}


def down(version: str) -> DowngradeTo:
    return DowngradeTo(captured()[".".join(version.split(".")[:2])], version)


# ---------------------------------------------------------------- levels


def test_a_cluster_in_the_middle_of_its_migration_to_kraft_blocks_a_release_without_zookeeper():
    """Its controllers have a metadata.version, and the brokers that were not restarted yet support none."""
    of = view("3.9", metadata_version=21, group_version=0, transaction_version=0)
    begun = replace(of, brokers=(of.brokers[0], replace(of.brokers[1], node_id=2, supported={})))
    assert report(TO_4_2, of=of).verdict is Verdict.OK
    assert verdicts(report(TO_4_2, of=begun), "feature-levels") == {"the cluster": Verdict.BLOCK}


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
    assert set(verdicts(report(TO_4_2, of=of), "feature-levels").values()) == {verdict}


@pytest.mark.parametrize("to", ["3.9", "4.2"])
def test_invariant_11_without_levels_a_move_to_a_release_is_unknown(to: str):
    """Brokers of the release may not start with what is finalized."""
    found = report(ToRelease(captured()[to]))
    assert (found.verdict, verdicts(found, "feature-levels")) == (Verdict.UNKNOWN, {"the cluster": Verdict.UNKNOWN})


def test_a_level_that_changes_a_config_says_so():
    """Real clusters lower min.insync.replicas with it, and do not raise it again."""
    found = report(Finalize("eligible.leader.replicas.version", 1), of=view())
    (row,) = [row for row in found.rows if "min.insync.replicas" in row.why]
    assert (row.verdict, "lowering it again does not restore that" in row.why) == (Verdict.WARN, True)
    assert "featuregate plan" in row.do


HOURS_AGO = NOW - timedelta(hours=2)


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
