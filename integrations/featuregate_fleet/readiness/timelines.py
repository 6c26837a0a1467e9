"""What changes over time, as SVG: API versions that are not served after a move, and finalized levels. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_name, level_name
from featuregate_fleet.readiness.api_ranges import is_internal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from featuregate_fleet.readiness.api_ranges import ServedApis
    from featuregate_fleet.readiness.evidence import Evidence, LevelAt

__all__ = ["levels_chart", "lost_over_time", "software_over_time"]

_ROW: Final = 18
"""The height of a row in units of the SVG. All lengths below are in these units."""
_LABEL: Final = 200
_WIDTH: Final = 560
_LETTER: Final = 8
"""The width of a letter, about."""
_SHADES: Final = 4
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
    cell = _WIDTH / columns
    most = max((count for row in shown for count in row.counts.values()), default=1)
    parts = [_ends(start, end)]
    for number, row in enumerate(shown, 1):
        top = _ROW * number
        shades: defaultdict[int, list[str]] = defaultdict(list)
        for at, count in row.counts.items():
            column = min(max(0, (at - start) // step), columns - 1)
            shade = max(1, math.ceil(_SHADES * math.log1p(count) / math.log1p(most)))
            shades[shade].append(f"M{_LABEL + column * cell:.5g} {top + 2}h{cell:.3g}v{_ROW - 4}h-{cell:.3g}z")
        parts.append(_name(top, row.name, lost=row.lost) + _gap(top))
        kind = "late" if row.lost else "shade"
        parts += [f'<path class="{kind}{shade}" d="{"".join(paths)}"/>' for shade, paths in sorted(shades.items())]
    left_out = f" and {len(lost) - _MOST_ROWS} more" if len(lost) > _MOST_ROWS else ""
    said = ", ".join(f"{row.name} until {max(row.counts):%Y-%m-%d %H:%M}" for row in shown if row.lost)
    return _svg(len(shown) + 1, f"Versions that are not served: {said}{left_out}.", parts)


def levels_chart(levels: Iterable[LevelAt], now: datetime) -> str:
    """Draw a row for each feature, with its finalized level from when it was first seen on."""
    by_feature: defaultdict[str, list[LevelAt]] = defaultdict(list)
    for one in levels:
        if not by_feature[one.feature] or by_feature[one.feature][-1].level != one.level:
            by_feature[one.feature].append(one)
    changed = {name: of[-_MOST_LEVELS:] for name, of in sorted(by_feature.items()) if any(one.level for one in of)}
    start = min((one.at for of in changed.values() for one in of), default=now)
    whole = max((now - start).total_seconds(), 1.0)
    parts = [_ends(start, now)]
    for number, (name, of) in enumerate(changed.items(), 1):
        top = _ROW * number
        parts.append(_name(top, name, lost=False) + _gap(top))
        for place, one in enumerate(of):
            left = _LABEL + _WIDTH * (one.at - start).total_seconds() / whole
            kind = "odd" if place % 2 else "even"
            box = f'x="{left:.5g}" y="{top + 1}" width="{_LABEL + _WIDTH - left:.5g}" height="{_ROW - 2}"'
            name_of_level = _level(one)
            spot = f'x="{min(left + 4, _LABEL + _WIDTH - _LETTER * len(name_of_level)):.5g}" y="{top + 13}"'
            text = f'<text class="level" {spot}>{escape(name_of_level)}</text>'
            parts.append(f'<rect class="{kind}" {box}/>{text}')
    said = "; ".join(f"{name} {', '.join(_level(one) for one in of)}" for name, of in changed.items())
    return _svg(len(changed) + 1, f"Finalized levels: {said}.", parts)


def _level(one: LevelAt) -> str:
    if one.level is None:
        return "unknown"
    return level_name(one.feature, one.level) if one.level else "0"


def _svg(rows: int, label: str, parts: Iterable[str]) -> str:
    box = f"0 0 {_LABEL + _WIDTH} {_ROW * rows}"
    return f'<svg class="hours" viewBox="{box}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _name(top: int, name: str, *, lost: bool) -> str:
    return f'<text class="{"api lost" if lost else "api"}" x="{_LABEL - 8}" y="{top + 13}">{escape(name)}</text>'


def _gap(top: int) -> str:
    return f'<rect class="gap" x="{_LABEL}" y="{top + 2}" width="{_WIDTH}" height="{_ROW - 4}"/>'


def _ends(start: datetime, end: datetime) -> str:
    return (
        f'<text class="tick first" x="{_LABEL}" y="12">{start:%d %b %H:%M}</text>'
        f'<text class="tick last" x="{_LABEL + _WIDTH}" y="12">{end:%d %b %H:%M} UTC</text>'
    )
