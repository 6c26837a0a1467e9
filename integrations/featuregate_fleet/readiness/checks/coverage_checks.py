"""The checks of the evidence itself: what is missing, too old, or was not understood. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from featuregate.printable import some
from featuregate_fleet.evidence import reasons
from featuregate_fleet.evidence.paths import LINKED, SPECIAL, UNLISTED
from featuregate_fleet.readiness.hours import covers, hours_ahead, lost_hours
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import BrokerLog, Evidence

_MINUTES: Final = 2
"""Less is printed in seconds."""
UNREADABLE: Final = 0.01
"""The share of a broker's requests in quarantine from which on the others say too little. A client that sends ten
requests is missed with a probability of one to 10^20, if lines are damaged at random."""
_NOT_UNDERSTOOD: Final = frozenset({reasons.UNKNOWN_LAYOUT, reasons.WRONG_FIELDS, reasons.FAILED})
_OF_MANY: Final = frozenset({reasons.UNKNOWN_BROKER, reasons.ENCODED, reasons.DROPPED, reasons.TOO_LONG})
_AT_ONCE: Final = reasons.OF_FILES | _OF_MANY | _NOT_UNDERSTOOD
"""The reasons for which lines are missing together: those of a file, or of all files of a broker, many events in one
line, or all lines of a shipper or a client that are not as others. Nothing is random."""
_SAID_OTHERWISE: Final = reasons.NOTHING_MISSING | {reasons.TEXT_LOG}
"""The reasons of lines that are not requests, and of those of which `coverage` has a row."""
_LOG_AGAIN: Final = (
    "Log requests again, and run 'featuregate fleet run'. If the broker has left the cluster, delete its folder of "
    "logs, run 'featuregate fleet run', and delete what is that old with 'featuregate fleet tidy'."
)
_TURN_ON: Final = "Turn its log on by 'featuregate fleet logging on', and give its files to 'featuregate fleet run'."
_OTHER_LAYOUT: Final = (
    f"Layouts of lines that are read: {reasons.LAYOUTS}. Look at the table 'quarantine'. Where the lines have a date, "
    f"'featuregate fleet run --again {reasons.UNKNOWN_LAYOUT} --layout FORMAT' says how that is written. Otherwise log "
    "a time with a date before each request, and read such logs for another --cluster."
)
_RESTORE: Final = "Look at the table 'source', restore files that are missing, and run 'featuregate fleet run'."
_CUT_LINES: Final = "Look at the table 'quarantine', and collect whole lines: shippers and runtimes cut long ones."
_ADVICE: Final = {
    reasons.UNKNOWN_BROKER: "Look at the table 'quarantine'. Read the logs again for another --cluster, with the node "
    "id of each broker as the name of the folder of its files, or in the header of its records.",
    **dict.fromkeys(sorted(reasons.OF_FILES), _RESTORE),
    reasons.UNKNOWN_LAYOUT: _OTHER_LAYOUT,
    **dict.fromkeys(
        (reasons.WRONG_FIELDS, reasons.FAILED),
        "Look at the table 'quarantine', and read the lines as the broker wrote them: what collects them changes them.",
    ),
    reasons.DROPPED: "Lift the limit of journald (LogRateLimitIntervalSec=0 of the broker's unit) or rsyslog, or let "
    "asynchronous appenders block, and log requests again, for another --cluster; of a search, read all hits, by a "
    "scroll; where lines of other services were dropped, read the broker's alone.",
    reasons.ENCODED: "Decode the lines of the table 'quarantine' (base64, or another code), and read what they hold.",
}
"""What to do about lines that are missing, by reason: the first one counts."""
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
_row = partial(Row, "coverage")


def coverage(evidence: Evidence, now: datetime, oldest: datetime, min_hours: float) -> Iterator[Row]:
    """Check that there is evidence of each broker, of at least ``min_hours``, and that it is not older than ``oldest``.

    Lines of hours that are still to come at ``now`` make no evidence fresh. Without other lines its age is not known.
    """
    if not evidence.brokers_known:
        yield _row(Verdict.UNKNOWN, "the cluster", "There is no evidence of this cluster.", _TURN_ON)
    yield from _unread(evidence)
    for broker in evidence.brokers_known:
        log = evidence.brokers.get(broker)
        if lines := evidence.quarantined.get((broker, reasons.TEXT_LOG)):
            yield _row(
                Verdict.UNKNOWN,
                f"log of broker {broker}",
                "It has requests as text, as brokers before 2.8 log them. Any client can write such lines in the name "
                "of others, so that they do not count as evidence.",
                "Upgrade the broker to 2.8 or newer, and log requests again; or use its metrics in place of its log.",
                count=lines,
            )
        elif log is None:
            yield _no_log(evidence, broker)
        if log is not None:
            if lost := lost_hours(evidence, broker):  # a client may have run in these hours alone
                yield _row(
                    Verdict.UNKNOWN,
                    f"hours of broker {broker}",
                    "The broker logged at DEBUG, and not a line is here of "
                    f"{_hours(len(lost))}, from {lost[0]:%Y-%m-%d %H:%M} UTC on.",
                    "Give the files of these hours to 'featuregate fleet run'. Brokers in another zone need "
                    "--time-zone.",
                    last_seen=lost[-1],
                )
            yield from _of_log(evidence, broker, log, now, oldest, min_hours)


def _unread(evidence: Evidence) -> Iterator[Row]:
    """Say which files the last run has left unread: of these nothing is in quarantine."""
    files = sorted((file.broker or "", file.reason, file.path) for file in evidence.unread_files)
    for (broker, reason), found in groupby(files, itemgetter(0, 1)):
        paths = [path for *_, path in found]
        what, do = _UNREAD.get(reason, (f"not been read: {reason}.", ""))
        why = f"{some(paths, 1)} {'has' if len(paths) == 1 else 'have'} {what}"
        subject = f"files of broker {broker}" if broker else "files of an unknown broker"
        yield _row(Verdict.UNKNOWN, subject, why, do, count=len(paths))


def _no_log(evidence: Evidence, broker: str) -> Row:
    last = next(reversed(evidence.levels_of[broker]), None)
    at = f" At {last.taken_at:%Y-%m-%d %H:%M} UTC its level was {last.level}." if last and last.level else ""
    if (broker, reasons.UNKNOWN_LAYOUT) in evidence.quarantined:
        why, do = "No request of this broker is read.", _OTHER_LAYOUT
    else:
        why, do = "There is no request log of this broker at DEBUG.", _TURN_ON
    return _row(Verdict.UNKNOWN, f"broker {broker}", why + at, do)


def _of_log(
    evidence: Evidence, broker: str, log: BrokerLog, now: datetime, oldest: datetime, min_hours: float
) -> Iterator[Row]:
    newest = log.last_seen
    if ahead := hours_ahead(evidence, broker, now):
        others = evidence.hourly[broker].keys() - set(ahead)
        newest = max(others, default=now)
        yield _row(
            Verdict.WARN if others else Verdict.UNKNOWN,
            f"clock of broker {broker}",
            f"Its log has lines of {_hours(len(ahead))}, up to {ahead[-1]:%Y-%m-%d %H:%M} UTC, which are still to "
            "come: they do not show how new the evidence is.",
            "Set the clock of the broker, and look for damaged lines.",
            last_seen=ahead[-1],
        )
    seen = partial(_row, count=log.requests, first_seen=log.first_seen, last_seen=log.last_seen)
    if not covers(log, min_hours):  # clients that connect now and then were not seen
        minutes = (log.covered_seconds or 0) / 60
        has = f"{minutes:.0f} minutes" if minutes >= _MINUTES else f"{minutes * 60:.0f} seconds"
        why = f"The evidence has {has} of this broker, and less than {min_hours:g} h shows too few clients."
        do = (
            "Log requests for longer, also while rare jobs run; or lower this minimum (--min-hours, in Python "
            "min_hours=), if the log shows all clients."
        )
        yield seen(Verdict.UNKNOWN, f"hours of broker {broker}", why, do)
    why = f"The evidence has requests in {_hours(log.hours)} of this broker"
    if newest < oldest:
        yield seen(Verdict.STALE, f"broker {broker}", f"{why}, and all of them are too old.", _LOG_AGAIN)
    else:
        yield seen(Verdict.OK, f"broker {broker}", f"{why}.")


def _hours(count: int) -> str:
    return f"{count} {'hour' if count == 1 else 'hours'}"


def say_too_little(missing: Mapping[str, int], read: int) -> bool:
    """Return whether too many requests could not be read, by reason, for those that were read to count."""
    lost = sum(missing.values())
    return lost > UNREADABLE * (lost + read) or not _AT_ONCE.isdisjoint(missing)


def quarantine(evidence: Evidence) -> Iterator[Row]:
    """Check of each broker how many requests could not be read.

    A few damaged lines hide no client, because a client sends many requests. A file that is missing may hide one, and
    so may lines that are whole and not understood: a client may have no others. A log whose broker is unknown may, too:
    a large cluster does without it, and counts of it are a single line.
    """
    lines = [(broker, reason, count) for (broker, reason), count in evidence.quarantined.items()]
    lines.sort(key=lambda line: (len(line[0] or ""), line[0] or "", line[1]))
    for broker, found in groupby(lines, itemgetter(0)):
        missing = {reason: count for _, reason, count in found if reason not in _SAID_OTHERWISE}
        log = evidence.brokers.get(broker or "")
        read = evidence.rows if broker is None else log.requests if log else 0
        if lost := sum(missing.values()):
            yield Row(
                "quarantine",
                Verdict.UNKNOWN if say_too_little(missing, read) else Verdict.WARN,
                "requests of an unknown broker" if broker is None else f"requests of broker {broker}",
                f"Lines or files could not be read: {', '.join(f'{why} {count}' for why, count in missing.items())}.",
                next((do for reason, do in _ADVICE.items() if reason in missing), _CUT_LINES),
                count=lost,
            )
