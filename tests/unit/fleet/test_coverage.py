"""Which broker logged at which level in which hour, and what is lost of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest
from fleet_evidence import UPGRADED

from featuregate.catalog import captured
from featuregate_fleet.evidence.paths import UnreadFile
from featuregate_fleet.readiness.checks.coverage_checks import coverage
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, LogLevel
from featuregate_fleet.readiness.hours import covered_seconds, covers, lost_hours
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def told(level: str | None, at: datetime, broker: str = "1") -> LogLevel:
    return LogLevel(broker=broker, level=level, taken_at=at)


def report(
    *levels: LogLevel,
    hours: tuple[datetime, ...] = (TEN, TEN + 2 * HOUR),
    brokers: int = 1,
    unread: tuple[UnreadFile, ...] = (),
) -> Report:
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


def test_what_many_brokers_reported_is_not_searched_for_each_of_them():
    """There are two reports for each hour of each broker: a hundred brokers have half a million in 90 days."""

    def seconds(brokers: int) -> float:
        reported = tuple(
            told("DEBUG", TEN + hour * HOUR, str(broker)) for broker in range(brokers) for hour in range(60)
        )
        evidence = Evidence(log_levels=reported, expected=frozenset(map(str, range(brokers))))
        begin = process_time()
        assert len(list(coverage(evidence, TEN, TEN, 1))) == brokers
        return process_time() - begin

    assert any(seconds(800) < 8 * seconds(200) for _ in range(3))  # the square would be 16


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


SECOND, MINUTE, AN_HOUR = 1_000_000, 60_000_000, 3_600_000_000


def test_consecutive_hours_count_from_their_first_to_their_last_request():
    """An hour without a request does not count, and one with two requests not as a whole."""
    assert covered_seconds({}) == 0
    assert covered_seconds({0: (MINUTE, MINUTE + 14 * SECOND)}) == 14
    turn = {0: (59 * MINUTE, 59 * MINUTE), AN_HOUR: (AN_HOUR + MINUTE, AN_HOUR + 2 * MINUTE)}
    assert covered_seconds(turn) == 180
    later = 9 * AN_HOUR
    assert covered_seconds(turn | {later: (later, later + 30 * MINUTE)}) == 180 + 1800


def test_a_tenth_of_the_hours_may_be_missing():
    """The first request comes a little later, and the last a little earlier."""
    log = BrokerLog(hours=1, requests=9, first_seen=TEN, last_seen=TEN + HOUR, covered_seconds=54 * 60)
    assert covers(log, 1)
    assert not covers(replace(log, covered_seconds=54 * 60 - 1), 1)
    assert covers(replace(log, covered_seconds=0), 0)
    assert covers(replace(log, covered_seconds=None), 1)  # just its hours are known
    assert not covers(replace(log, covered_seconds=None), 2)
