"""From evidence to one verdict with its rows, and to what a command prints. Pure: the clock is passed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from featuregate_fleet.readiness.api_ranges import DropApi, ReleaseApis
from featuregate_fleet.readiness.checks import api_checks as checks
from featuregate_fleet.readiness.checks import coverage_checks, gate_checks, level_checks, record_checks
from featuregate_fleet.readiness.checks.software_checks import client_software
from featuregate_fleet.readiness.evidence import AppUsage, Evidence
from featuregate_fleet.readiness.hours import logged_hours
from featuregate_fleet.readiness.inter_broker import tell_apart
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move, ToRelease
from featuregate_fleet.readiness.rows import Row, Verdict, group_ids, in_order, worst

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View


LEVELS_STALE_AFTER: Final = timedelta(hours=1)
"""An operator may raise a level at any moment, and clients write records of another kind from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Whether a move of a cluster is safe."""

    verdict: Verdict
    rows: tuple[Row, ...]
    """The worst first."""
    move: Move
    evidence: Evidence
    now: datetime
    stale_after: timedelta
    min_hours: float = 0

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--output json`` prints. Times are ISO 8601 in UTC."""
        evidence, apps = self.evidence, self.evidence.apps or AppUsage()
        return {
            "verdict": self.verdict,
            "move": {"kind": self.move.KIND, "target": self.move.target},
            "rows": [_printable(asdict(row)) for row in self.rows],
            "coverage": {
                "brokers": {broker: _printable(asdict(log)) for broker, log in sorted(evidence.brokers.items())},
                "hours": {
                    broker: [_printable(asdict(span)) for span in logged_hours(evidence, broker)]
                    for broker in evidence.brokers_known
                },
                "log_levels": {
                    one.broker: {"level": one.level, "taken_at": one.taken_at.isoformat()}
                    for one in evidence.log_levels
                },
                "without_evidence": sorted(evidence.expected - evidence.brokers.keys()),
                "level": "DEBUG",
                "since": evidence.since.isoformat() if evidence.since else None,
                "taken_at": self.now.isoformat(),
                "min_hours": self.min_hours,
                "stale_after_seconds": int(self.stale_after.total_seconds()),
                "table_version": evidence.version,
                "api_ranges": self.move.apis.source if self.move.apis else None,
            },
            "lines": {"read": evidence.read, "rows": evidence.rows, "quarantined": evidence.lines_quarantined},
            "reports": {"read": apps.read, "rows": apps.rows, "quarantined": apps.quarantined},
        }


def assess(
    evidence: Evidence,
    move: Move,
    now: datetime,
    stale_after: timedelta,
    *,
    min_hours: float = 0,
    levels_stale_after: timedelta = LEVELS_STALE_AFTER,
) -> Report:
    """Run the checks of a move. A finding about requests that are older than ``stale_after`` is stale.

    A broker that logged for less than ``min_hours`` is unknown. A move that an upgrade since then would make unsafe
    rests on levels and records that are not older than ``levels_stale_after``.
    """
    oldest = now - stale_after
    evidence = tell_apart(evidence)
    levels_oldest = max(oldest, now - levels_stale_after) if _needs_levels_of_now(move, evidence.view) else oldest
    found = _findings(evidence, move, now, oldest, levels_oldest, min_hours)
    rows = group_ids(_aged(row, oldest) for row in found)
    return Report(
        verdict=worst(row.verdict for row in rows),
        rows=in_order(rows),
        move=move,
        evidence=evidence,
        now=now,
        stale_after=stale_after,
        min_hours=min_hours,
    )


def _needs_levels_of_now(move: Move, view: View | None) -> bool:
    """Whether levels that were raised a moment ago would change the verdict: no release takes more than it supports."""
    if not isinstance(move, ToRelease):
        return not isinstance(move, DropApi)
    brokers = view.answering if view else ()
    highest = ((name, span.max) for broker in brokers for name, span in broker.supported.items())
    return any(level > move.release.features.get(name, (0, 0))[1] for name, level in highest)


def _findings(
    evidence: Evidence, move: Move, now: datetime, oldest: datetime, levels_oldest: datetime, min_hours: float
) -> Iterator[Row]:
    if move.apis:
        yield from checks.api_versions(evidence, move.apis)
        yield from checks.cut_requests(evidence, move.apis)
        yield from client_software(evidence, move.apis) if isinstance(move.apis, ReleaseApis) else ()
        yield from checks.inter_broker(evidence, move.apis)
        yield from checks.refused_requests(evidence, move.apis)
        yield from coverage_checks.quarantine(evidence)
        yield from coverage_checks.coverage(evidence, now, oldest, min_hours)
        yield from record_checks.models(evidence, move.apis)
    records_oldest = {True: oldest, None: levels_oldest, False: now}[evidence.levels_unchanged]
    yield from gate_checks.app_gates(evidence, move)
    yield from gate_checks.usage_reports(evidence, move, now, oldest)
    view = evidence.view
    if view is not None:
        yield from level_checks.brokers(view, levels_oldest)
    elif not isinstance(move, DropApi):
        yield level_checks.no_levels()
    if isinstance(move, ToRelease | DowngradeTo):
        if view:
            yield from checks.transactions(evidence, view, move.release)
            yield from level_checks.finalized_levels(view, move.release)
        if isinstance(move, ToRelease):
            yield from checks.newer_brokers(evidence, move)
        else:
            yield from level_checks.logged_levels(evidence, view, move.release) if view else ()
            yield from record_checks.gaps_in_records(evidence, records_oldest) if evidence.records_read is None else ()
        yield from record_checks.coordinator_records(evidence, move.target, records_oldest)
    elif view and isinstance(move, Finalize):
        yield from level_checks.finalize(evidence, view, move, records_oldest)
    elif view and isinstance(move, Deprecate):
        yield from level_checks.deprecate(view, move)


def _aged(row: Row, oldest: datetime) -> Row:
    if row.verdict not in (Verdict.WARN, Verdict.BLOCK) or row.last_seen is None or row.last_seen >= oldest:
        return row
    return replace(row, verdict=Verdict.STALE, why=f"{row.why} It was last seen too long ago to say more.")


def _printable(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in fields.items()}
