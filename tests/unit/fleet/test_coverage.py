"""Which broker logged at which level in which hour, and what is lost of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fleet_evidence import UPGRADED

from featuregate.catalog import captured
from featuregate_fleet.evidence.unread import LINKED, UnreadFile
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, LogLevel
from featuregate_fleet.readiness.hours import covered_seconds, covers, logged_hours, lost_hours
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def told(level: str | None, at: datetime, broker: str = "1") -> LogLevel:
    """Return what a broker told."""
    return LogLevel(broker=broker, level=level, taken_at=at)


def report(
    *levels: LogLevel,
    hours: tuple[datetime, ...] = (TEN, TEN + 2 * HOUR),
    brokers: int = 1,
    unread: tuple[UnreadFile, ...] = (),
) -> Report:
    """Assess a fleet whose first broker has lines in some hours."""
    log = BrokerLog(hours=len(hours), requests=9, first_seen=TEN, last_seen=hours[-1])
    evidence = Evidence(
        brokers={"1": log},
        hourly={"1": dict.fromkeys(hours, 5)},
        log_levels=levels,
        expected=frozenset(map(str, range(1, brokers + 1))),
        unread_files=unread,
        view=UPGRADED,
    )
    return assess(evidence, ToRelease(captured()["4.2"]), TEN + 3 * HOUR, timedelta(days=7))


def test_an_hour_at_debug_without_a_line_is_lost():
    """The broker answered a request in that hour, so there was one to log."""
    found = report(told("DEBUG", TEN + 1.5 * HOUR))
    assert found.verdict is Verdict.UNKNOWN
    (row,) = [row for row in found.rows if row.subject == "hours of broker 1"]
    assert "not a line is here of 1 hour, from 2026-11-22 11:00 UTC on" in row.why


@pytest.mark.parametrize(
    "level",
    [
        told("DEBUG", TEN + 0.5 * HOUR),  # there are lines
        told("INFO", TEN + 1.5 * HOUR),  # a broker without deprecated requests writes none
        told("WARN", TEN + 1.5 * HOUR),
        told(None, TEN + 1.5 * HOUR),
        told("DEBUG", TEN + 1 * HOUR + timedelta(minutes=2)),  # the clock of the broker was behind
        told("DEBUG", TEN + 2 * HOUR - timedelta(minutes=2)),  # or ahead
        told("DEBUG", TEN + 2.9 * HOUR),  # its file may still come
        told("DEBUG", TEN + 1.5 * HOUR, broker="2"),
    ],
)
def test_other_hours_are_not_lost(level: LogLevel):
    """A wrong unknown makes people look away."""
    assert lost_hours(report(level).evidence, "1") == []
    assert report(level).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("hours", "verdict", "of_clock"),
    [
        ((TEN, TEN + 30 * HOUR), Verdict.WARN, Verdict.WARN),
        ((TEN - 400 * HOUR, TEN + 30 * HOUR), Verdict.STALE, Verdict.WARN),
        ((TEN + 30 * HOUR, TEN + 999 * HOUR), Verdict.UNKNOWN, Verdict.UNKNOWN),
    ],
)
def test_hours_that_have_not_come_make_no_evidence_fresh(
    hours: tuple[datetime, ...], verdict: Verdict, of_clock: Verdict
):
    """One line with a wrong year would keep the evidence of a broker from becoming stale."""
    found = report(hours=hours)
    assert found.verdict is verdict
    (row,) = [row for row in found.rows if row.subject == "clock of broker 1"]
    assert row.verdict is of_clock
    assert f"up to {hours[-1]:%Y-%m-%d %H:%M} UTC" in row.why


def test_a_time_zone_that_was_not_given_is_no_clock_that_is_ahead():
    """The hours of its brokers are later by up to fourteen, and their evidence is as new as it seems."""
    assert report(hours=(TEN, TEN + 17 * HOUR)).verdict is Verdict.OK


def test_a_broker_without_evidence_says_its_level():
    """An operator sees that its log is off."""
    (row,) = [row for row in report(told("WARN", TEN, broker="2"), brokers=2).rows if row.subject == "broker 2"]
    assert row.why.endswith("At 2026-11-22 10:00 UTC its level was WARN.")
    assert "fleet logging on" in row.do


def test_a_link_is_missing_evidence():
    """It is not followed, and what it names may have lines of a client."""
    found = report(unread=(UnreadFile("1/link", "1", LINKED),))
    (row,) = [row for row in found.rows if row.subject == "files of broker 1"]
    assert (found.verdict, row.verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert row.why == "1/link has not been read: symbolic links are not followed."


def test_the_report_has_the_hours_of_each_broker():
    """Consecutive hours at one level are one entry; lines say more than what the broker told."""
    found = report(
        told("DEBUG", TEN + 0.5 * HOUR), told("WARN", TEN + 5 * HOUR), hours=(TEN, TEN + HOUR, TEN + 3 * HOUR)
    )
    spans = [(span.start.hour, span.hours, span.level, span.requests) for span in logged_hours(found.evidence, "1")]
    assert spans == [(10, 2, "DEBUG", 10), (13, 1, "DEBUG", 5), (15, 1, "WARN", 0)]
    coverage = found.to_json()["coverage"]
    first = {"start": TEN.isoformat(), "hours": 2, "level": "DEBUG", "requests": 10}
    assert coverage["hours"]["1"][0] == first
    assert coverage["log_levels"] == {"1": {"level": "WARN", "taken_at": (TEN + 5 * HOUR).isoformat()}}


def test_lines_in_a_layout_that_is_not_read_are_no_reason_to_turn_the_log_on():
    """The log is on: what helps is another layout."""
    evidence = Evidence(expected=frozenset({"1"}), quarantined={("1", "unknown-layout"): 9}, view=UPGRADED)
    rows = {row.subject: row for row in assess(evidence, ToRelease(captured()["4.2"]), TEN, timedelta(days=7)).rows}
    for subject in ("broker 1", "requests of broker 1"):
        assert rows[subject].verdict is Verdict.UNKNOWN
        assert "Layouts of lines that are read: Kafka's, Strimzi's" in rows[subject].do
        assert "logging on" not in rows[subject].do


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def test_consecutive_hours_count_from_their_first_to_their_last_request():
    """An hour without a request does not count, and one with two requests not as a whole."""
    assert covered_seconds({}) == 0
    assert covered_seconds({TEN: (TEN + MINUTE, TEN + MINUTE + 14 * SECOND)}) == 14
    turn = {TEN: (TEN + 59 * MINUTE, TEN + 59 * MINUTE), TEN + HOUR: (TEN + HOUR + MINUTE, TEN + HOUR + 2 * MINUTE)}
    assert covered_seconds(turn) == 180
    later = TEN + 9 * HOUR
    assert covered_seconds(turn | {later: (later, later + 30 * MINUTE)}) == 180 + 1800


def test_seconds_of_a_log_are_no_evidence():
    """By default of the command an hour is needed, of which a tenth may be missing."""
    short = BrokerLog(hours=1, requests=9, first_seen=TEN, last_seen=TEN + 14 * SECOND, covered_seconds=14)
    whole = replace(short, last_seen=TEN + HOUR, covered_seconds=55 * 60)
    for log, hours, verdict in ((short, 1, Verdict.UNKNOWN), (short, 0, Verdict.OK), (whole, 1, Verdict.OK)):
        evidence = Evidence(brokers={"1": log}, hourly={"1": {TEN: 9}}, expected=frozenset({"1"}), view=UPGRADED)
        found = assess(evidence, ToRelease(captured()["4.2"]), TEN + HOUR, timedelta(days=7), min_hours=hours)
        assert found.verdict is verdict
        said = [row.why for row in found.rows if row.subject == "hours of broker 1"]
        assert said == [
            "The evidence has 14 seconds of this broker, and less than --min-hours 1 shows too few clients."
        ] * (verdict is Verdict.UNKNOWN)
        assert found.to_json()["coverage"]["min_hours"] == hours
    assert covers(replace(short, covered_seconds=None), 1)  # just its hours are known
    assert not covers(replace(short, covered_seconds=None), 2)
