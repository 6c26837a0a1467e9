"""Request logs and metrics in one report: a block by either blocks, and nothing is counted twice."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fleet_evidence import NOW, WEEK, usage

from featuregate.catalog import captured
from featuregate_fleet.evidence.reasons import CUT
from featuregate_fleet.metrics.evidence import BrokerCoverage, MetricsEvidence, RequestCount, SoftwareSeen
from featuregate_fleet.metrics.joined import joined
from featuregate_fleet.metrics.listeners import BrokerListener
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence
from featuregate_fleet.readiness.hours import whole_hours
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Row, Verdict

HOUR = timedelta(hours=1)
HOURS = 6
SINCE = NOW - HOURS * HOUR
SCRAM = {"CLIENT": BrokerListener(mechanisms=frozenset({"SCRAM-SHA-256"}))}
NEW = SoftwareSeen("1", "CLIENT", "confluent-kafka-python", "2.16.1-rdkafka-2.16.0", SINCE, 3)
USED = (RequestCount("1", "Metadata", 12, 9, SINCE, NOW), RequestCount("1", "Fetch", 16, 9, SINCE, NOW))
FETCH_3 = RequestCount("1", "Fetch", 3, 7, SINCE + 2 * HOUR, SINCE + 3 * HOUR)
OLD = usage(1, 3, client_id="ancient", first_seen=FETCH_3.after, last_seen=FETCH_3.until)


def by_metrics(*counts: RequestCount, holes: int = 0, **changed: Any) -> MetricsEvidence:
    """Return what metrics of broker 1 say, of which the first hours may be missing."""
    broker = BrokerCoverage(
        broker="1",
        started=SINCE - WEEK,
        hours=HOURS - holes,
        of_hours=HOURS,
        holes=tuple(SINCE + HOUR * n for n in range(holes)),
    )
    return MetricsEvidence(
        since=SINCE, until=NOW, brokers=(replace(broker, **changed),), requests=(*USED, *counts), software=(NEW,)
    )


def by_log(*used: Any, around: int = 1, **changed: Any) -> Evidence:
    """Return what the log of broker 1 says: each hour of the time, and those around it."""
    hours = {SINCE + HOUR * n: 5 for n in range(-around, HOURS + around)}
    log = BrokerLog(hours=len(hours), requests=50, first_seen=SINCE, last_seen=NOW)
    made: dict[str, Any] = {"usage": (usage(1, 16), *used), "brokers": {"1": log}, "hourly": {"1": hours}}
    return Evidence(expected=frozenset({"1"}), read=50, rows=50, **(made | changed))


NOTHING = Evidence(expected=frozenset({"1"}))


def report(logs: Evidence, metrics: MetricsEvidence, brokers: tuple[str, ...] = ("1",)) -> Report:
    release = captured()["4.2"]
    asked = assess(logs, ToRelease(release), NOW, WEEK)
    found, _ = joined(asked, metrics, ReleaseApis(release), SCRAM, dict.fromkeys(brokers, "host"))
    return found


def of_check(found: Report, check: str, *verdicts: Verdict) -> list[Row]:
    return [row for row in found.rows if row.check == check and row.verdict in (verdicts or tuple(Verdict))]


def blocks(found: Report) -> list[tuple[str, int]]:
    return [(row.client_id or row.subject, row.count) for row in of_check(found, "api-versions", Verdict.BLOCK)]


def test_a_block_by_either_blocks() -> None:
    assert blocks(report(NOTHING, by_metrics(FETCH_3))) == [("clients without a name", 7)]
    assert blocks(report(by_log(OLD), by_metrics(holes=6))) == [("ancient", 5)]
    assert report(by_log(OLD), by_metrics()).verdict is Verdict.BLOCK


def test_where_both_cover_an_hour_the_log_counts_and_names() -> None:
    """Seven by metrics and five by the log are five of ancient, and no twelve."""
    assert blocks(report(by_log(OLD), by_metrics(FETCH_3))) == [("ancient", 5)]


@pytest.mark.parametrize(
    "logs",
    [
        by_log(OLD, quarantined={("1", CUT): 1}),
        by_log(OLD, quarantined={(None, CUT): 1}),
        by_log(OLD, hourly={"1": {FETCH_3.after: 5}}),
        by_log(OLD, hourly={}, deprecated={"1": {FETCH_3.after: 5}}),
    ],
    ids=["quarantine", "quarantine of an unknown broker", "one hour", "at INFO"],
)
def test_only_a_log_at_debug_without_quarantine_covers_an_hour(logs: Evidence) -> None:
    assert sorted(blocks(report(logs, by_metrics(FETCH_3)))) == [("ancient", 5), ("clients without a name", 7)]


def test_invariant_11_what_a_log_has_lost_is_said_by_metrics() -> None:
    """A log that seems to be whole lacks the request: it was counted, so that it was there."""
    assert blocks(report(by_log(), by_metrics(FETCH_3))) == [("clients without a name", 7)]
    later = replace(OLD, first_seen=NOW + HOUR, last_seen=NOW + HOUR)
    assert ("clients without a name", 7) in blocks(report(by_log(later), by_metrics(FETCH_3)))


def test_hours_are_covered_by_what() -> None:
    (row,) = of_check(report(by_log(), by_metrics(holes=2)), "coverage", Verdict.OK)[-1:]
    assert row.why.startswith("The evidence has requests in 8 hours")
    short = by_log(hourly={"1": {SINCE + HOUR * n: 5 for n in range(-1, 3)}})
    whys = [row.why for row in of_check(report(short, by_metrics(holes=2)), "coverage")]
    assert "Its counters are known for 6 of 6 hours, 2 of them by its request log." in whys
    whys = [row.why for row in of_check(report(short, by_metrics(holes=4)), "coverage", Verdict.UNKNOWN)]
    assert whys == [("Its counters are known for 4 of 6 hours, 2 of them by its request log, not from "
                    f"{SINCE + 2 * HOUR:%Y-%m-%d %H:%M} UTC on.")]  # fmt: skip


def test_metrics_settle_that_there_is_no_log() -> None:
    """All hours are known by them, so that no log is missed; with a hole it is."""
    assert of_check(report(NOTHING, by_metrics()), "coverage", Verdict.UNKNOWN) == []
    assert len(of_check(report(NOTHING, by_metrics(holes=1)), "coverage", Verdict.UNKNOWN)) == 2
    assert len(of_check(report(NOTHING, by_metrics(problem="no")), "coverage", Verdict.UNKNOWN)) == 2
    assert of_check(report(Evidence(), by_metrics()), "coverage", Verdict.UNKNOWN) == []


def test_a_log_settles_that_metrics_have_a_problem() -> None:
    assert of_check(report(by_log(), by_metrics(problem="no", started=None)), "coverage", Verdict.UNKNOWN) == []


def test_a_broker_without_metrics_needs_a_log() -> None:
    metrics = by_metrics()
    assert of_check(report(by_log(), metrics, ("1", "2")), "coverage", Verdict.UNKNOWN)
    of_two = by_log()
    both = replace(of_two, brokers={**of_two.brokers, "2": of_two.brokers["1"]}, expected=frozenset({"1", "2"}))
    assert of_check(report(both, metrics, ("1", "2")), "coverage", Verdict.UNKNOWN) == []


def test_logins_are_judged_by_metrics_alone() -> None:
    old = replace(NEW, version="2.4.0-rdkafka-2.4.0")
    found = report(by_log(), replace(by_metrics(), software=(old,)))
    assert [row.software for row in of_check(found, "logins", Verdict.BLOCK)] == [f"{old.name} {old.version}"]


def test_an_hour_of_a_log_is_whole_between_two_others() -> None:
    """In the first and in the last one the log may have been turned on, or off."""
    assert whole_hours(by_log(around=0), "1") == {SINCE + HOUR * n for n in range(1, HOURS - 1)}
    assert whole_hours(by_log(), "2") == frozenset()
