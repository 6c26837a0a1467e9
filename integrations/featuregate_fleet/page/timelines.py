"""What changes over time, as SVG: the versions of the APIs that a move concerns, and finalized levels. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_name, level_name
from featuregate_fleet.page.rows_over_time import ROW, RowsOverTime
from featuregate_fleet.readiness.api_ranges import ServedApis, is_internal
from featuregate_fleet.readiness.moves import Deprecate, Finalize, Move

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, LevelAt, UsageAt

_ROWS: Final = RowsOverTime(label=200, width=560)
_LETTER: Final = 8
"""The width of a letter, about."""
_MOST_LOST: Final = 7
_MOST_SERVED: Final = 5
_MOST_LEVELS: Final = 24
_DAY: Final = timedelta(days=1)


class _Row(NamedTuple):
    api: str
    version: int
    lost: bool
    """Whether the version is not served after the move."""
    counts: Mapping[datetime, int]

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
    found: defaultdict[str, defaultdict[tuple[int, int], defaultdict[datetime, int]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(int))
    )
    for used in recent:
        if used.api_key in concerned:
            found[used.software][used.api_key, used.version][used.at] += used.requests
    return sorted(
        (
            (software or "software without a name", [_row(apis, *found_in) for found_in in versions.items()])
            for software, versions in found.items()
        ),
        key=lambda item: (-sum(row.requests for row in item[1] if row.lost), -sum(row.requests for row in item[1])),
    )


def _loses(apis: ServedApis, used: UsageAt) -> bool:
    has = apis.served(used.api_key)
    return has is None or has.lowest > 0 or used.version > has.highest


def _row(apis: ServedApis | None, used: tuple[int, int], counts: Mapping[datetime, int]) -> _Row:
    key, version = used
    return _Row(api_name(key), version, apis is not None and apis.lacks(key, version), counts)


def software_over_time(rows: Sequence[_Row], start: datetime, end: datetime) -> str:
    """Draw a row for each of the versions that were used most, with a cell for each day."""
    order = sorted(rows, key=lambda row: (-row.requests, row.name))
    lost, served = [row for row in order if row.lost], [row for row in order if not row.lost]
    shown = [*lost[:_MOST_LOST], *sorted(served[:_MOST_SERVED], key=attrgetter("api", "version"))]
    columns = max(1, math.ceil((end - start) / _DAY))
    most = max((count for row in shown for count in row.counts.values()), default=1)
    parts = []
    for number, row in enumerate(shown, 1):
        top = ROW * number
        found = (((at - start) // _DAY, count) for at, count in row.counts.items())
        cells = [(min(max(0, column), columns - 1), count) for column, count in found]
        parts.append(_ROWS.empty_row(top, escape(row.name), lost=row.lost))
        parts.append(_ROWS.cells(top, cells, columns, most, "late" if row.lost else "shade"))
    left_out = f", and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
    said = ", ".join(
        f"{row.name}{' (refused after the move)' if row.lost else ''} until {max(row.counts):%Y-%m-%d}" for row in shown
    )
    return _ROWS.chart(len(shown), f"Versions in use: {said}{left_out}.", start, end, parts)


def levels_chart(levels: Iterable[LevelAt], now: datetime) -> str:
    """Draw a row for each feature, with its finalized level from when it was first seen on."""
    by_feature: defaultdict[str, list[LevelAt]] = defaultdict(list)
    for one in levels:
        if not by_feature[one.feature] or by_feature[one.feature][-1].level != one.level:
            by_feature[one.feature].append(one)
    changed = {name: of[-_MOST_LEVELS:] for name, of in sorted(by_feature.items()) if any(one.level for one in of)}
    start = min((one.at for of in changed.values() for one in of), default=now)
    right = _ROWS.label + _ROWS.width
    whole = max((now - start).total_seconds(), 1.0)
    parts = []
    for number, (name, of) in enumerate(changed.items(), 1):
        top = ROW * number
        parts.append(_ROWS.empty_row(top, escape(name)))
        for place, one in enumerate(of):
            left = _ROWS.label + _ROWS.width * (one.at - start).total_seconds() / whole
            kind = "odd" if place % 2 else "even"
            box = f'x="{left:.5g}" y="{top + 1}" width="{right - left:.5g}" height="{ROW - 2}"'
            name_of_level = _level(one)
            spot = f'x="{min(left + 4, right - _LETTER * len(name_of_level)):.5g}" y="{top + 13}"'
            text = f'<text class="level" {spot}>{escape(name_of_level)}</text>'
            parts.append(f'<rect class="{kind}" {box}/>{text}')
    said = "; ".join(f"{name} {', '.join(_level(one) for one in of)}" for name, of in changed.items())
    return _ROWS.chart(len(changed), f"Finalized levels: {said}.", start, now, parts)


def _level(one: LevelAt) -> str:
    if one.level is None:
        return "unknown"
    return level_name(one.feature, one.level) if one.level else "0"
