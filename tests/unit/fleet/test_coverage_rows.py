"""Coverage and quarantine: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, WEEK
from told_rows import said, told

from featuregate_fleet.evidence.paths import LINKED, SPECIAL, UnreadFile
from featuregate_fleet.evidence.reasons import EMPTY, NEWER_REPORT, TEXT_LOG, UNKNOWN_BROKER, UNKNOWN_LAYOUT, VANISHED
from featuregate_fleet.readiness.checks.coverage_checks import coverage, quarantine
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, LogLevel

HOUR = timedelta(hours=1)
LOG = BrokerLog(hours=2, requests=900, first_seen=NOW - 2 * HOUR, last_seen=NOW)


def test_what_is_missing_of_each_broker_is_told() -> None:
    """Hours that are lost, logs that are short or old, clocks that are ahead, and levels of logs that are off."""
    late = NOW + 40 * HOUR
    evidence = Evidence(
        brokers={
            "1": LOG,
            "2": replace(LOG, hours=1, last_seen=NOW - 9 * 24 * HOUR, covered_seconds=119.0),
            "3": replace(LOG, hours=3, last_seen=late, covered_seconds=120.0),
        },
        hourly={"1": {NOW - 2 * HOUR: 5, NOW: 4}, "3": {late: 3, late + HOUR: 3, NOW - HOUR: 1}},
        log_levels=(
            LogLevel(broker="1", level="TRACE", taken_at=NOW - HOUR / 2),
            LogLevel(broker="4", level="INFO", taken_at=NOW - HOUR),
            LogLevel(broker="10", level=None, taken_at=NOW),
        ),
        expected=frozenset({"4", "5", "6", "10"}),
        quarantined={("5", UNKNOWN_LAYOUT): 3, ("2", TEXT_LOG): 7, ("6", TEXT_LOG): 9},
    )
    assert told(coverage(evidence, NOW, NOW - WEEK, 1.5)) == said("coverage 1")
    assert told(coverage(replace(evidence, expected=frozenset(), brokers={}), NOW, NOW - WEEK, 1)) == said("coverage 2")


def test_files_that_were_not_read_are_told_by_broker_and_reason() -> None:
    """A reason of a newer release is told as it is."""
    files = (("1/b", LINKED), ("1/a", LINKED), ("1/g", SPECIAL))
    unread = (*(UnreadFile(path, "1", reason) for path, reason in files), UnreadFile("_x", None, "new"))
    assert told(coverage(Evidence(brokers={"1": LOG}, unread_files=unread), NOW, NOW - WEEK, 0)) == said("coverage 3")


def test_lines_in_quarantine_are_told_by_broker() -> None:
    """One in a hundred is too many, and so is a single file; what is no request is not missing."""
    evidence = Evidence(
        rows=1000,
        brokers={"1": replace(LOG, requests=990), "10": replace(LOG, requests=989), "2": LOG},
        quarantined={
            ("10", "z-odd"): 4,
            ("10", "a-odd"): 6,
            ("1", "z-odd"): 4,
            ("1", "a-odd"): 6,
            ("3", UNKNOWN_LAYOUT): 1,
            ("2", VANISHED): 1,
            ("2", EMPTY): 7,
            ("2", TEXT_LOG): 7,
            ("4", NEWER_REPORT): 7,
            (None, UNKNOWN_BROKER): 2,
        },
    )
    assert told(quarantine(evidence)) == said("coverage 4")
    assert told(quarantine(Evidence(rows=297, quarantined={(None, "odd"): 3}))) == said("coverage 5")
