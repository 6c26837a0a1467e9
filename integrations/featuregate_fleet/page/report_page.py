"""The report as one HTML page: no script, nothing to load, readable on paper. A report in, text out, by templates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from featuregate.catalog import api_key, api_name
from featuregate.printable import shown
from featuregate_fleet.page import charts
from featuregate_fleet.readiness.moves import Deprecate, Finalize
from featuregate_fleet.readiness.rows import APP_GATES, Row, Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.api_ranges import ServedApis
    from featuregate_fleet.readiness.evidence import BrokerLog, UsageAt
    from featuregate_fleet.readiness.report import Report

_Chart = tuple[str, "Callable[[], str]"]
"""The name of some software, and what draws its chart."""
MOST_BYTES: Final = 300_000
"""The size of a page that goes into a mail."""


class _Limits(NamedTuple):
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
_MEANINGS: Final = {
    Verdict.BLOCK: "breaks with the move",
    Verdict.UNKNOWN: "evidence is missing",
    Verdict.STALE: "evidence is too old",
    Verdict.WARN: "look at it first",
    Verdict.OK: "nothing found",
}
_SUMMARIES: Final = {
    Verdict.BLOCK: "The move breaks at least one client, group or app.",
    Verdict.UNKNOWN: "No evidence blocks the move, but evidence is missing: the move may be unsafe.",
    Verdict.STALE: "The evidence is too old to say whether the move is safe.",
    Verdict.WARN: "No evidence blocks the move. Look at the warnings first.",
    Verdict.OK: "No evidence blocks the move. The evidence lacks clients that did not connect meanwhile.",
}
_SIGNS: Final = {Verdict.BLOCK: "✕", Verdict.UNKNOWN: "?", Verdict.STALE: "◷", Verdict.WARN: "!", Verdict.OK: "✓"}
"""Each verdict has a sign, because some readers do not see the colour."""
_HOUR: Final = 3600
_MINUTES: Final = 2
"""From there on a time is shown in minutes."""
_LONGEST: Final = 300
"""Characters of one text."""


def to_html(report: Report, cluster: str) -> str:
    """Return the page. Text from the network is escaped; long lists end with a line that says how much is left out."""
    facts = _facts(report, cluster)
    page = ""
    for limits in _LIMITS:
        page = _page(report, facts, limits)
        if len(page.encode()) < MOST_BYTES:
            break
    return page


def _page(report: Report, facts: dict[str, Any], limits: _Limits) -> str:
    logs, known = report.evidence.brokers, report.evidence.brokers_known
    fewest = sorted(known, key=lambda broker: logs[broker].hours if broker in logs else 0)[: limits.brokers]
    brokers = sorted(fewest, key=lambda broker: (len(broker), broker))
    coverage = charts.coverage_chart(brokers, report.evidence, report.now) if brokers else ""
    return ENVIRONMENT.get_template("report.html").render(
        facts, report=report, limits=limits, brokers=brokers, coverage=coverage
    )


def _facts(report: Report, cluster: str) -> dict[str, Any]:
    """Return what every page shows, however much of it. Charts are drawn when they are shown."""
    move, evidence, rows = report.move, report.evidence, report.rows
    usage = _usage(report, move.apis) if move.apis else []
    recent = charts.recent_usage(evidence, report.now - _WINDOW)
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
        "levels": charts.levels_chart(evidence.levels, report.now) if any(one.level for one in evidence.levels) else "",
        "others": [row for row in rows if row.verdict is not Verdict.BLOCK and row.check != APP_GATES],
        "version": evidence.version,
    }


def _usage(report: Report, apis: ServedApis) -> list[_Chart]:
    found = charts.usage_by_software(report.evidence, apis)
    return [(software, partial(charts.usage_chart, uses, apis)) for software, uses in found]


def _over_time(report: Report, recent: Sequence[UsageAt]) -> list[_Chart]:
    start = min((used.at for used in recent), default=report.now)
    found = charts.versions_over_time(report.move, recent)
    return [(software, partial(charts.software_over_time, rows, start, report.now)) for software, rows in found]


class _Mover(NamedTuple):
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
        has = None if row.api is None else apis.served(api_key(row.api))
        served = "not served" if has is None else f"{has} served" if has.highest < _ANY else f"{has.lowest} on served"
        dropped = f", dropped in {row.stop_serving_release}" if row.stop_serving_release else ""
        texts.append(f"{row.api} {', '.join(map(str, row.versions))} ({served}{dropped})")
    more = [f"{len(found) - _MOST_APIS} more"] if len(found) > _MOST_APIS else []
    from_hosts = max(found, key=lambda row: row.host_count).from_hosts
    return [". ".join(filter(None, [", ".join([*texts, *more]), from_hosts]))]


# ---------------------------------------------------------------- what templates may insert


def _minute(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M}" if when else ""


def _spent(log: BrokerLog) -> str:
    """Return for how long a broker logged: in hours, and of less than an hour in minutes or seconds."""
    seen = (log.last_seen - log.first_seen).total_seconds() if log.hours == 1 else log.hours * _HOUR
    seconds = round(seen if log.covered_seconds is None else log.covered_seconds)
    if seconds >= _HOUR:
        return f"{seconds // _HOUR:,} h"
    return f"{seconds} s" if seconds < _MINUTES * 60 else f"{seconds // 60} min"


def _plain(value: object) -> object:
    """Return what a template inserts: any text without control characters, and cut. The template escapes it."""
    return shown(value, _LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


ENVIRONMENT: Final = Environment(
    loader=PackageLoader("featuregate_fleet.page"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_plain,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters["minute"] = _minute
ENVIRONMENT.filters["spent"] = _spent
ENVIRONMENT.globals |= {"signs": _SIGNS, "meanings": _MEANINGS, "summaries": _SUMMARIES}
