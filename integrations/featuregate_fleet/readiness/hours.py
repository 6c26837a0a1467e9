"""Which broker logged at which level in which hour: from lines, and from levels that brokers reported. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from featuregate_fleet.evidence.reasons import NOTHING_MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_fleet.readiness.evidence import BrokerLog, Evidence

HOUR: Final = timedelta(hours=1)
STALE_AFTER: Final = timedelta(days=7)
MIN_HOURS: Final = 1.0
"""The hours of its log that a broker needs by default: they show the clients that always run."""
MICROS_OF_HOUR: Final = 3_600_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENOUGH: Final = 0.9
"""Share of an hour that counts as all of it: the first request comes a little later, and the last a little earlier."""
_CLOCKS: Final = timedelta(minutes=5)
"""How far the clocks of a broker and of this machine may differ."""
_ZONES: Final = timedelta(hours=14)
"""How far the easternmost time zone is before UTC."""
ALL_REQUESTS: Final = frozenset({"DEBUG", "TRACE"})
"""The levels of a log with all requests. Old brokers whose logger is at TRACE write them at TRACE
(RequestChannel of 0.10 to 1.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedHours:
    """Consecutive hours in which the log of a broker was at one level."""

    start: datetime
    hours: int
    level: str
    """The level of the lines; in hours without lines, the level that the broker reported."""
    requests: int


def from_micros(micros: int) -> datetime:
    """Return a time of ``unix_micros()``: Arrow makes times of some hundred thousand rows in ten times as long."""
    return _EPOCH + timedelta(microseconds=micros)


def hour_of(time: datetime) -> datetime:
    """Return when the hour of a time begins."""
    return time.replace(minute=0, second=0, microsecond=0)


def hours_from(begin: datetime, count: float) -> set[datetime]:
    """Return the begins of as many hours, one after another; a part of an hour counts."""
    return {begin + HOUR * n for n in range(math.ceil(count))}


def logged_hours(evidence: Evidence, broker: str) -> tuple[LoggedHours, ...]:
    """Return the hours of a broker of which something is known, the oldest first."""
    known = {hour_of(one.taken_at): (one.level, 0) for one in evidence.levels_of[broker] if one.level}
    known |= {hour: ("INFO", count) for hour, count in evidence.deprecated.get(broker, {}).items()}
    known |= {hour: ("DEBUG", count) for hour, count in evidence.hourly.get(broker, {}).items()}
    spans: list[LoggedHours] = []
    for hour, (level, requests) in sorted(known.items()):
        last = spans[-1] if spans else None
        if last and last.level == level and last.start + last.hours * HOUR == hour:
            spans[-1] = replace(last, hours=last.hours + 1, requests=last.requests + requests)
        else:
            spans.append(LoggedHours(start=hour, hours=1, level=level, requests=requests))
    return tuple(spans)


def covered_seconds(hours: Mapping[int, tuple[int, int]]) -> float:
    """Return how long a broker logged, by the first and the last request of each hour, all in microseconds.

    The hours are in order. Consecutive ones count from their first request to their last one.
    """
    total, next_hour, until = 0, None, 0
    for hour, (first, last) in hours.items():
        total += last - (until if hour == next_hour else first)
        next_hour, until = hour + MICROS_OF_HOUR, last
    return total / 1_000_000


def covers(log: BrokerLog, hours: float) -> bool:
    """Return whether a broker logged for that long; a tenth of it may be missing at its ends."""
    covered = log.hours * HOUR.total_seconds() if log.covered_seconds is None else log.covered_seconds
    return covered >= _ENOUGH * hours * HOUR.total_seconds()


def lost_hours(evidence: Evidence, broker: str) -> list[datetime]:
    """Return the hours in which a broker logged all requests, as it reported, and of which there is no line.

    There is at least one request in such an hour: the one that asked for the level. Hours after the last line are not
    lost: their files may still come.
    """
    lines: Mapping[datetime, int] = evidence.hourly.get(broker, {})
    newest = max(lines, default=None)
    told = [one.taken_at for one in evidence.levels_of[broker] if one.level in ALL_REQUESTS]
    return sorted(
        {
            hour_of(time)
            for time in told
            if newest is not None
            and hour_of(time) < newest
            and lines.keys().isdisjoint({hour_of(time - _CLOCKS), hour_of(time + _CLOCKS)})
        }
    )


def whole_hours(evidence: Evidence, broker: str) -> frozenset[datetime]:
    """Return the hours of which the log of a broker has all requests, as far as anybody can say.

    It was at DEBUG in the hours around each of them, too. Where lines of it are in quarantine, or files are left
    unread, there is none: a request may be missing in any hour.
    """
    lost = {where for (where, reason), count in evidence.quarantined.items() if count and reason not in NOTHING_MISSING}
    if lost & {broker, None} or {file.broker for file in evidence.unread_files} & {broker, None}:
        return frozenset()
    logged = evidence.hourly.get(broker, {}).keys()
    return frozenset(hour for hour in logged if {hour - HOUR, hour + HOUR} <= logged)


def hours_ahead(evidence: Evidence, broker: str, now: datetime) -> list[datetime]:
    """Return the hours in a broker's log that have not come yet in any time zone.

    A clock was ahead, or a line is damaged. Hours that have come elsewhere may be of a zone that was not given.
    """
    latest = now + _ZONES + _CLOCKS
    return sorted(hour for hour in evidence.hourly.get(broker, {}) if hour > latest)
