"""Coverage and quarantine: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, WEEK
from told_rows import told

from featuregate_fleet.evidence.reasons import EMPTY, NEWER_REPORT, TEXT_LOG, UNKNOWN_BROKER, UNKNOWN_LAYOUT, VANISHED
from featuregate_fleet.evidence.unread import LINKED, SPECIAL, UnreadFile
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
    assert (
        told(coverage(evidence, NOW, NOW - WEEK, 1.5))
        == """
unknown coverage, hours of broker 1: The broker logged at DEBUG, and not a line is here of 1 hour, from
    2026-11-22 11:00 UTC on. -> Give the files of these hours to 'featuregate fleet run'. Brokers in another
    zone need --time-zone. [last_seen=22.11:00]
ok coverage, broker 1: The evidence has requests in 2 hours of this broker. -> (nothing) [count=900,
    first_seen=22.10:00, last_seen=22.12:00]
unknown coverage, log of broker 2: It has requests as text, as brokers before 2.8 log them. Any client can
    write such lines in the name of others, so that they do not count as evidence. -> Upgrade the broker to
    2.8 or newer, and log requests again; or use its metrics in place of its log. [count=7]
unknown coverage, hours of broker 2: The evidence has 119 seconds of this broker, and less than --min-hours
    1.5 shows too few clients. -> Log requests for longer, also while rare jobs run; or give --min-hours, if
    the log shows all clients. [count=900, first_seen=22.10:00, last_seen=13.12:00]
stale coverage, broker 2: The evidence has requests in 1 hour of this broker, and all of them are too old. ->
    Log requests again, and run 'featuregate fleet run'. If the broker has left the cluster, delete its folder
    of logs, run 'featuregate fleet run', and delete what is that old with 'featuregate fleet tidy'.
    [count=900, first_seen=22.10:00, last_seen=13.12:00]
warn coverage, clock of broker 3: Its log has lines of 2 hours, up to 2026-11-24 05:00 UTC, which are still to
    come: they do not show how new the evidence is. -> Set the clock of the broker, and look for damaged
    lines. [last_seen=24.05:00]
unknown coverage, hours of broker 3: The evidence has 2 minutes of this broker, and less than --min-hours 1.5
    shows too few clients. -> Log requests for longer, also while rare jobs run; or give --min-hours, if the
    log shows all clients. [count=900, first_seen=22.10:00, last_seen=24.04:00]
ok coverage, broker 3: The evidence has requests in 3 hours of this broker. -> (nothing) [count=900,
    first_seen=22.10:00, last_seen=24.04:00]
unknown coverage, broker 4: There is no request log of this broker at DEBUG. At 2026-11-22 11:00 UTC its level
    was INFO. -> Turn its log on by 'featuregate fleet logging on', and give its files to 'featuregate fleet
    run'. []
unknown coverage, broker 5: No request of this broker is read. -> Layouts of lines that are read: Kafka's,
    Strimzi's, other Log4j patterns with a date, CRI, Docker, kubectl, Compose, syslog and JSON. Look at the
    table 'quarantine'. Where the lines have a date, 'featuregate fleet run --again unknown-layout --layout
    FORMAT' says how that is written. Otherwise log a time with a date before each request, and read such logs
    for another --cluster. []
unknown coverage, log of broker 6: It has requests as text, as brokers before 2.8 log them. Any client can
    write such lines in the name of others, so that they do not count as evidence. -> Upgrade the broker to
    2.8 or newer, and log requests again; or use its metrics in place of its log. [count=9]
unknown coverage, broker 10: There is no request log of this broker at DEBUG. -> Turn its log on by
    'featuregate fleet logging on', and give its files to 'featuregate fleet run'. []
"""
    )
    assert (
        told(coverage(replace(evidence, expected=frozenset(), brokers={}), NOW, NOW - WEEK, 1))
        == """
unknown coverage, the cluster: There is no evidence of this cluster. -> Turn its log on by 'featuregate fleet
    logging on', and give its files to 'featuregate fleet run'. []
"""
    )


def test_files_that_were_not_read_are_told_by_broker_and_reason() -> None:
    """A reason of a newer release is told as it is."""
    files = (("1/b", LINKED), ("1/a", LINKED), ("1/g", SPECIAL))
    unread = (*(UnreadFile(path, "1", reason) for path, reason in files), UnreadFile("_x", None, "new"))
    assert (
        told(coverage(Evidence(brokers={"1": LOG}, unread_files=unread), NOW, NOW - WEEK, 0))
        == """
unknown coverage, files of an unknown broker: _x has not been read: new. -> (nothing) [count=1]
unknown coverage, files of broker 1: 1/a and 1 more have not been read: symbolic links are not followed. ->
    Put the files themselves in place of the links, and run 'featuregate fleet run' again. [count=2]
unknown coverage, files of broker 1: 1/g has not been read: pipes, sockets and devices are not. -> Take them
    out of the folder, put files there, and run 'featuregate fleet run' again. [count=1]
ok coverage, broker 1: The evidence has requests in 2 hours of this broker. -> (nothing) [count=900,
    first_seen=22.10:00, last_seen=22.12:00]
"""
    )


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
    assert (
        told(quarantine(evidence))
        == """
unknown quarantine, requests of an unknown broker: Lines or files could not be read: unknown-broker 2. -> Look
    at the table 'quarantine'. Read the logs again for another --cluster, with the node id of each broker as
    the name of the folder of its files, or in the header of its records. [count=2]
warn quarantine, requests of broker 1: Lines or files could not be read: a-odd 6, z-odd 4. -> Look at the
    table 'quarantine', and collect whole lines: shippers and runtimes cut long ones. [count=10]
unknown quarantine, requests of broker 2: Lines or files could not be read: vanished 1. -> Look at the table
    'source', restore files that are missing, and run 'featuregate fleet run'. [count=1]
unknown quarantine, requests of broker 3: Lines or files could not be read: unknown-layout 1. -> Layouts of
    lines that are read: Kafka's, Strimzi's, other Log4j patterns with a date, CRI, Docker, kubectl, Compose,
    syslog and JSON. Look at the table 'quarantine'. Where the lines have a date, 'featuregate fleet run
    --again unknown-layout --layout FORMAT' says how that is written. Otherwise log a time with a date before
    each request, and read such logs for another --cluster. [count=1]
unknown quarantine, requests of broker 10: Lines or files could not be read: a-odd 6, z-odd 4. -> Look at the
    table 'quarantine', and collect whole lines: shippers and runtimes cut long ones. [count=10]
"""
    )
    few = Evidence(rows=297, quarantined={(None, "odd"): 3})
    assert (
        told(quarantine(few))
        == """
warn quarantine, requests of an unknown broker: Lines or files could not be read: odd 3. -> Look at the table
    'quarantine', and collect whole lines: shippers and runtimes cut long ones. [count=3]
"""
    )
