"""The time of a line, in the spellings that logging frameworks, shippers and container runtimes have. Pure.

A time counts if it has a date with its year. One that says its zone is converted to UTC; another one is that of the
zone in which the broker logs. ``05/11/2026`` may be of May or of November, so that it is not a time without a layout
(`featuregate_fleet.evidence.lines.layouts`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_MONTHS: Final = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)  # noqa: SIM905 - a table
}
_HOURS_AHEAD: Final = {
    "Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9,
    "KST": 9, "EST": -5, "EDT": -4, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
"""Abbreviations of zones that have one meaning in logs. IST, BST and CST have several."""

_CLOCK: Final = (
    r"(?P<hour>\d\d?)(?P<sign>[:.-])(?P<minute>\d\d)"
    r"(?:(?P=sign)(?P<second>\d\d)(?:[.,:](?P<fraction>\d{1,9})(?!\d))?|(?<=:\d\d)(?![:\d]))"
)
"""With colons, seconds may be missing: ``21.08`` is a number."""
ZONE: Final = rf"(?: ?(?P<zone>[+-]\d\d(?::?\d\d)?|{'|'.join(_HOURS_AHEAD)})(?![\w:]))?"
_HALF: Final = r"(?: ?(?P<half>[AaPp])[Mm](?!\w))?"
_NAME: Final = rf"(?P<name>(?i:{'|'.join(_MONTHS)}))"
_CENTURY: Final = "20"
_YEAR: Final = rf"(?P<year>{_CENTURY}\d\d)"
_BETWEEN: Final = r"(?:[T_:|\t-]|,? +[\[(]?|[\])] ?[\[(])"
"""A date in brackets may have its time in others."""
_FORMATS: Final = tuple(
    re.compile(rf"(?<!\d){pattern}", re.ASCII)
    for pattern in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d\d)(?P=mark)(?P<day>\d\d){_BETWEEN}{_CLOCK}{ZONE}",
        rf"{_YEAR}年(?P<month>\d\d?)月(?P<day>\d\d?)日 ?{_CLOCK}{ZONE}",
        rf"{_YEAR}(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])[T _-]{_CLOCK}{ZONE}",
        rf"(?P<day>\d\d?)[ /-]{_NAME}[ /-]{_YEAR},?[ :T]{_CLOCK}{_HALF}{ZONE}",
        rf"{_NAME}[a-z]* +(?P<day>\d\d?),? +{_YEAR},?(?: at| @)? +{_CLOCK}{_HALF}{ZONE}",
        rf"{_NAME} +(?P<day>\d\d?) {_CLOCK}{ZONE} {_YEAR}(?!\d)",
        rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR},? +{_CLOCK}{ZONE}",
        rf"(?P<first>\d\d?)(?P<mark>[-/])(?P<second_number>\d\d?)(?P=mark){_YEAR},?[ :T_]{_CLOCK}{_HALF}{ZONE}",
        (
            rf"{_YEAR}(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])[T ]?(?P<hour>[01]\d|2[0-3])"
            rf"(?P<minute>[0-5]\d)(?P<second>[0-5]\d)(?:[.,]?(?P<fraction>\d{{3,9}})(?!\d))?{ZONE}(?!\d)"
        ),
    )
)
_EPOCH: Final = re.compile(
    r"(?:^|(?<=[\[(={ '\x22]))([12]\d{9}(?:[.,]\d{1,9}|\d{3}|\d{6}|\d{9})?)(?![\w.,:-])", re.ASCII
)
_BEGIN, _END = (datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 2100))
_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)
SEARCHED: Final = 1024
"""Characters before a request in which its time may be."""
_MONTHS_A_YEAR: Final = 12
_NOON: Final = 12


class LineTime(NamedTuple):
    """The time of a line."""

    time: datetime | None
    """In UTC, or as if its zone were UTC. None for one that does not exist, such as the 30th of February."""
    in_utc: bool
    """Whether the line says its zone. Otherwise it is that of the broker."""


def last_time(text: str) -> LineTime | None:
    """Return the last time with a date in a text; None without any."""
    text = text[-SEARCHED:]
    found = [match for pattern in _FORMATS for match in pattern.finditer(text)] if _CENTURY in text else []
    if not found:
        seconds = _EPOCH.findall(text)
        return epoch_time(seconds[-1]) if seconds else None
    for match in sorted(found, key=re.Match.end, reverse=True):
        parts: Mapping[str, str | None] = match.groupdict()
        if (made := time_of(parts)) is not None:
            return made
    return None


def time_of(parts: Mapping[str, str | None]) -> LineTime | None:
    """Return the time of the parts that a pattern has found; None if it is not known which one is the day."""
    day = _day(parts)
    if day is None:
        return None
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if half := parts.get("half"):
        hour = hour % _NOON + _NOON * (half in "Pp")
    micros = int((parts.get("fraction") or "0")[:6].ljust(6, "0"))
    zone = parts.get("zone")
    try:
        time = datetime(*day, hour, minute, second, micros, tzinfo=UTC) - _ahead(zone)
    except ValueError:
        return LineTime(None, in_utc=False)
    return LineTime(time, in_utc=zone is not None)


def epoch_time(number: float | str) -> LineTime | None:
    """Return the time of a count since 1970, in seconds to nanoseconds; None for one of another century."""
    whole, _, fraction = str(number).replace(",", ".").partition(".")
    if not (whole.isdecimal() and whole.isascii() and len(whole) <= 19):  # noqa: PLR2004 - nanoseconds
        return None
    digits = (whole + (fraction if fraction.isdecimal() else "")).ljust(16, "0")[:16]
    time = _ZERO + timedelta(microseconds=int(digits))
    return LineTime(time, in_utc=True) if len(whole) in {10, 13, 16, 19} and _BEGIN <= time < _END else None


def _day(parts: Mapping[str, str | None]) -> tuple[int, int, int] | None:
    year, name = int(parts["year"] or 0), parts.get("name")
    if first := parts.get("first"):
        one, two = int(first), int(parts["second_number"] or 0)
        if (one > _MONTHS_A_YEAR) == (two > _MONTHS_A_YEAR):
            return None
        return (year, two, one) if one > _MONTHS_A_YEAR else (year, one, two)
    month = _MONTHS[name.title()] if name else int(parts["month"] or 0)
    return year, month, int(parts["day"] or 0)


def _ahead(zone: str | None) -> timedelta:
    """Return how far the clocks of a zone are ahead of UTC."""
    if zone is None:
        return timedelta()
    if zone in _HOURS_AHEAD:
        return timedelta(hours=_HOURS_AHEAD[zone])
    digits = zone[1:].replace(":", "")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return -ahead if zone[0] == "-" else ahead
