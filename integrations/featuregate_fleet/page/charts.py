"""The charts of the page, as SVG: API versions by software, and coverage by broker and hour. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Final

from featuregate.catalog import api_name
from featuregate.printable import shown
from featuregate_fleet.page.rows_over_time import ROW, RowsOverTime, row_name, share
from featuregate_fleet.readiness.api_ranges import ServedApis, is_internal
from featuregate_fleet.readiness.hours import lost_hours

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, Usage

_LABEL: Final = 168
"""In units of the SVG, as all lengths."""
_VERSION: Final = 13
_NEWEST: Final = 24
"""Newer versions share the last column: no release has them."""
_HOURS: Final = RowsOverTime(label=84, width=672)
_BUCKETS: Final = 96
_BUCKET_HOURS: Final = (1, 2, 3, 4, 6, 12, 24)
_WINDOW: Final = timedelta(days=30)

_Uses = dict[int, dict[int, int]]
"""Requests by API and version."""


# ---------------------------------------------------------------- API versions


def usage_by_software(evidence: Evidence, apis: ServedApis) -> list[tuple[str, _Uses]]:
    """Return how often each software used each version: software that uses what is not served then comes first."""
    found: defaultdict[str, _Uses] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    named = _software_of_clients(evidence)
    for usage in evidence.usage:
        if usage.outcome == "completed" and not is_internal(usage.api_key) and not usage.forwarded:
            software = usage.software or named.get(_client(usage), "") or "software without a name"
            found[software][usage.api_key][usage.version] += usage.count

    def order(item: tuple[str, _Uses]) -> tuple[int, int, str]:
        name, uses = item
        lost = sum(
            count for key, of_api in uses.items() for version, count in of_api.items() if apis.lacks(key, version)
        )
        return -lost, -sum(sum(of_api.values()) for of_api in uses.values()), name

    return sorted(found.items(), key=order)


def _client(usage: Usage) -> tuple[str | None, str | None]:
    return usage.principal, usage.client_id


def _software_of_clients(evidence: Evidence) -> Mapping[tuple[str | None, str | None], str]:
    """Return the software of clients, which do not say it on each connection; clients that said two are left out."""
    said: defaultdict[tuple[str | None, str | None], set[str]] = defaultdict(set)
    for usage in evidence.usage:
        if usage.software:
            said[_client(usage)].add(usage.software)
    return {client: next(iter(names)) for client, names in said.items() if len(names) == 1}


def usage_chart(uses: _Uses, apis: ServedApis) -> str:
    """Draw a row for each API, with a bar for each version; a band marks the versions that are served."""
    keys = sorted(uses, key=lambda key: (not any(apis.lacks(key, version) for version in uses[key]), api_name(key)))
    most = max(count for of_api in uses.values() for count in of_api.values())
    width, height = _LABEL + (_NEWEST + 2) * _VERSION, ROW * (len(keys) + 1)
    ticks = "".join(
        f'<text class="tick" x="{_column(version) + _VERSION / 2:g}" y="12">{version}</text>'
        for version in range(0, _NEWEST + 1, 4)
    )
    rows = "".join(_api_row(ROW * number, key, uses[key], apis, most) for number, key in enumerate(keys, 1))
    said = "; ".join(f"{api_name(key)} {', '.join(map(str, sorted(uses[key])))}" for key in keys)
    label = escape(f"Versions in use: {said}.")
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{ticks}{rows}</svg>'


def _api_row(top: int, key: int, versions: Mapping[int, int], apis: ServedApis, most: int) -> str:
    has = apis.served(key)
    lost = any(apis.lacks(key, version) for version in versions)
    parts = [row_name(_LABEL, top, escape(api_name(key)), lost=lost)]
    if has is not None:
        left, right = _column(has.lowest), _column(has.highest) + _VERSION
        parts.append(f'<rect class="band" x="{left}" y="{top + 1}" width="{right - left}" height="{ROW - 2}"/>')
    for version, count in sorted(versions.items()):
        tall = round(4 + (ROW - 6) * share(count, most))
        kind = "lost" if apis.lacks(key, version) else "used"
        place = f'x="{_column(version) + 2}" y="{top + ROW - 1 - tall}" width="{_VERSION - 4}" height="{tall}"'
        parts.append(f'<rect class="{kind}" {place}><title>{version}: {count:,}</title></rect>')
    return "".join(parts)


def _column(version: int) -> int:
    return _LABEL + min(version, _NEWEST + 1) * _VERSION


# ---------------------------------------------------------------- coverage


def coverage_chart(brokers: Sequence[str], evidence: Evidence, now: datetime) -> str:
    """Draw a row for each broker and a cell for each span of hours, up to now, 30 days at most.

    A cell of half the height has deprecated requests alone, and a stroke marks hours whose lines are lost.
    """
    hourly, earliest = evidence.hourly, now - _WINDOW
    partly = {broker: evidence.deprecated.get(broker, {}) for broker in brokers}
    lost = {broker: dict.fromkeys(lost_hours(evidence, broker), 1) for broker in brokers}
    known = (hourly, partly, lost)
    hours = [hour for of in known for broker in brokers for hour in of.get(broker, ()) if hour >= earliest]
    start = min([*hours, now]).replace(minute=0, second=0, microsecond=0)
    span = max(1, math.ceil((now - start) / timedelta(hours=1)))
    size = next((size for size in _BUCKET_HOURS if span <= size * _BUCKETS), _BUCKET_HOURS[-1])
    columns = math.ceil(span / size)
    counted, deprecated, missing = (
        {broker: _buckets(of.get(broker, {}), start, size, columns) for broker in brokers} for of in known
    )
    most = max((count for of_broker in counted.values() for count in of_broker), default=0)
    cell = _HOURS.width / columns
    rows = "".join(
        _HOURS.empty_row(ROW * number, f"broker {escape(shown(broker))}")
        + _HOURS.cells(ROW * number, enumerate(counted[broker]), columns, most)
        + _marks(ROW * number, counted[broker], deprecated[broker], missing[broker], cell)
        for number, broker in enumerate(brokers, 1)
    )
    unit = "an hour" if size == 1 else f"{size} hours"
    label = f"Requests in the logs of {len(brokers)} brokers; a cell is {unit}. The table below has the numbers."
    return _HOURS.chart(len(brokers), label, start, now, rows)


def _buckets(of_broker: Mapping[datetime, int], start: datetime, size: int, columns: int) -> list[int]:
    """Add up the hours of each bucket. The clock of a broker may be ahead: such hours count in the last bucket."""
    counts = [0] * columns
    for hour, count in of_broker.items():
        if hour >= start:
            counts[min((hour - start) // timedelta(hours=size), columns - 1)] += count
    return counts


def _marks(top: int, counts: Sequence[int], deprecated: Sequence[int], missing: Sequence[int], cell: float) -> str:
    """Mark cells with deprecated requests alone, and those whose lines are lost."""
    half = [number for number, count in enumerate(deprecated) if count and not counts[number]]
    partly = "".join(
        f"M{_HOURS.label + number * cell:.5g} {top + 9}h{cell:.3g}v{ROW - 11}h-{cell:.3g}z" for number in half
    )
    lost = "".join(
        f"M{_HOURS.label + number * cell:.5g} {top + ROW - 2}l{cell:.3g}-{ROW - 4}"
        for number, count in enumerate(missing)
        if count
    )
    return (f'<path class="shade2" d="{partly}"/>' if partly else "") + (
        f'<path class="missing" d="{lost}"/>' if lost else ""
    )
