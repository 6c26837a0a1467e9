"""The checks of apps and their gates: whom a move takes a level or an API version from (KIP-584's danger). Pure.

A latched gate stays open whatever the cluster does: after a downgrade its app goes on as if the level were there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from featuregate.errors import RequirementError
from featuregate.gating.decisions import Decision, evaluate
from featuregate.requirements import Requirement, parse
from featuregate_fleet.readiness.checks.coverage_checks import UNREADABLE
from featuregate_fleet.readiness.gates import instances, opening_of, touches, view_after, view_before
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move
from featuregate_fleet.readiness.rows import APP_GATES, Row, Verdict, grouped

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.readiness.evidence import AppUsage, Evidence, GateUse

_REPORTS: Final = "usage-reports"
_SILENT: Final = timedelta(hours=1)
"""An app reports once a minute. One that has not for an hour, while reports were read, is down or cannot send."""
_RELEASE: Final = (
    "Before the move, run a release of the app without this gate. A restart alone does not help where a latch is kept."
)
_LET_REPORT: Final = (
    "Let apps report their usage, and run 'featuregate fleet run' with --bootstrap-server; if no app of this cluster "
    "uses featuregate, say so by --without-usage-reports."
)


def app_gates(evidence: Evidence, move: Move) -> Iterator[Row]:
    """Check each gate that apps reported: what becomes of it by the move."""
    for use in evidence.apps.gates if evidence.apps else ():
        if use.gate is not None and use.requirement is not None:
            yield _gate_row(evidence, move, use, use.requirement)


def _gate_row(evidence: Evidence, move: Move, use: GateUse, text: str) -> Row:
    try:
        requirement = parse(text)
    except RequirementError as error:
        why = f"This release cannot read its requirement {text}: {error}"
        return _row(use, Verdict.UNKNOWN, why, "Upgrade featuregate where you run 'featuregate fleet'.")
    before = view_before(evidence.view, use)
    now, then = evaluate(before, requirement), evaluate(view_after(before, move), requirement)
    if not use.is_open and _opens_by_now(evidence.view, use, requirement, move):
        why = f"It was closed when the app reported last. The cluster has {text} now, and would lose it with the move."
        return _row(use, Verdict.UNKNOWN, why, f"Read a newer report of {use.app}: an open sticky gate stays open.")
    if not use.is_open:
        opening = opening_of(evidence.view, use, move)
        return _row(use, Verdict.OK, f"{opening or 'It is closed, and waits'}: {text}.")
    if then.verdict == "closed":
        return _lost_row(use, text, now, then)
    if then.verdict == "unknown" and touches(move, requirement):
        why = f"It is not known whether {text} holds after the move: {then.summary.removeprefix('unknown: ')}."
        return _row(use, Verdict.UNKNOWN if use.latched else Verdict.WARN, why)
    return _row(use, Verdict.OK, f"The move takes nothing from it: {text}.")


def _opens_by_now(seen: View | None, use: GateUse, requirement: Requirement, move: Move) -> bool:
    """Return whether a gate may have latched since its last report on what the move takes away."""
    view = view_before(seen, replace(use, levels={}))
    holds = evaluate(view, requirement).verdict == "open"
    return holds and use.policy != "live" and evaluate(view_after(view, move), requirement).verdict != "open"


def _lost_row(use: GateUse, text: str, now: Decision, then: Decision) -> Row:
    lacks = then.summary.removeprefix("closed: ")
    if not use.latched:
        why = f"It closes with the move, because {text} does not hold any more: {lacks}."
        return _row(use, Verdict.WARN, why, f"Make sure that {use.app} works without it.")
    if now.verdict == "closed":
        why = f"It is latched on {text}, which does not hold already: {lacks}."
        return _row(use, Verdict.WARN, why, f"Ask those who run {use.app}: the move changes nothing for it.")
    them = f"{instances(use.instances)} {'is' if use.instances == 1 else 'are'}"
    ended = " All of them have ended; one that keeps its latch starts with it." if use.closed else ""
    why = f"{them} latched on {text}, which does not hold after the move: {lacks}. The app goes on as if it did."
    return _row(use, Verdict.BLOCK, why + ended, _RELEASE)


def _row(use: GateUse, verdict: Verdict, why: str, do: str = "") -> Row:
    subject = f"gate {use.gate!r} of app {use.app!r}"
    seen: dict[str, Any] = {"count": use.count, "first_seen": use.first_seen, "last_seen": use.last_seen}
    return Row(APP_GATES, verdict, subject, why, do, app=use.app, software=use.software, **seen)


# ---------------------------------------------------------------- the reports themselves


def usage_reports(evidence: Evidence, move: Move, now: datetime, oldest: datetime) -> Iterator[Row]:
    """Check that apps report, and go on reporting, where the move asks for what only they know."""
    if not evidence.reports_expected:
        return
    apps = evidence.apps
    if apps is None or not apps.gates:
        if _needs_reports(evidence, move):
            said = "No app has reported its gates" if apps else "No topic of usage reports was read"
            why = f"{said}, so it is not known which apps are latched on what the move removes."
            yield Row(_REPORTS, Verdict.UNKNOWN, "the apps", why, _LET_REPORT)
        return
    yield from _silent_apps(apps, evidence.view, now, oldest)
    if lost := apps.unread:
        unknown = lost > UNREADABLE * apps.read and _needs_reports(evidence, move)
        verdict, why = Verdict.UNKNOWN if unknown else Verdict.WARN, f"{lost} of {apps.read} could not be read."
        do = "Look at the table 'quarantine': who writes them? A newer report needs a newer featuregate here."
        yield Row(_REPORTS, verdict, "usage reports", why, do, count=lost)


def _needs_reports(evidence: Evidence, move: Move) -> bool:
    """Return whether a move takes levels away. What it takes of APIs is in the request logs, too."""
    match move:
        case DowngradeTo() | Deprecate():
            return True
        case Finalize(feature, level):
            current = evidence.view.level(feature) if evidence.view else None
            return current is None or level < current
    return False


def _silent_apps(apps: AppUsage, view: View | None, now: datetime, oldest: datetime) -> Iterator[Row]:
    """Yield a row for each app: whether it still reports. A record from the future does not make others silent.

    A run that asks the brokers reads the reports, too: an app alone is silent if its last one is older than that.
    """
    newest = max((use.last_seen for use in apps.gates if use.last_seen <= now), default=now)
    if view is not None:
        newest = max(newest, datetime.fromtimestamp(view.seen_at, UTC))
    for app, uses in grouped(apps.gates, attrgetter("app")):
        last = max(uses, key=attrgetter("last_seen"))
        silent = newest - last.last_seen > _SILENT and not last.closed
        if last.last_seen < oldest or silent:
            verdict, do = Verdict.STALE if last.last_seen < oldest else Verdict.WARN, f"Ask those who run {app}."
            row = _row(last, verdict, "It does not report any more, and did not say that it ended.", do)
        else:
            gates = sum(use.gate is not None for use in uses)
            ended = ", and has ended" if last.closed else ""
            row = _row(last, Verdict.OK, f"It reports {gates} {'gate' if gates == 1 else 'gates'}{ended}.")
        yield replace(row, check=_REPORTS, subject=f"app {app!r}")
