"""Both kinds of evidence in one report: request logs, and metrics that were kept. Pure.

A block by either blocks. Where both cover an hour, requests are counted and named by the log, and never added up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate_fleet.metrics.verdicts import MetricsReport, ids_of, judge
from featuregate_fleet.readiness.hours import HOUR, hour_of, hours_from, whole_hours
from featuregate_fleet.readiness.rows import Row, Verdict, grouped, in_order, worst

if TYPE_CHECKING:
    from datetime import datetime

    from featuregate_fleet.metrics.evidence import BrokerCoverage, MetricsEvidence, RequestCount
    from featuregate_fleet.metrics.listeners import BrokerListener
    from featuregate_fleet.readiness.api_ranges import ReleaseApis
    from featuregate_fleet.readiness.evidence import Evidence, Usage
    from featuregate_fleet.readiness.report import Report

_COVERAGE: Final = "coverage"
_BY_LOG: Final = (Verdict.OK, Verdict.WARN)
Hours = Mapping[str, frozenset["datetime"]]
Logged = Mapping[tuple[int | None, int], list["Usage"]]
"""The requests in a log by key and version of their API."""


def joined(
    report: Report,
    metrics: MetricsEvidence,
    apis: ReleaseApis,
    listeners: Mapping[str, BrokerListener],
    brokers: Mapping[str, str] | None,
) -> tuple[Report, MetricsReport]:
    """Return a report by logs with what metrics say of the same time; and what metrics alone say.

    ``brokers``: the hosts of all brokers of the cluster by their ids; None where that is not known.
    """
    evidence = report.evidence
    by_log = {broker: whole_hours(evidence, broker) for broker in evidence.hourly}
    logged: Logged = dict(grouped(evidence.completed, lambda usage: (usage.api_key, usage.version)))
    both = replace(
        metrics,
        brokers=tuple(_covered(one, by_log, metrics.since) for one in metrics.brokers),
        requests=tuple(one for one in metrics.requests if not _is_in_log(one, by_log, logged)),
    )
    enough = {row.subject for row in report.rows if row.check == _COVERAGE and row.verdict in _BY_LOG}
    by_metrics = judge(both, apis, listeners, _of_metrics(both, brokers, enough))
    whole = {f"broker {one.broker}" for one in both.brokers if one.of_hours == one.by_log}
    added = [row for row in by_metrics.rows if row.check != _COVERAGE or row.subject not in whole]
    known = {row.subject for row in added if row.check == _COVERAGE and row.verdict is Verdict.OK} - {
        row.subject for row in added if row.check == _COVERAGE and row.verdict is not Verdict.OK
    }
    rows = [*(row for row in report.rows if not _is_settled(row, known, evidence)), *added]
    return replace(report, rows=in_order(rows), verdict=worst(row.verdict for row in rows)), by_metrics


def _covered(one: BrokerCoverage, by_log: Hours, since: datetime) -> BrokerCoverage:
    """Add the hours that the log of a broker covers, in which its metrics have a hole."""
    window = hours_from(since, one.of_hours)
    whole = window & by_log.get(one.broker, frozenset())
    if whole == window:
        return replace(one, hours=one.of_hours, holes=(), by_log=one.of_hours)
    holes = tuple(sorted(set(one.holes) - whole))
    filled = len(one.holes) - len(holes)
    return replace(one, hours=one.hours + filled, holes=holes, by_log=filled)


def _is_in_log(one: RequestCount, by_log: Hours, logged: Logged) -> bool:
    """Return whether the log has the requests of a count: it covers all of its hours, and has such requests in them."""
    if one.after is None:
        return False
    first = hour_of(one.after)
    return hours_from(first, (one.until - first) / HOUR) <= by_log.get(one.broker, frozenset()) and any(
        usage.first_seen <= one.until and usage.last_seen >= one.after
        for usage in logged.get((one.key, one.version), ())
    )


def _of_metrics(
    metrics: MetricsEvidence, brokers: Mapping[str, str] | None, logged: Collection[str]
) -> Mapping[str, str] | None:
    """Return the brokers of which metrics are needed: those without enough of a log, and those that have metrics."""
    if brokers is None:
        return None
    seen = {each for one in metrics.brokers for each in ids_of(one, brokers)}
    return {node_id: host for node_id, host in brokers.items() if node_id in seen or f"broker {node_id}" not in logged}


def _is_settled(row: Row, known: Collection[str], evidence: Evidence) -> bool:
    """Return whether a row says that there is too little of a log, and metrics have it."""
    if row.check != _COVERAGE or row.verdict not in {Verdict.UNKNOWN, Verdict.STALE}:
        return False
    subject = row.subject.removeprefix("hours of ")
    return subject in known or (subject == "the cluster" and bool(known) and not evidence.brokers_known)
