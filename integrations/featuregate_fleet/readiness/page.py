"""The report as one HTML page: no script, nothing to load, readable on paper. Pure: a report in, text out."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.readiness.charts import coverage_chart, plain, usage_by_software, usage_chart
from featuregate_fleet.readiness.rows import APP_GATES, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from featuregate_fleet.readiness.report import Report
    from featuregate_fleet.readiness.rows import Row

__all__ = ["to_html"]

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
_SIGNS: Final = {Verdict.BLOCK: "✕", Verdict.UNKNOWN: "?", Verdict.STALE: "◷", Verdict.WARN: "!", Verdict.OK: "✓"}
"""Each verdict has a sign, because colour alone does not reach everybody."""

_STYLE: Final = """\
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;--band:#dfe5ec;
--used:#1f5fa8;--gap:#eceff2;--s1:#b9d3ee;--s2:#7fb0e0;--s3:#3f83c8;--s4:#15508f;
--block:#b3261e;--unknown:#6b4fa0;--stale:#7a5c00;--warn:#9a4a00;--ok:#1a6b34}
@media (prefers-color-scheme:dark){:root{--page:#12161b;--ink:#e6edf3;--soft:#9da7b3;--line:#39424d;--panel:#1b2128;
--band:#2f3843;--used:#6cb0f5;--gap:#242b33;--s1:#23456b;--s2:#2f69a6;--s3:#4f97dd;--s4:#a5d1fb;
--block:#ff8a80;--unknown:#c3a6f5;--stale:#e3bf4a;--warn:#ffab66;--ok:#6fd08c}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:72rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2.25rem 0 .5rem}
h3{font-size:.95rem;margin:0 0 .25rem;overflow-wrap:anywhere}p{margin:.25rem 0 .75rem;max-width:48rem}
.soft,figcaption,footer{color:var(--soft);font-size:.875rem}
.block{--tone:var(--block)}.unknown{--tone:var(--unknown)}.stale{--tone:var(--stale)}
.warn{--tone:var(--warn)}.ok{--tone:var(--ok)}
.verdict{color:var(--tone);font-weight:700;white-space:nowrap}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;list-style:none;padding:0}
.cards li{border:1px solid var(--line);border-top:4px solid var(--tone);border-radius:6px;padding:.6rem .8rem}
.cards b{display:block;font-size:1.9rem;line-height:1.2}.cards .none b{color:var(--soft);font-weight:400}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1rem}
figure{margin:0;border:1px solid var(--line);border-radius:6px;padding:.75rem;break-inside:avoid}
svg{display:block;width:100%;max-width:34rem;height:auto;font:11px system-ui,sans-serif}
svg.hours{max-width:none;min-width:40rem}
svg text{fill:var(--ink)}svg .tick{fill:var(--soft);text-anchor:middle}svg .api{text-anchor:end}
svg .first{text-anchor:start}svg .last{text-anchor:end}svg text.lost{fill:var(--block);font-weight:700}
.band{fill:var(--band)}.used{fill:var(--used)}rect.lost{fill:var(--block)}.gap{fill:var(--gap)}
.missing{fill:none;stroke:var(--block);stroke-width:2}
.shade1{fill:var(--s1)}.shade2{fill:var(--s2)}.shade3{fill:var(--s3)}.shade4{fill:var(--s4)}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em;vertical-align:-.05em;background:var(--c);
print-color-adjust:exact;-webkit-print-color-adjust:exact}
.wide{overflow-x:auto;margin-bottom:1rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.4rem 1.1rem .4rem 0;border-bottom:1px solid var(--line);
overflow-wrap:anywhere}
th{font-weight:600}td.number,th.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.time{white-space:nowrap}tr{break-inside:avoid}td ul{margin:0;padding-left:1.1rem}
@media (max-width:40rem){.stack thead{display:none}.stack tr,.stack td{display:block}
.stack tr{border-bottom:1px solid var(--line);padding:.5rem 0}.stack td{border:0;padding:.1rem 0}
.stack td.number{text-align:left}.stack td[data-name]::before{content:attr(data-name) ": ";color:var(--soft)}}
@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--soft:#444;--line:#999;--panel:#fff;--band:#dfe5ec;
--used:#1f5fa8;--gap:#eceff2;--s1:#b9d3ee;--s2:#7fb0e0;--s3:#3f83c8;--s4:#15508f;
--block:#b3261e;--unknown:#6b4fa0;--stale:#7a5c00;--warn:#9a4a00;--ok:#1a6b34}
body{max-width:none;padding:0;font-size:10pt}.wide{overflow:visible}svg.hours{min-width:0}h2,h3{break-after:avoid}
.charts{grid-template-columns:1fr 1fr}}
"""


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
        _coverage(report, limits.brokers),
        _others(report, limits.rows),
        _footer(report),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}: {report.verdict}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}: {_verdict(report.verdict)}</h1>\n"
        f"<p>{_SUMMARIES[report.verdict]}</p>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


_SUMMARIES: Final = {
    Verdict.BLOCK: "The move breaks at least one client, group or app.",
    Verdict.UNKNOWN: "Nothing was seen to block the move, but evidence is missing. Nobody can say that it is safe.",
    Verdict.STALE: "The evidence is too old to say whether the move is safe.",
    Verdict.WARN: "Nothing was seen to block the move. Look at the warnings first.",
    Verdict.OK: "Nothing was seen to block the move. Clients that did not connect meanwhile were not seen.",
}


def _cards(report: Report) -> str:
    counts = Counter(row.verdict for row in report.rows)
    cards = "".join(
        f'<li class="{verdict}{"" if counts[verdict] else " none"}"><b>{counts[verdict]}</b>{_verdict(verdict)}'
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
        f"<td>{_strong(found[0].subject)}</td>"
        f'<td data-name="Software">{plain(found[0].software) or "not said"}</td>'
        f"<td>{_list(row.why for row in found)}</td>"
        f'<td class="number" data-name="Requests">{sum(row.count for row in found):,}</td>'
        f'<td class="time" data-name="Last seen">{_latest(found)}</td>'
        f"<td>{_list(dict.fromkeys(row.do for row in found))}</td>"
        for found in clients.values()
    ]
    if not rows:
        return "<h2>Who must move</h2>\n<p>Nothing was seen to block the move.</p>"
    head = ("Who", "Software", "Why", "#Requests", "Last seen (UTC)", "What to do")
    return f"<h2>Who must move</h2>\n{_table(head, rows, 'clients', most)}"


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
        f'<div class="charts">\n{figures}\n</div>{_left_out(len(found) - most, "names of software")}'
    )


def _gates(report: Report, most: int) -> str:
    rows = [
        f"<td>{_strong(row.app)}</td><td>{_verdict(row.verdict)}</td>"
        f"<td>{_strong(row.subject)}</td><td>{plain(row.why)}</td>"
        f'<td data-name="Software">{plain(row.software or "")}</td>'
        f'<td class="time" data-name="Last report">{_time(row.last_seen)}</td>'
        for row in report.rows
        if row.check == APP_GATES and row.app
    ]
    if not rows:
        return "<h2>Gates of apps</h2>\n<p>No app reported its gates.</p>"
    head = ("App", "Verdict", "Gate", "What becomes of it", "Software", "Last report (UTC)")
    return f"<h2>Gates of apps</h2>\n{_table(head, rows, 'gates', most)}"


def _coverage(report: Report, most: int) -> str:
    evidence = report.evidence
    logs = evidence.brokers
    brokers = sorted(evidence.brokers_known, key=lambda broker: logs[broker].hours if broker in logs else 0)
    if not brokers:
        return "<h2>Coverage</h2>\n<p>There is no evidence of this cluster.</p>"
    shown = sorted(brokers[:most], key=lambda broker: (len(broker), broker))
    rows = [
        f"<td>{_strong(f'broker {broker}')}</td>"
        + (
            f'<td class="number" data-name="Hours">{log.hours:,}</td>'
            f'<td class="number" data-name="Requests">{log.requests:,}</td>'
            f'<td class="time" data-name="First">{_time(log.first_seen)}</td>'
            f'<td class="time" data-name="Last">{_time(log.last_seen)}</td>'
            if (log := logs.get(broker))
            else f'<td colspan="4">{_verdict(Verdict.UNKNOWN)} no request log at DEBUG</td>'
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
        f"{_table(head, rows, 'brokers', most)}{_left_out(len(brokers) - most, 'brokers, with more hours each,')}"
    )


def _others(report: Report, most: int) -> str:
    rows = [
        f"<td>{_verdict(row.verdict)}</td><td>{plain(row.check)}</td><td>{_strong(row.subject)}</td>"
        f"<td>{plain(row.why)}{' ' if row.do else ''}{plain(row.do)}</td>"
        f'<td class="number" data-name="Requests">{row.count:,}</td>'
        f'<td class="time" data-name="Last seen">{_time(row.last_seen)}</td>'
        for row in report.rows
        if row.verdict is not Verdict.BLOCK and row.check != APP_GATES
    ]
    if not rows:
        return ""
    head = ("Verdict", "Check", "Who", "Why, and what to do", "#Requests", "Last seen (UTC)")
    return f"<h2>Other findings</h2>\n{_table(head, rows, 'findings', most)}"


def _footer(report: Report) -> str:
    evidence = report.evidence
    versions = ", ".join(
        f"{plain(name)} {number}" for name, number in sorted(evidence.versions.items()) if number is not None
    )
    hours = report.stale_after.total_seconds() / 3600
    quarantined = sum(evidence.quarantined.values())
    served = report.move.apis
    apis = f"API versions of {plain(served.brokers)}: {plain(served.source)}." if served else ""
    return (
        f"<footer>\n<p>Taken at {_time(report.now)} UTC. Evidence is stale after {hours:g} hours. "
        f"{evidence.read:,} lines were read: {evidence.rows:,} rows, {quarantined:,} in quarantine. "
        f"Versions of the tables: {versions or 'none'}. "
        f"{apis}</p>\n</footer>"
    )


# ---------------------------------------------------------------- shared by sections


def _table(head: Iterable[str], rows: Sequence[str], what: str, most: int) -> str:
    """Return a table, whose rows stand below each other on a phone. A head with ``#`` is that of numbers."""
    cells = "".join(
        f'<th scope="col" class="number">{name[1:]}</th>' if name.startswith("#") else f'<th scope="col">{name}</th>'
        for name in head
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows[:most])
    table = f'<table class="stack">\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'
    return table + _left_out(len(rows) - most, what)


def _left_out(more: int, what: str) -> str:
    return (
        f'\n<p class="soft">{more:,} more {what} are left out here; --output json has them all.</p>' if more > 0 else ""
    )


def _list(texts: Iterable[str]) -> str:
    """Return one text as it is, and more of them as a list."""
    items = [plain(text) for text in texts]
    return items[0] if len(items) == 1 else f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _verdict(verdict: Verdict) -> str:
    return f'<span class="verdict {verdict}"><span aria-hidden="true">{_SIGNS[verdict]}</span> {verdict}</span>'


def _strong(text: str) -> str:
    return f"<strong>{plain(text)}</strong>"


def _latest(rows: Iterable[Row]) -> str:
    return _time(max((row.last_seen for row in rows if row.last_seen), default=None))


def _time(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M}" if when else ""
