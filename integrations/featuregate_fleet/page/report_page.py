"""The report as one HTML page: no script, nothing to load, readable on paper. A report in, text out, by templates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.catalog import api_key, api_name
from featuregate_fleet.page.charts import coverage_chart, usage_by_software, usage_chart
from featuregate_fleet.page.rendering import ENVIRONMENT
from featuregate_fleet.page.timelines import (
    levels_chart,
    recent_usage,
    software_over_time,
    versions_over_time,
)
from featuregate_fleet.readiness.moves import Deprecate, Finalize
from featuregate_fleet.readiness.rows import APP_GATES, Row, Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.api_ranges import Served, ServedApis
    from featuregate_fleet.readiness.evidence import UsageAt
    from featuregate_fleet.readiness.report import Report

_Chart = tuple[str, "Callable[[], str]"]
"""The name of some software, and what draws its chart."""
MOST_BYTES: Final = 300_000
"""The size of a page that goes into a mail."""


class _Limits(NamedTuple):
    """How much of a report a page shows."""

    rows: int
    """Rows of each table."""
    charts: int
    brokers: int


_LIMITS: Final = (_Limits(200, 24, 40), _Limits(100, 12, 40), _Limits(50, 6, 20), _Limits(15, 3, 10))
"""From the most to the least: the names in a report may be long, and each may need escapes."""

_MOST_APIS: Final = 8
_ANY: Final = 2**15
"""The highest version where nothing bounds it."""
_WINDOW: Final = timedelta(days=30)


def to_html(report: Report, cluster: str) -> str:
    """Return the page. Text from the network is escaped; long lists end with a line that says how much is left out."""
    facts = _facts(report, cluster)
    pages = (_page(report, facts, limits) for limits in _LIMITS)
    return next((page for page in pages if len(page.encode()) < MOST_BYTES), _page(report, facts, _LIMITS[-1]))


def _page(report: Report, facts: dict[str, Any], limits: _Limits) -> str:
    logs, known = report.evidence.brokers, report.evidence.brokers_known
    fewest = sorted(known, key=lambda broker: logs[broker].hours if broker in logs else 0)[: limits.brokers]
    brokers = sorted(fewest, key=lambda broker: (len(broker), broker))
    coverage = coverage_chart(brokers, report.evidence, report.now) if brokers else ""
    return ENVIRONMENT.get_template("report.html").render(
        facts, report=report, limits=limits, brokers=brokers, coverage=coverage
    )


def _facts(report: Report, cluster: str) -> dict[str, Any]:
    """Return what every page shows, however much of it. Charts are drawn when they are shown."""
    move, evidence, rows = report.move, report.evidence, report.rows
    usage = _usage(report, move.apis) if move.apis else []
    recent = recent_usage(evidence, report.now - _WINDOW)
    used_with = move.used_with if isinstance(move, Finalize | Deprecate) else None
    return {
        "title": f"{cluster} {move.title}",
        "apis": move.apis,
        "counts": Counter(row.verdict for row in rows),
        "movers": _movers(rows, move.apis),
        "gates": [row for row in rows if row.check == APP_GATES and row.app],
        "usage": usage,
        "over_time": None if used_with == {} else _over_time(report, recent),
        "used_with": used_with and ", ".join(f"{api_name(key)} from {n} on" for key, n in sorted(used_with.items())),
        "recent": recent,
        "levels": levels_chart(evidence.levels, report.now) if any(one.level for one in evidence.levels) else "",
        "others": [row for row in rows if row.verdict is not Verdict.BLOCK and row.check != APP_GATES],
        "version": evidence.version,
    }


def _usage(report: Report, apis: ServedApis) -> list[_Chart]:
    return [(software, partial(usage_chart, uses, apis)) for software, uses in usage_by_software(report.evidence, apis)]


def _over_time(report: Report, recent: Sequence[UsageAt]) -> list[_Chart]:
    start = min((used.at for used in recent), default=report.now)
    found = versions_over_time(report.move, recent)
    return [(software, partial(software_over_time, rows, start, report.now)) for software, rows in found]


class _Mover(NamedTuple):
    """A client that the move breaks, with all that was found of it."""

    subject: str
    software: str | None
    reasons: list[str]
    requests: int
    last_seen: datetime | None


def _movers(rows: Iterable[Row], apis: ServedApis | None) -> list[_Mover]:
    blocking = (row for row in rows if row.verdict is Verdict.BLOCK)
    clients: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in sorted(blocking, key=lambda row: (-row.count, row.subject, row.software or "")):
        clients[row.check, row.subject, row.software or ""].append(row)
    return [
        _Mover(
            found[0].subject,
            found[0].software,
            _reasons(found, apis),
            sum(row.count for row in found),
            max((row.last_seen for row in found if row.last_seen), default=None),
        )
        for found in clients.values()
    ]


def _reasons(found: Sequence[Row], apis: ServedApis | None) -> list[str]:
    """Say in a few words which versions a client uses, and which are served; other findings in full."""
    if apis is None or found[0].check != "api-versions":
        return [f"{row.said} {row.do}" for row in found]
    texts = []
    for row in found[:_MOST_APIS]:
        has = _served(apis, row.api)
        served = "not served" if has is None else f"{has} served" if has.highest < _ANY else f"{has.lowest} on served"
        dropped = f", dropped in {row.stop_serving_release}" if row.stop_serving_release else ""
        texts.append(f"{row.api} {', '.join(map(str, row.versions))} ({served}{dropped})")
    more = [f"{len(found) - _MOST_APIS} more"] if len(found) > _MOST_APIS else []
    from_hosts = max(found, key=lambda row: row.host_count).from_hosts
    return [". ".join(filter(None, [", ".join([*texts, *more]), from_hosts]))]


def _served(apis: ServedApis, name: str | None) -> Served | None:
    """Return what is served of an API."""
    return None if name is None else apis.served(api_key(name))
