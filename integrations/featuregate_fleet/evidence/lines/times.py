"""The time of a line, in the spellings that logging frameworks, shippers and container runtimes have. Pure.

A time counts if it has a date with its year. One that says its zone is converted to UTC; another one is that of the
zone in which the broker logs. ``05/11/2026`` may be of May or of November, so that it is not a time without a layout.
A layout is one that the operator names, such as ``%d-%m-%Y %H:%M:%S``, as Python's strptime spells it: it says what a
line alone does not, which number is the day, or which year it was.
"""

from __future__ import annotations

import re
from collections import deque
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import product
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
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d\d?):?(\d\d)?", re.ASCII)
_NAMED: Final = rf"(?:UTC|GMT)[+-]\d\d?(?::?\d\d)?|{'|'.join(_HOURS_AHEAD)}"
_ZONE: Final = rf"(?: ?(?P<zone>[+-]\d\d(?::?\d\d)?|{_NAMED})(?![\w:]))?"
"""Java calls a zone without a name GMT+05:30."""
_HALF: Final = r"(?: ?(?P<half>[AaPp])[Mm](?!\w))?"
_NAME: Final = rf"(?P<name>(?i:{'|'.join(_MONTHS)}))"
_CENTURY: Final = "20"
_YEAR: Final = rf"(?P<year>{_CENTURY}\d\d)"
_BETWEEN: Final = r"(?:[T_:|\t-]|,? +[\[(]?|[\])] ?[\[(])"
"""A date in brackets may have its time in others."""
_FORMATS: Final = tuple(
    re.compile(rf"(?<!\d){pattern}", re.ASCII)
    for pattern in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d\d)(?P=mark)(?P<day>\d\d){_BETWEEN}{_CLOCK}{_HALF}{_ZONE}",
        rf"{_YEAR}年(?P<month>\d\d?)月(?P<day>\d\d?)日 ?{_CLOCK}{_ZONE}",
        rf"{_YEAR}(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])[T _-]{_CLOCK}{_ZONE}",
        rf"(?P<day>\d\d?)[ /-]{_NAME}[ /-]{_YEAR},?[ :T]{_CLOCK}{_HALF}{_ZONE}",
        rf"{_NAME}[a-z]* +(?P<day>\d\d?),? +{_YEAR},?(?: at| @)? +{_CLOCK}{_HALF}{_ZONE}",
        rf"{_NAME} +(?P<day>\d\d?) {_CLOCK}{_ZONE} {_YEAR}(?!\d)",
        rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR},? +{_CLOCK}{_ZONE}",
        rf"(?P<first>\d\d?)(?P<mark>[-/])(?P<second_number>\d\d?)(?P=mark){_YEAR},?[ :T_]{_CLOCK}{_HALF}{_ZONE}",
        (
            rf"{_YEAR}(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])[T ]?(?P<hour>[01]\d|2[0-3])"
            rf"(?P<minute>[0-5]\d)(?P<second>[0-5]\d)(?:[.,]?(?P<fraction>\d{{3,9}})(?!\d))?{_ZONE}(?!\d)"
        ),
    )
)
_EPOCH: Final = re.compile(
    r"(?:^|(?<=[\[(={ '\x22]))([12]\d{9}(?:[.,]\d{1,9}|\d{3}|\d{6}|\d{9})?)(?![\w.,:-])", re.ASCII
)
_BEGIN, _END = (datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 2100))
_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SEARCHED: Final = 1024
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
    text = text[-_SEARCHED:]
    found = [match for pattern in _FORMATS for match in pattern.finditer(text)] if _CENTURY in text else []
    if not found:
        seconds = _EPOCH.findall(text)
        return epoch_time(seconds[-1]) if seconds else None
    for match in sorted(found, key=re.Match.end, reverse=True):
        if (made := time_of(match.groupdict())) is not None:
            return made
    return None


def time_of(parts: Mapping[str, str | None]) -> LineTime | None:
    """Return the time of the parts that a pattern has found; None if it is not known which one is the day."""
    day = _day(parts)
    if day is None:
        return None
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
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
    year, name = int(parts.get("year") or 0), parts.get("name")
    if first := parts.get("first"):
        one, two = int(first), int(parts.get("second_number") or 0)
        if (one > _MONTHS_A_YEAR) == (two > _MONTHS_A_YEAR):
            return None
        return (year, two, one) if one > _MONTHS_A_YEAR else (year, one, two)
    if (number := parts.get("day_of_year")) is not None:
        day = date(year, 1, 1) + timedelta(days=int(number) - 1)
        return (year, day.month, day.day) if day.year == year else (year, 0, 0)
    month = _MONTHS[name.title()] if name else int(parts.get("month") or 0)
    return year, month, int(parts.get("day") or 0)


def _ahead(zone: str | None) -> timedelta:
    if (found := _OFFSET.fullmatch(zone or "")) is None:
        return timedelta(hours=_HOURS_AHEAD.get(zone or "", 0))
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return -ahead if found[1] == "-" else ahead


# ---------------------------------------------------------------- layouts

_FRACTION: Final = r"(?P<fraction>\d{1,9})(?!\d)"
_DIRECTIVES: Final = {
    "Y": r"(?P<year>20\d\d)",
    "y": r"(?P<short_year>\d\d)",
    "m": r"(?P<month>\d\d?)",
    "b": _NAME + r"[A-Za-z]{0,6}",
    "d": r"(?P<day>\d\d?)",
    "j": r"(?P<day_of_year>\d{1,3})",
    "H": r"(?P<hour>\d\d?)",
    "I": r"(?P<hour>\d\d?)",
    "M": r"(?P<minute>\d\d)",
    "S": r"(?P<second>\d\d)",
    "f": _FRACTION,
    "p": r"(?P<half>[AaPp])\.?[Mm]\b",
    "z": _ZONE,
}
_NEEDED: Final = (
    ("a day: %d with %m or %b, or %j", ("dm", "db", "j")),
    ("an hour: %H, or %I with %p", ("H", "Ip")),
    ("minutes: %M", ("M",)),
)
_DIRECTIVE: Final = re.compile(r"%(.?)|(\s+)|([^%\s]+)", re.DOTALL)
_KAFKAS: Final = "[2026-02-01 03:04:05,678] DEBUG "
_LEAP_YEARS: Final = 8
"""Years between two 29ths of February, at most."""
_ONE_DAY: Final = timedelta(days=1)
"""A line may be of a zone that is ahead of UTC."""
_DATE_LAYOUTS: Final = (
    *(date.replace("-", mark) for mark in "/-." for date in ("%d-%m-%Y", "%m-%d-%Y")),
    *(date.replace("-", mark) for mark in "/-." for date in ("%y-%m-%d", "%d-%m-%y", "%m-%d-%y")),
    *(date.replace("-", mark) for mark in "/-." for date in ("%d-%m", "%m-%d")),
    *("%b %d", "%d %b", "%d-%b-%y", "%d/%b/%y", "%y%m%d", "%Y-%j", "%Y.%j"),
)
_CLOCK_LAYOUTS: Final = ("%I:%M:%S %p", "%I.%M.%S %p", "%H:%M:%S", "%H%M%S", "%H.%M.%S", "%H:%M")


class Layout(NamedTuple):
    """How the lines of a file write their times."""

    text: str
    not_after: datetime | None = None
    """When the file was last written: a time without a year is of the last year before, and otherwise not a time."""

    def last_time(self, text: str) -> LineTime | None:
        """Return the last time in a text that has this layout; None without any."""
        if not (found := deque(_pattern(self.text).finditer(text), maxlen=1)):
            return None
        parts: dict[str, str | None] = found[0].groupdict()
        if short := parts.get("short_year"):
            parts["year"] = f"20{short}"
        if parts.get("year") is not None:
            return time_of(parts)
        return None if self.not_after is None else _last_before(self.not_after + _ONE_DAY, parts)


def time_in(text: str, layout: Layout | None) -> LineTime | None:
    """Return the last time in a text: one of this layout, or else one with a date that has one meaning."""
    text = text[-_SEARCHED:]
    return (layout.last_time(text) if layout else None) or last_time(text)


def check_layout(text: str) -> None:
    """Check that a text is a layout. Raises ValueError (it is none: with the reason, to follow on the text)."""
    used = [name for name, _, _ in _DIRECTIVE.findall(text.replace("%%", ""))]
    if unknown := next((name for name in used if name and name not in _DIRECTIVES), None):
        raise ValueError(f"%{unknown} is not one of %{' %'.join(_DIRECTIVES)} and %%")
    if text.replace("%%", "").endswith("%"):
        raise ValueError("a % at the end: write %% for that character")
    for part, ways in _NEEDED:
        if not any(set(way) <= set(used) for way in ways):
            raise ValueError(f"it lacks {part}")
    try:
        _pattern(text)
    except re.error:
        raise ValueError("it says one part of a time twice") from None


def reads_as_kafka(layout: Layout | None) -> bool:
    """Return whether a time as Kafka's own configuration writes it means the same with this layout as without."""
    return layout is None or time_in(_KAFKAS, layout) == last_time(_KAFKAS)


def layouts_for(line: str) -> list[str]:
    """Return layouts that a line may have whose time has no meaning without one: two if day and month are unclear."""
    for mark, clock in product((" ", "T", ":", ", ", "_"), _CLOCK_LAYOUTS):
        layouts = [f"{day}{mark}{clock}" for day in _DATE_LAYOUTS]
        times = [Layout(layout, _END).last_time(line) for layout in layouts]
        fitting = [layout for layout, found in zip(layouts, times, strict=True) if found and found.time]
        if fitting:  # a later clock may fit, too, without the half of the day
            return fitting[:2]
    return []


@cache
def _pattern(text: str) -> re.Pattern[str]:
    text = text.strip().replace("%%", "\0")
    parts = [_part(text, found) for found in _DIRECTIVE.finditer(text)]
    zone = "" if "%z" in text else _ZONE
    return re.compile(r"(?<![\w/.-])" + "".join(parts) + r"(?!:?\d)" + zone, re.ASCII)


def _part(text: str, found: re.Match[str]) -> str:
    """Return one part of a layout as a pattern. Numbers that nothing parts have all their digits."""
    name, blank, literal = found.groups()
    if name == "S" and "%f" not in text:
        return rf"{_DIRECTIVES[name]}(?:[.,]{_FRACTION})?"
    if name and "%" in (text[: found.start()][-2:-1], text[found.end() :][:1]):
        return _DIRECTIVES[name].replace(r"\d\d?", r"\d\d").replace(r"\d{1,3}", r"\d{3}")
    return _DIRECTIVES[name] if name else r"\s++" if blank else re.escape(literal.replace("\0", "%"))


def _last_before(latest: datetime, parts: Mapping[str, str | None]) -> LineTime:
    """Return the time of parts without a year in the last year in which it was there."""
    for year in range(latest.year, latest.year - _LEAP_YEARS - 1, -1):
        made = time_of({**parts, "year": str(year)})
        if made is not None and made.time is not None and made.time <= latest:
            return made
    return LineTime(None, in_utc=False)
