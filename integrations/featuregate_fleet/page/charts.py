"""The charts of the page, as SVG: a row for each name, with API versions or with time from left to right. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_name, level_name
from featuregate.printable import shown
from featuregate_fleet.readiness.api_ranges import ServedApis, is_internal
from featuregate_fleet.readiness.hours import hour_of, lost_hours
from featuregate_fleet.readiness.moves import Deprecate, Finalize, Move

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, LevelAt, UsageAt

_ROW: Final = 18
"""The height of a row in units of the SVG. All lengths are in these units."""
_LETTER: Final = 8
"""The width of a letter, about."""
_VERSION: Final = 13
_NEWEST: Final = 24
"""Newer versions share the last column: no release has them."""
_SHADES: Final = 4
_DAY: Final = timedelta(days=1)
_WINDOW: Final = timedelta(days=30)
_BUCKETS: Final = 96
_BUCKET_HOURS: Final = (1, 2, 3, 4, 6, 12, 24)
_MOST_LOST: Final = 7
_MOST_SERVED: Final = 5
_MOST_LEVELS: Final = 24

_Uses = dict[int, dict[int, int]]
"""Requests by API and version."""


class _Rows(NamedTuple):
    label: int
    """The width of the names."""
    width: int
    """The width of what is behind them."""

    def chart(self, rows: Sequence[str], label: str, top: str, kind: str = "") -> str:
        """Return a chart of some rows below a line that says what is where."""
        box = f"0 0 {self.label + self.width} {_ROW * (len(rows) + 1)}"
        head = f'<svg{kind} viewBox="{box}" role="img" aria-label="{escape(label)}">'
        return f"{head}{top}{''.join(rows)}</svg>"

    def over_time(self, rows: Sequence[str], label: str, start: datetime, end: datetime) -> str:
        """Return a chart of some rows below the line with its first and its last time."""
        ends = (
            f'<text class="tick first" x="{self.label}" y="12">{start:%d %b %H:%M}</text>'
            f'<text class="tick last" x="{self.label + self.width}" y="12">{end:%d %b %H:%M} UTC</text>'
        )
        return self.chart(rows, label, ends, ' class="hours"')

    def name(self, top: int, name: str, *, lost: bool = False) -> str:
        """Draw the name of a row."""
        spot = f'x="{self.label - 8}" y="{top + 13}"'
        return f'<text class="{"api lost" if lost else "api"}" {spot}>{escape(name)}</text>'

    def empty(self, top: int, name: str, *, lost: bool = False) -> str:
        """Draw a name, and a row without a cell."""
        gap = f'<rect class="gap" x="{self.label}" y="{top + 2}" width="{self.width}" height="{_ROW - 4}"/>'
        return self.name(top, name, lost=lost) + gap

    def cells(self, top: int, counts: Iterable[tuple[int, int]], columns: int, most: int, kind: str = "shade") -> str:
        """Draw a cell for each column with a count; the shade is that of the count."""
        shades: defaultdict[int, list[int]] = defaultdict(list)
        for column, count in counts:
            if count:
                shades[max(1, math.ceil(_SHADES * _share(count, most)))].append(column)
        cell = self.width / columns
        shape = f"h{cell:.3g}v{_ROW - 4}h-{cell:.3g}z"
        return "".join(
            self.path(f"{kind}{shade}", found, cell, f" {top + 2}{shape}") for shade, found in sorted(shades.items())
        )

    def path(self, kind: str, columns: Sequence[int], cell: float, shape: str) -> str:
        """Draw the same shape in some columns."""
        places = "".join(f"M{self.label + column * cell:.5g}{shape}" for column in columns)
        return f'<path class="{kind}" d="{places}"/>' if columns else ""


_VERSIONS: Final = _Rows(label=168, width=(_NEWEST + 2) * _VERSION)
_HOURS: Final = _Rows(label=84, width=672)
_DAYS: Final = _Rows(label=200, width=560)


def _share(count: int, most: int) -> float:
    """Return a share on a logarithmic scale, so that one request is visible next to a million."""
    return math.log1p(count) / math.log1p(most) if count else 0.0


# ---------------------------------------------------------------- API versions


def usage_by_software(evidence: Evidence, apis: ServedApis) -> list[tuple[str, _Uses]]:
    """Return how often each software used each version: software that uses what is not served then comes first."""
    found: defaultdict[str, _Uses] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    said: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # clients do not say it on each connection
    for usage in evidence.usage:
        if usage.software:
            said[usage.names].add(usage.software)
    for usage in evidence.completed:
        if not is_internal(usage.api_key) and not usage.forwarded:
            named = said[usage.names] if len(said[usage.names]) == 1 else {"software without a name"}
            found[usage.software or min(named)][usage.api_key][usage.version] += usage.count

    def order(item: tuple[str, _Uses]) -> tuple[int, int, str]:
        counts = [(apis.lacks(key, version), count) for key, of in item[1].items() for version, count in of.items()]
        return -sum(count for lost, count in counts if lost), -sum(count for _, count in counts), item[0]

    return sorted(found.items(), key=order)


def usage_chart(uses: _Uses, apis: ServedApis) -> str:
    """Draw a row for each API, with a bar for each version; a band marks the versions that are served."""
    keys = sorted(uses, key=lambda key: (not any(apis.lacks(key, version) for version in uses[key]), api_name(key)))
    most = max(count for of_api in uses.values() for count in of_api.values())
    ticks = "".join(
        f'<text class="tick" x="{_column(version) + _VERSION / 2:g}" y="12">{version}</text>'
        for version in range(0, _NEWEST + 1, 4)
    )
    rows = [_api_row(_ROW * number, key, uses[key], apis, most) for number, key in enumerate(keys, 1)]
    said = "; ".join(f"{api_name(key)} {', '.join(map(str, sorted(uses[key])))}" for key in keys)
    return _VERSIONS.chart(rows, f"Versions in use: {said}.", ticks)


def _api_row(top: int, key: int, versions: Mapping[int, int], apis: ServedApis, most: int) -> str:
    has = apis.served(key)
    parts = [_VERSIONS.name(top, api_name(key), lost=any(apis.lacks(key, version) for version in versions))]
    if has is not None:
        left, right = _column(has.lowest), _column(has.highest) + _VERSION
        parts.append(f'<rect class="band" x="{left}" y="{top + 1}" width="{right - left}" height="{_ROW - 2}"/>')
    for version, count in sorted(versions.items()):
        tall = round(4 + (_ROW - 6) * _share(count, most))
        kind = "lost" if apis.lacks(key, version) else "used"
        place = f'x="{_column(version) + 2}" y="{top + _ROW - 1 - tall}" width="{_VERSION - 4}" height="{tall}"'
        parts.append(f'<rect class="{kind}" {place}><title>{version}: {count:,}</title></rect>')
    return "".join(parts)


def _column(version: int) -> int:
    return _VERSIONS.label + min(version, _NEWEST + 1) * _VERSION


# ---------------------------------------------------------------- coverage


def coverage_chart(brokers: Sequence[str], evidence: Evidence, now: datetime) -> str:
    """Draw a row for each broker and a cell for each span of hours, up to now, 30 days at most.

    A cell of half the height has deprecated requests alone, and a stroke marks hours whose lines are lost.
    """
    partly = {broker: evidence.deprecated.get(broker, {}) for broker in brokers}
    lost = {broker: dict.fromkeys(lost_hours(evidence, broker), 1) for broker in brokers}
    known = (evidence.hourly, partly, lost)
    hours = [hour for of in known for broker in brokers for hour in of.get(broker, ()) if hour >= now - _WINDOW]
    start = hour_of(min([*hours, now]))
    span = max(1, math.ceil((now - start) / timedelta(hours=1)))
    size = next((size for size in _BUCKET_HOURS if span <= size * _BUCKETS), _BUCKET_HOURS[-1])
    columns = math.ceil(span / size)
    counted, deprecated, missing = (
        {broker: _buckets(of.get(broker, {}), start, size, columns) for broker in brokers} for of in known
    )
    most = max((count for of_broker in counted.values() for count in of_broker), default=0)
    cell = _HOURS.width / columns
    rows = []
    for number, broker in enumerate(brokers, 1):
        top = _ROW * number
        half = [column for column, count in enumerate(deprecated[broker]) if count and not counted[broker][column]]
        strokes = [column for column, count in enumerate(missing[broker]) if count]
        rows += [
            _HOURS.empty(top, f"broker {shown(broker)}")
            + _HOURS.cells(top, enumerate(counted[broker]), columns, most)
            + _HOURS.path("shade2", half, cell, f" {top + 9}h{cell:.3g}v{_ROW - 11}h-{cell:.3g}z")
            + _HOURS.path("missing", strokes, cell, f" {top + _ROW - 2}l{cell:.3g}-{_ROW - 4}")
        ]
    unit = "an hour" if size == 1 else f"{size} hours"
    label = f"Requests in the logs of {len(brokers)} brokers; a cell is {unit}. The table below has the numbers."
    return _HOURS.over_time(rows, label, start, now)


def _buckets(of_broker: Mapping[datetime, int], start: datetime, size: int, columns: int) -> list[int]:
    """Add up the hours of each bucket. The clock of a broker may be ahead: such hours count in the last bucket."""
    counts = [0] * columns
    for hour, count in of_broker.items():
        if hour >= start:
            counts[min((hour - start) // timedelta(hours=size), columns - 1)] += count
    return counts


# ---------------------------------------------------------------- what changes over time


class _Row(NamedTuple):
    api: str
    version: int
    lost: bool
    """Whether the version is not served after the move."""
    counts: defaultdict[datetime, int]

    @property
    def name(self) -> str:
        return f"{self.api} {self.version}"

    @property
    def requests(self) -> int:
        return sum(self.counts.values())


def recent_usage(evidence: Evidence, earliest: datetime) -> list[UsageAt]:
    """Return what clients used since ``earliest``."""
    return [used for used in evidence.over_time if used.at >= earliest and not is_internal(used.api_key)]


def versions_over_time(move: Move, recent: Iterable[UsageAt]) -> list[tuple[str, list[_Row]]]:
    """Return for each software the versions that it used of the APIs that a move concerns, and when.

    These are the APIs of which brokers do not serve all versions that are in use then, or not the oldest ones; for a
    level those by which clients use its feature. Software that uses what is not served comes first, and so do such
    versions.
    """
    recent, apis = tuple(recent), move.apis
    if isinstance(move, Finalize | Deprecate):
        concerned = set(move.used_with)
    else:
        concerned = {used.api_key for used in recent if _loses(move.apis, used)}
    found: defaultdict[str, dict[tuple[int, int], _Row]] = defaultdict(dict)
    for used in recent:
        key, version, name = used.api_key, used.version, used.software or "software without a name"
        if key in concerned:
            lost = apis is not None and apis.lacks(key, version)
            row = found[name].setdefault((key, version), _Row(api_name(key), version, lost, defaultdict(int)))
            row.counts[used.at] += used.requests
    rows = [(name, list(of_name.values())) for name, of_name in found.items()]
    return sorted(
        rows, key=lambda one: (-sum(row.requests for row in one[1] if row.lost), -sum(row.requests for row in one[1]))
    )


def _loses(apis: ServedApis, used: UsageAt) -> bool:
    has = apis.served(used.api_key)
    return has is None or has.lowest > 0 or used.version > has.highest


def software_over_time(rows: Sequence[_Row], start: datetime, end: datetime) -> str:
    """Draw a row for each of the versions that were used most, with a cell for each day."""
    order = sorted(rows, key=lambda row: (-row.requests, row.name))
    lost, served = [row for row in order if row.lost], [row for row in order if not row.lost]
    shown_rows = [*lost[:_MOST_LOST], *sorted(served[:_MOST_SERVED], key=attrgetter("api", "version"))]
    columns = max(1, math.ceil((end - start) / _DAY))
    most = max((count for row in shown_rows for count in row.counts.values()), default=1)
    drawn = []
    for number, row in enumerate(shown_rows, 1):
        found = (((at - start) // _DAY, count) for at, count in row.counts.items())
        cells = [(min(max(0, column), columns - 1), count) for column, count in found]
        kind = "late" if row.lost else "shade"
        drawn.append(
            _DAYS.empty(_ROW * number, row.name, lost=row.lost) + _DAYS.cells(_ROW * number, cells, columns, most, kind)
        )
    left_out = f", and {len(rows) - len(shown_rows)} more" if len(rows) > len(shown_rows) else ""
    said = ", ".join(
        f"{row.name}{' (refused after the move)' if row.lost else ''} until {max(row.counts):%Y-%m-%d}"
        for row in shown_rows
    )
    return _DAYS.over_time(drawn, f"Versions in use: {said}{left_out}.", start, end)


def levels_chart(levels: Iterable[LevelAt], now: datetime) -> str:
    """Draw a row for each feature, with its finalized level from when it was first seen on."""
    by_feature: defaultdict[str, list[LevelAt]] = defaultdict(list)
    for one in levels:
        if not by_feature[one.feature] or by_feature[one.feature][-1].level != one.level:
            by_feature[one.feature].append(one)
    changed = {name: of[-_MOST_LEVELS:] for name, of in sorted(by_feature.items()) if any(one.level for one in of)}
    start = min((one.at for of in changed.values() for one in of), default=now)
    right, whole = _DAYS.label + _DAYS.width, max((now - start).total_seconds(), 1.0)
    rows = []
    for number, (name, of) in enumerate(changed.items(), 1):
        top = _ROW * number
        parts = [_DAYS.empty(top, name)]
        for place, one in enumerate(of):
            left = _DAYS.label + _DAYS.width * (one.at - start).total_seconds() / whole
            box = f'x="{left:.5g}" y="{top + 1}" width="{right - left:.5g}" height="{_ROW - 2}"'
            spot = f'x="{min(left + 4, right - _LETTER * len(_level(one))):.5g}" y="{top + 13}"'
            parts.append(f'<rect class="{"odd" if place % 2 else "even"}" {box}/>')
            parts.append(f'<text class="level" {spot}>{escape(_level(one))}</text>')
        rows.append("".join(parts))
    said = "; ".join(f"{name} {', '.join(map(_level, of))}" for name, of in changed.items())
    return _DAYS.over_time(rows, f"Finalized levels: {said}.", start, now)


def _level(one: LevelAt) -> str:
    if one.level is None:
        return "unknown"
    return level_name(one.feature, one.level) if one.level else "0"
