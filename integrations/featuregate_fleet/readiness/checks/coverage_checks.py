"""The checks of the evidence itself: what is missing, too old, or was not understood. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from featuregate_fleet.evidence.reasons import (
    ENCODED,
    LAYOUTS,
    NOTHING_MISSING,
    OF_FILES,
    TEXT_LOG,
    TOO_LONG,
    UNKNOWN_BROKER,
    UNKNOWN_LAYOUT,
)
from featuregate_fleet.evidence.unread import LINKED, SPECIAL, UNLISTED, some_of
from featuregate_fleet.readiness.hours import covers, hours_ahead, lost_hours
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import BrokerLog, Evidence

_MINUTES: Final = 2
"""Less is printed in seconds."""
UNREADABLE: Final = 0.01
"""The share of a broker's requests in quarantine from which on the others say too little. A client that sends ten
requests is missed with a probability of one to 10^20, if lines are damaged at random."""
_AT_ONCE: Final = OF_FILES | {UNKNOWN_BROKER, ENCODED, TOO_LONG}
"""The reasons for which lines are missing together: those of a file, or of all files of a broker, or many events in one
line. Nothing is random."""
_LOG_AGAIN: Final = (
    "Log requests again, and run 'featuregate fleet run'. If the broker has left the cluster, delete its folder of "
    "logs, run 'featuregate fleet run', and delete what is that old with 'featuregate fleet tidy'."
)


def coverage(evidence: Evidence, now: datetime, oldest: datetime, min_hours: float) -> Iterator[Row]:
    """Check that there is evidence of each broker, of at least ``min_hours``, and that it is not older than ``oldest``.

    Lines of hours that are still to come at ``now`` make no evidence fresh. Without other lines its age is not known.
    """
    if not evidence.brokers_known:
        yield _missing("the cluster", "There is no evidence of this cluster.")
    yield from _unread(evidence)
    told = {one.broker: one for one in evidence.log_levels}
    for broker in evidence.brokers_known:
        log = evidence.brokers.get(broker)
        if lines := evidence.quarantined.get((broker, TEXT_LOG)):
            yield _text_log(broker, lines)
            if log is None:
                continue
        if log is None:
            why = "There is no request log of this broker at DEBUG."
            last = told.get(broker)
            at = f" At {last.taken_at:%Y-%m-%d %H:%M} UTC its level was {last.level}." if last and last.level else ""
            if (broker, UNKNOWN_LAYOUT) in evidence.quarantined:
                yield _missing(f"broker {broker}", f"No request of this broker is read.{at}", _OTHER_LAYOUT)
            else:
                yield _missing(f"broker {broker}", why + at)
            continue
        yield from _lost(evidence, broker)
        newest = log.last_seen
        if ahead := hours_ahead(evidence, broker, now):
            others = evidence.hourly[broker].keys() - set(ahead)
            newest = max(others, default=now)
            yield _ahead(broker, ahead, Verdict.WARN if others else Verdict.UNKNOWN)
        stale = newest < oldest
        if not covers(log, min_hours):
            yield _too_short(broker, log, min_hours)
        yield Row(
            check="coverage",
            verdict=Verdict.STALE if stale else Verdict.OK,
            subject=f"broker {broker}",
            why=f"The evidence has requests in {log.hours} {'hour' if log.hours == 1 else 'hours'} of this broker"
            + (", and all of them are too old." if stale else "."),
            do=_LOG_AGAIN if stale else "",
            count=log.requests,
            first_seen=log.first_seen,
            last_seen=log.last_seen,
        )


def _too_short(broker: str, log: BrokerLog, min_hours: float) -> Row:
    """Say that a broker has not logged for long enough: clients that connect now and then were not seen."""
    minutes = (log.covered_seconds or 0) / 60
    has = f"{minutes:.0f} minutes" if minutes >= _MINUTES else f"{minutes * 60:.0f} seconds"
    return Row(
        check="coverage",
        verdict=Verdict.UNKNOWN,
        subject=f"hours of broker {broker}",
        why=f"The evidence has {has} of this broker, and less than --min-hours {min_hours:g} shows too few clients.",
        do="Log requests for longer, also while rare jobs run; or give --min-hours, if the log shows all clients.",
        count=log.requests,
        first_seen=log.first_seen,
        last_seen=log.last_seen,
    )


def _text_log(broker: str, lines: int) -> Row:
    """Say that a broker has written texts of clients as they are, with their line breaks."""
    return Row(
        check="coverage",
        verdict=Verdict.UNKNOWN,
        subject=f"log of broker {broker}",
        why="It has requests as text, as brokers before 2.8 log them. Any client can write such lines in the name of "
        "others, so that they do not count as evidence.",
        do="Upgrade the broker to 2.8 or newer, and log requests again; or use its metrics in place of its log.",
        count=lines,
    )


def _unread(evidence: Evidence) -> Iterator[Row]:
    """Say which files the last run has left unread: of these nothing is in quarantine."""
    files = sorted((file.broker or "", file.reason, file.path) for file in evidence.unread_files)
    for (broker, reason), found in groupby(files, itemgetter(0, 1)):
        paths = [path for *_, path in found]
        have = "has" if len(paths) == 1 else "have"
        what, do = _UNREAD.get(reason, (f"not been read: {reason}.", ""))
        yield Row(
            check="coverage",
            verdict=Verdict.UNKNOWN,
            subject=f"files of broker {broker}" if broker else "files of an unknown broker",
            why=f"{some_of(paths)} {have} {what}",
            do=do,
            count=len(paths),
        )


_UNREAD: Final = {
    LINKED: (
        "not been read: symbolic links are not followed.",
        "Put the files themselves in place of the links, and run 'featuregate fleet run' again.",
    ),
    SPECIAL: (
        "not been read: pipes, sockets and devices are not.",
        "Take them out of the folder, put files there, and run 'featuregate fleet run' again.",
    ),
    UNLISTED: (
        "not been read: what is there cannot be listed.",
        "Give the user of 'featuregate fleet run' the permission to list and to enter it, and run it again.",
    ),
}


def _lost(evidence: Evidence, broker: str) -> Iterator[Row]:
    """Say that lines are missing of hours in which the broker logged: a client may have run in these alone."""
    if lost := lost_hours(evidence, broker):
        hours = f"{len(lost)} {'hour' if len(lost) == 1 else 'hours'}, from {lost[0]:%Y-%m-%d %H:%M} UTC on"
        yield Row(
            check="coverage",
            verdict=Verdict.UNKNOWN,
            subject=f"hours of broker {broker}",
            why=f"The broker logged at DEBUG, and not a line is here of {hours}.",
            do="Give the files of these hours to 'featuregate fleet run'. Brokers in another zone need --time-zone.",
            last_seen=lost[-1],
        )


def _ahead(broker: str, ahead: list[datetime], verdict: Verdict) -> Row:
    """Say that lines are of hours that have not come yet in any time zone."""
    hours = f"{len(ahead)} {'hour' if len(ahead) == 1 else 'hours'}, up to {ahead[-1]:%Y-%m-%d %H:%M} UTC"
    return Row(
        check="coverage",
        verdict=verdict,
        subject=f"clock of broker {broker}",
        why=f"Its log has lines of {hours}, which are still to come: they do not show how new the evidence is.",
        do="Set the clock of the broker, and look for damaged lines.",
        last_seen=ahead[-1],
    )


def _missing(subject: str, why: str, do: str = "") -> Row:
    return Row(check="coverage", verdict=Verdict.UNKNOWN, subject=subject, why=why, do=do or _TURN_ON)


_TURN_ON: Final = "Turn its log on by 'featuregate fleet logging on', and give its files to 'featuregate fleet run'."


def say_too_little(missing: Mapping[str, int], read: int) -> bool:
    """Return whether too many requests could not be read, by reason, for those that were read to count."""
    lost = sum(missing.values())
    return lost > UNREADABLE * (lost + read) or not _AT_ONCE.isdisjoint(missing)


_SAID_OTHERWISE: Final = NOTHING_MISSING | {TEXT_LOG}
"""The reasons of lines that are not requests, and of those of which `coverage` has a row."""


def quarantine(evidence: Evidence) -> Iterator[Row]:
    """Check of each broker how many requests could not be read.

    A few damaged lines hide no client, because a client sends many requests. A file that is missing may hide one, and
    so may a log whose broker is unknown: a large cluster does without it, and counts of it are a single line.
    """
    brokers = {broker or "": broker for broker, _ in evidence.quarantined}
    for name in sorted(brokers, key=lambda name: (len(name), name)):
        broker = brokers[name]
        missing = {
            reason: count
            for (where, reason), count in sorted(evidence.quarantined.items(), key=lambda item: item[0][1])
            if where == broker and reason not in _SAID_OTHERWISE
        }
        log = evidence.brokers.get(broker or "")
        read = evidence.rows if broker is None else log.requests if log else 0
        if not (lost := sum(missing.values())):
            continue
        yield Row(
            check="quarantine",
            verdict=Verdict.UNKNOWN if say_too_little(missing, read) else Verdict.WARN,
            subject="requests of an unknown broker" if broker is None else f"requests of broker {broker}",
            why=f"Lines or files could not be read: {', '.join(f'{reason} {missing[reason]}' for reason in missing)}.",
            do=next((do for reason, do in _ADVICE.items() if reason in missing), _CUT_LINES),
            count=lost,
        )


_RESTORE_FILES: Final = "Look at the table 'source', restore files that are missing, and run 'featuregate fleet run'."
_NAME_BROKERS: Final = (
    "Look at the table 'quarantine'. Read the logs again for another --cluster, with the node id of each broker as the "
    "name of the folder of its files, or in the header of its records."
)


_OTHER_LAYOUT: Final = (
    f"Layouts of lines that are read: {LAYOUTS}. Look at the table 'quarantine'. Where the lines have a date, "
    f"'featuregate fleet run --again {UNKNOWN_LAYOUT} --layout FORMAT' says how that is written. Otherwise log a time "
    "with a date before each request, and read such logs for another --cluster."
)
_CUT_LINES: Final = "Look at the table 'quarantine', and collect whole lines: shippers and runtimes cut long ones."
_ADVICE: Final = {
    UNKNOWN_BROKER: _NAME_BROKERS,
    **dict.fromkeys(sorted(OF_FILES), _RESTORE_FILES),
    UNKNOWN_LAYOUT: _OTHER_LAYOUT,
    ENCODED: "Decode the lines of the table 'quarantine' (base64, or another code), and read what they hold.",
}
"""What to do about lines that are missing, by reason: the first one counts."""
