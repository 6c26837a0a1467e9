"""Times in a layout that the operator names, such as ``%d-%m-%Y %H:%M:%S``, as Python's strptime spells it. Pure.

A layout says what a line alone does not: which number is the day, or which year it was.
"""

from __future__ import annotations

import re
from collections import deque
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.evidence.lines.times import SEARCHED, ZONE, LineTime, last_time, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_FRACTION: Final = r"(?P<fraction>\d{1,9})(?!\d)"
_DIRECTIVES: Final = {
    "Y": r"(?P<year>20\d\d)",
    "y": r"(?P<short_year>\d\d)",
    "m": r"(?P<month>\d\d?)",
    "b": r"(?P<name>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[A-Za-z]{0,6}",
    "d": r"(?P<day>\d\d?)",
    "j": r"(?P<day_of_year>\d{1,3})",
    "H": r"(?P<hour>\d\d?)",
    "I": r"(?P<hour>\d\d?)",
    "M": r"(?P<minute>\d\d)",
    "S": r"(?P<second>\d\d)",
    "f": _FRACTION,
    "p": r"(?P<half>[AaPp])\.?[Mm]\b",
    "z": ZONE,
}
_NEEDED: Final = (
    ("a day: %d with %m or %b, or %j", ("dm", "db", "j")),
    ("an hour: %H, or %I with %p", ("H", "Ip")),
    ("minutes: %M", ("M",)),
)
_PART: Final = re.compile(r"%(.?)|(\s+)|([^%\s]+)", re.DOTALL)
_NAMES: Final = ("year", "month", "day", "name", "hour", "minute", "second", "fraction", "half", "zone")
_KAFKAS: Final = "[2026-02-01 03:04:05,678] DEBUG "
_LEAP_YEARS: Final = 8
"""Years between two 29ths of February, at most."""
_ONE_DAY: Final = timedelta(days=1)
"""A line may be of a zone that is ahead of UTC."""
_DATES: Final = (
    *(date.replace("-", mark) for mark in "/-." for date in ("%d-%m-%Y", "%m-%d-%Y")),
    *(date.replace("-", mark) for mark in "/-." for date in ("%y-%m-%d", "%d-%m-%y", "%m-%d-%y")),
    *(date.replace("-", mark) for mark in "/-." for date in ("%d-%m", "%m-%d")),
    *("%b %d", "%d %b", "%d-%b-%y", "%d/%b/%y", "%y%m%d", "%Y-%j", "%Y.%j"),
)
_CLOCKS: Final = ("%I:%M:%S %p", "%I.%M.%S %p", "%H:%M:%S", "%H%M%S", "%H.%M.%S", "%H:%M")
_CENTURY: Final = datetime(2100, 1, 1, tzinfo=UTC)


class Layout(NamedTuple):
    """How the lines of a file write their times."""

    text: str
    not_after: datetime | None = None
    """When the file was last written: a time without a year is of the last year before, and otherwise not a time."""

    def last_time(self, text: str) -> LineTime | None:
        """Return the last time in a text that has this layout; None without any."""
        if not (found := deque(_pattern(self.text).finditer(text), maxlen=1)):
            return None
        parts: dict[str, str | None] = dict.fromkeys(_NAMES) | found[0].groupdict()
        if short := parts.get("short_year"):
            parts["year"] = f"20{short}"
        if parts["year"] is not None:
            return _time(parts)
        return None if self.not_after is None else _last_before(self.not_after + _ONE_DAY, parts)


def time_in(text: str, layout: Layout | None) -> LineTime | None:
    """Return the last time in a text: one of this layout, or else one with a date that has one meaning."""
    text = text[-SEARCHED:]
    return (layout.last_time(text) if layout else None) or last_time(text)


def check_layout(text: str) -> None:
    """Check that a text is a layout.

    Raises
    ------
    ValueError
        It is none: with the reason, to follow on the text.
    """
    used = [name for name, _, _ in _PART.findall(text.replace("%%", ""))]
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
    for mark, clock in product((" ", "T", ":", ", ", "_"), _CLOCKS):
        layouts = [f"{day}{mark}{clock}" for day in _DATES]
        times = [Layout(layout, _CENTURY).last_time(line) for layout in layouts]
        fitting = [layout for layout, found in zip(layouts, times, strict=True) if found and found.time]
        if fitting:  # a later clock may fit, too, without the half of the day
            return fitting[:2]
    return []


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return a layout as a pattern, with the names that `time_of` knows."""
    text = text.strip().replace("%%", "\0")
    parts = [_part(text, found) for found in _PART.finditer(text)]
    zone = "" if "%z" in text else ZONE
    return re.compile(r"(?<![\w/.-])" + "".join(parts) + r"(?!:?\d)" + zone, re.ASCII)


def _part(text: str, found: re.Match[str]) -> str:
    """Return one part of a layout as a pattern. Numbers that nothing parts have all their digits."""
    name, blank, literal = found.groups()
    if name == "S" and "%f" not in text:
        return rf"{_DIRECTIVES[name]}(?:[.,]{_FRACTION})?"
    if name and "%" in (text[: found.start()][-2:-1], text[found.end() :][:1]):
        return _DIRECTIVES[name].replace(r"\d\d?", r"\d\d").replace(r"\d{1,3}", r"\d{3}")
    return _DIRECTIVES[name] if name else r"\s++" if blank else re.escape(literal.replace("\0", "%"))


def _time(parts: Mapping[str, str | None]) -> LineTime | None:
    """Return the time of parts with a year."""
    if (number := parts.get("day_of_year")) is not None:
        year = int(parts["year"] or 0)
        day = date(year, 1, 1) + timedelta(days=int(number) - 1)
        if day.year != year:
            return LineTime(None, in_utc=False)
        parts = {**parts, "month": str(day.month), "day": str(day.day)}
    return time_of(parts)


def _last_before(latest: datetime, parts: Mapping[str, str | None]) -> LineTime:
    """Return the time of parts without a year in the last year in which it was there."""
    for year in range(latest.year, latest.year - _LEAP_YEARS - 1, -1):
        made = _time({**parts, "year": str(year)})
        if made is not None and made.time is not None and made.time <= latest:
            return made
    return LineTime(None, in_utc=False)
