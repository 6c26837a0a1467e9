"""The report as one HTML page: no script, nothing to load, readable on paper. Pure: a report in, text out."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_key, api_name
from featuregate_fleet.readiness.moves import Deprecate, Finalize
from featuregate_fleet.readiness.page.charts import coverage_chart, usage_by_software, usage_chart
from featuregate_fleet.readiness.page.elements import latest, left_out, listed, marked, minute, plain, strong, table
from featuregate_fleet.readiness.page.style import STYLE
from featuregate_fleet.readiness.page.timelines import (
    levels_chart,
    recent_usage,
    software_over_time,
    versions_over_time,
)
from featuregate_fleet.readiness.rows import APP_GATES, Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from featuregate_fleet.readiness.api_ranges import Served, ServedApis
    from featuregate_fleet.readiness.report import Report

MOST_BYTES: Final = 300_000
"""The size of a page that goes into a mail."""


class _Limits(NamedTuple):
    """How much of a report a page shows."""

    rows: int
    """Of each table."""
    charts: int
    brokers: int


_LIMITS: Final = (_Limits(200, 24, 40), _Limits(100, 12, 40), _Limits(50, 6, 20), _Limits(15, 3, 10))
"""From the most to the least: the names in a report may be long, and each may need escapes."""

_MEANINGS: Final = {
    Verdict.BLOCK: "breaks with the move",
    Verdict.UNKNOWN: "evidence is missing",
    Verdict.STALE: "evidence is too old",
    Verdict.WARN: "look at it first",
    Verdict.OK: "nothing found",
}
_MOST_APIS: Final = 8
_ANY: Final = 2**15
"""The highest version where nothing bounds it."""
_WINDOW: Final = timedelta(days=30)


def to_html(report: Report, cluster: str) -> str:
    """Return the page. Text from the network is escaped; long lists end with a line that says how much is left out."""
    pages = (_page(report, cluster, limits) for limits in _LIMITS)
    return next((page for page in pages if len(page.encode()) < MOST_BYTES), _page(report, cluster, _LIMITS[-1]))


def _page(report: Report, cluster: str, limits: _Limits) -> str:
    title = plain(f"{cluster} {report.move.title}")
    sections = (
        _cards(report),
        _movers(report, limits.rows),
        _gates(report, limits.rows),
        _usage(report, limits.charts),
        _over_time(report, limits.charts),
        _levels(report),
        _coverage(report, limits.brokers),
        _others(report, limits.rows),
        _footer(report),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}: {report.verdict}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}: {marked(report.verdict)}</h1>\n"
        f"<p>{_SUMMARIES[report.verdict]}</p>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


_SUMMARIES: Final = {
    Verdict.BLOCK: "The move breaks at least one client, group or app.",
    Verdict.UNKNOWN: "No evidence blocks the move, but evidence is missing: the move may be unsafe.",
    Verdict.STALE: "The evidence is too old to say whether the move is safe.",
    Verdict.WARN: "No evidence blocks the move. Look at the warnings first.",
    Verdict.OK: "No evidence blocks the move. The evidence lacks clients that did not connect meanwhile.",
}


def _cards(report: Report) -> str:
    counts = Counter(row.verdict for row in report.rows)
    cards = "".join(
        f'<li class="{verdict}{"" if counts[verdict] else " none"}"><b>{counts[verdict]}</b>{marked(verdict)}'
        f'<br><span class="soft">{_MEANINGS[verdict]}</span></li>'
        for verdict in _MEANINGS
    )
    return f'<h2>Findings by verdict</h2>\n<ul class="cards">{cards}</ul>'


def _movers(report: Report, most: int) -> str:
    blocking = sorted(
        (row for row in report.rows if row.verdict is Verdict.BLOCK),
        key=lambda row: (-row.count, row.subject, row.software or ""),
    )
    clients: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in blocking:
        clients[row.check, row.subject, row.software or ""].append(row)
    rows = [
        f"<td>{strong(found[0].subject)}</td>"
        f'<td data-name="Software">{plain(found[0].software) or "not said"}</td>'
        f"<td>{_reasons(found, report.move.apis)}</td>"
        f'<td class="number" data-name="Times seen">{sum(row.count for row in found):,}</td>'
        f'<td class="time" data-name="Last seen">{latest(found)}</td>'
        for found in clients.values()
    ]
    if not rows:
        return "<h2>Who must move</h2>\n<p>No evidence blocks the move.</p>"
    head = ("Who", "Software", "Why, and what to do", "#Times seen", "Last seen (UTC)")
    apis = report.move.apis
    step = f"Upgrade each client, or stop it, before the brokers {plain(apis.step)}." if apis else ""
    return f"<h2>Who must move</h2>\n<p>{step}</p>\n{table(head, rows, 'clients', most)}"


def _reasons(found: Sequence[Row], apis: ServedApis | None) -> str:
    """Say in a few words which versions a client uses, and which are served; other findings in full."""
    if apis is None or found[0].check != "api-versions":
        return listed(f"{row.said} {row.do}" for row in found)
    texts = []
    for row in found[:_MOST_APIS]:
        has = _served(apis, row.api)
        served = "not served" if has is None else f"{has} served" if has.highest < _ANY else f"{has.lowest} on served"
        dropped = f", dropped in {row.stop_serving_release}" if row.stop_serving_release else ""
        texts.append(f"{row.api} {', '.join(map(str, row.versions))} ({served}{dropped})")
    more = [f"{len(found) - _MOST_APIS} more"] if len(found) > _MOST_APIS else []
    return plain(", ".join([*texts, *more]))


def _served(apis: ServedApis, name: str | None) -> Served | None:
    """Return what is served of an API. Tables of older releases may have keys below 0, which are no API."""
    return None if name is None or name.startswith("api:-") else apis.served(api_key(name))


def _usage(report: Report, most: int) -> str:
    if (apis := report.move.apis) is None:
        return ""
    found = usage_by_software(report.evidence, apis)
    if not found:
        return "<h2>API versions by software</h2>\n<p>There is no evidence of clients.</p>"
    figures = "\n".join(
        f"<figure><h3>{plain(software)}</h3>{usage_chart(uses, apis)}</figure>" for software, uses in found[:most]
    )
    return (
        "<h2>API versions by software</h2>\n"
        "<p>A bar is a version of an API; its height is the number of requests, on a logarithmic scale."
        f'<br><span class="key" style="--c:var(--band)"></span>{plain(apis.brokers)} serves these versions'
        '<span class="key" style="--c:var(--used)"></span>used, and served'
        '<span class="key" style="--c:var(--block)"></span>used, and not served</p>\n'
        f'<div class="charts">\n{figures}\n</div>{left_out(len(found) - most, "names of software")}'
    )


def _gates(report: Report, most: int) -> str:
    rows = [
        f"<td>{strong(row.app)}</td><td>{marked(row.verdict)}</td>"
        f"<td>{strong(row.subject)}</td><td>{plain(row.said)}</td>"
        f'<td data-name="Software">{plain(row.software or "")}</td>'
        f'<td class="time" data-name="Last report">{minute(row.last_seen)}</td>'
        for row in report.rows
        if row.check == APP_GATES and row.app
    ]
    if not rows:
        return "<h2>Gates of apps</h2>\n<p>No app reported its gates.</p>"
    head = ("App", "Verdict", "Gate", "What becomes of it", "Software", "Last report (UTC)")
    return f"<h2>Gates of apps</h2>\n{table(head, rows, 'gates', most)}"


def _over_time(report: Report, most: int) -> str:
    move, recent = report.move, recent_usage(report.evidence, report.now - _WINDOW)
    if isinstance(move, Finalize | Deprecate):
        if not move.used_with:
            return ""
        names = ", ".join(f"{api_name(key)} from {version} on" for key, version in sorted(move.used_with.items()))
        what = f"Clients use {plain(move.feature)} by {names}."
    else:
        what = (
            f"APIs of which {plain(move.apis.brokers)} does not serve all versions."
            '<span class="key" style="--c:var(--s3)"></span>served'
            '<span class="key" style="--c:var(--block)"></span>not served then'
        )
    found = versions_over_time(move, recent)
    if not found:
        seen = "of these APIs was seen" if recent else "over time is in the tables"
        return f"<h2>API versions over time</h2>\n<p>{what} No request {seen}.</p>"
    start = min(used.at for used in recent)
    figures = "\n".join(
        f'<figure tabindex="0"><h3>{plain(software)}</h3>{software_over_time(rows, start, report.now)}</figure>'
        for software, rows in found[:most]
    )
    return (
        "<h2>API versions over time</h2>\n"
        f"<p>{what}<br>A cell is an hour or a day in which the software used the version: few to many requests by "
        "shade.</p>\n"
        f'<div class="times">\n{figures}\n</div>{left_out(len(found) - most, "names of software")}'
    )


def _levels(report: Report) -> str:
    if not any(one.level for one in report.evidence.levels):
        return ""
    chart = levels_chart(report.evidence.levels, report.now)
    return (
        "<h2>Finalized levels over time</h2>\n<p>As the brokers reported them.</p>\n"
        f'<div class="wide" tabindex="0" role="region" aria-label="Finalized levels over time">{chart}</div>'
    )


def _coverage(report: Report, most: int) -> str:
    evidence = report.evidence
    logs = evidence.brokers
    brokers = sorted(evidence.brokers_known, key=lambda broker: logs[broker].hours if broker in logs else 0)
    if not brokers:
        return "<h2>Coverage</h2>\n<p>There is no evidence of this cluster.</p>"
    shown = sorted(brokers[:most], key=lambda broker: (len(broker), broker))
    rows = [
        f"<td>{strong(f'broker {broker}')}</td>"
        + (
            f'<td class="number" data-name="Hours">{log.hours:,}</td>'
            f'<td class="number" data-name="Requests">{log.requests:,}</td>'
            f'<td class="time" data-name="First">{minute(log.first_seen)}</td>'
            f'<td class="time" data-name="Last">{minute(log.last_seen)}</td>'
            if (log := logs.get(broker))
            else f'<td colspan="4">{marked(Verdict.UNKNOWN)} no request log at DEBUG</td>'
        )
        for broker in shown
    ]
    keys = "".join(f'<span class="key" style="--c:var(--s{shade})"></span>' for shade in range(1, 5))
    chart = coverage_chart(shown, evidence, report.now)
    head = ("Broker", "#Hours", "#Requests", "First request (UTC)", "Last request (UTC)")
    return (
        "<h2>Coverage</h2>\n"
        '<p><span class="key" style="--c:var(--gap)"></span>no request: the broker was idle, or did not log'
        f"{keys}few to many requests, on a logarithmic scale."
        " Half a cell: deprecated requests alone. A stroke: the broker logged, and the lines are lost.</p>\n"
        f'<div class="wide" tabindex="0" role="region" aria-label="Coverage by broker and hour">{chart}</div>\n'
        f"{table(head, rows, 'brokers', most)}{left_out(len(brokers) - most, 'brokers, with more hours each,')}"
    )


def _others(report: Report, most: int) -> str:
    rows = [
        f'<td>{marked(row.verdict)}</td><td class="check">{plain(row.check)}</td><td>{strong(row.subject)}</td>'
        f"<td>{plain(row.said)}{' ' if row.do else ''}{plain(row.do)}</td>"
        f'<td class="number" data-name="Times seen">{row.count:,}</td>'
        f'<td class="time" data-name="Last seen">{minute(row.last_seen)}</td>'
        for row in report.rows
        if row.verdict is not Verdict.BLOCK and row.check != APP_GATES
    ]
    if not rows:
        return ""
    head = ("Verdict", "Check", "Who", "Why, and what to do", "#Times seen", "Last seen (UTC)")
    return f"<h2>Other findings</h2>\n{table(head, rows, 'findings', most)}"


def _footer(report: Report) -> str:
    evidence = report.evidence
    versions = ", ".join(
        f"{plain(name)} {number}" for name, number in sorted(evidence.versions.items()) if number is not None
    )
    hours = report.stale_after.total_seconds() / 3600
    quarantined = evidence.lines_quarantined
    since = f"Requests before {minute(evidence.since)} UTC do not count. " if evidence.since else ""
    served = report.move.apis
    apis = f"API versions of {plain(served.brokers)}: {plain(served.source)}." if served else ""
    return (
        f"<footer>\n<p>Taken at {minute(report.now)} UTC. Evidence is stale after {hours:g} hours. {since}"
        f"{evidence.read:,} lines were read: {evidence.rows:,} rows, {quarantined:,} in quarantine. "
        f"Versions of the tables: {versions or 'none'}. "
        f"{apis}</p>\n</footer>"
    )
