"""What changes over time, as SVG: API versions that are not served after a move, and finalized levels. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_name, level_name
from featuregate_fleet.readiness.api_ranges import is_internal
from featuregate_fleet.readiness.page.rows_over_time import ROW, RowsOverTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from featuregate_fleet.readiness.api_ranges import ServedApis
    from featuregate_fleet.readiness.evidence import Evidence, LevelAt

__all__ = ["levels_chart", "lost_over_time", "software_over_time"]

_ROWS: Final = RowsOverTime(label=200, width=560)
_LETTER: Final = 8
"""The width of a letter, about."""
_SERVED: Final = "served versions"
_MOST_ROWS: Final = 7
_MOST_LEVELS: Final = 24


class _Row(NamedTuple):
    name: str
    lost: bool
    counts: Mapping[datetime, int]


def lost_over_time(evidence: Evidence, apis: ServedApis, earliest: datetime) -> list[tuple[str, list[_Row]]]:
    """Return for each software the versions that are not served after a move, and when they were used.

    What was used before ``earliest`` is left out, and software that uses none of them. The last row is what is served.
    """
    found: defaultdict[str, defaultdict[str, defaultdict[datetime, int]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(int))
    )
    for used in evidence.over_time:
        if not is_internal(used.api_key) and used.at >= earliest:
            lost = apis.lacks(used.api_key, used.version)
            name = f"{api_name(used.api_key)} {used.version}" if lost else _SERVED
            found[used.software][name][used.at] += used.requests
    return sorted(
        (
            (software or "software without a name", _rows(versions))
            for software, versions in found.items()
            if versions.keys() - {_SERVED}
        ),
        key=lambda item: -sum(sum(row.counts.values()) for row in item[1] if row.lost),
    )


def _rows(versions: Mapping[str, Mapping[datetime, int]]) -> list[_Row]:
    order = sorted(versions, key=lambda name: (name == _SERVED, -sum(versions[name].values()), name))
    return [_Row(name, name != _SERVED, versions[name]) for name in order]


def software_over_time(rows: Sequence[_Row], start: datetime, end: datetime) -> str:
    """Draw a row for each version, with a cell for each hour or day. The last row is what is served."""
    lost, served = [row for row in rows if row.lost], [row for row in rows if not row.lost]
    shown = [*lost[:_MOST_ROWS], *served]
    times = {at for row in shown for at in row.counts}
    days = all(at.hour == 0 for at in times) and end - start > timedelta(days=4)
    step = timedelta(days=1) if days else timedelta(hours=1)
    columns = max(1, math.ceil((end - start) / step))
    most = max((count for row in shown for count in row.counts.values()), default=1)
    parts = []
    for number, row in enumerate(shown, 1):
        top = ROW * number
        found = (((at - start) // step, count) for at, count in row.counts.items())
        cells = [(min(max(0, column), columns - 1), count) for column, count in found]
        parts.append(_ROWS.empty_row(top, escape(row.name), lost=row.lost))
        parts.append(_ROWS.cells(top, cells, columns, most, "late" if row.lost else "shade"))
    left_out = f" and {len(lost) - _MOST_ROWS} more" if len(lost) > _MOST_ROWS else ""
    said = ", ".join(f"{row.name} until {max(row.counts):%Y-%m-%d %H:%M}" for row in shown if row.lost)
    return _ROWS.chart(len(shown), f"Versions that are not served: {said}{left_out}.", start, end, parts)


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
