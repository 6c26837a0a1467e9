"""What moves do to gates (KIP-584's danger): which they close and open, and how levels are lowered. Pure.

A latched gate stays open whatever the cluster does: after a downgrade its app goes on as if the level were there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.catalog import METADATA_VERSION, CapturedRelease, feature_level
from featuregate.errors import RequirementError
from featuregate.gating.decisions import Decision, evaluate
from featuregate.requirements import Requirement, conditions_in, features_in, parse, subject_of
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.checks.coverage_checks import UNREADABLE
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move, ToRelease
from featuregate_fleet.readiness.rows import APP_GATES, Row, Verdict, grouped

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import AppUsage, Evidence, GateUse

_ANY_BROKER: Final = BrokerAnswer(node_id=0, host="any", port=0)
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
        return _row(use, Verdict.OK, opening.text if opening else f"It is closed, and waits: {text}.")
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


# ---------------------------------------------------------------- what a gate sees before and after


def touches(move: Move, requirement: Requirement) -> bool:
    """Return whether a move may change what a requirement asks for."""
    match move:
        case ToRelease() | DowngradeTo():
            return True
        case Finalize(feature, _) | Deprecate(feature, _):
            return feature in features_in(requirement)
        case DropApi(key, _):
            return any(subject_of(condition).api == key for condition in conditions_in(requirement))


def view_before(seen: View | None, use: GateUse) -> View:
    """Return what the gate sees now: the brokers as they were asked last, and the levels that the app reported.

    Where brokers never were asked none is known, and whatever is required of their APIs is unknown.
    """
    known = {feature: level for feature, level in use.levels.items() if level is not None}
    levels = {**(seen.finalized if seen else {}), **known}
    unknown = (seen is None or seen.epoch < 0) and len(known) < len(use.levels)
    return View(
        cluster_id=None,
        epoch=-1 if unknown else 0,
        finalized=levels,
        brokers=seen.brokers if seen else (),
        api_ranges=seen.api_ranges if seen else {},
    )


def view_after(before: View, move: Move) -> View:
    """Return what the gate sees once the move is done."""
    match move:
        case ToRelease(release) | DowngradeTo(release):
            return _with_release(before, release)
        case Finalize(feature, level):
            return replace(before, finalized={**before.finalized, feature: level})
        case Deprecate(feature, level):
            if before.finalized.get(feature, 0) <= level:  # nothing is left that brokers support and the cluster has
                return replace(before, finalized={**before.finalized, feature: 0})
            return before
        case DropApi(key, lowest):
            brokers = tuple(replace(one, api_ranges=_raised(one.api_ranges, key, lowest)) for one in before.brokers)
            return replace(before, brokers=brokers, api_ranges=_raised(before.api_ranges, key, lowest))


def _with_release(before: View, release: CapturedRelease) -> View:
    """Return a view with one broker of the release; levels that it does not support are lowered before it starts."""
    levels = {
        feature: min(level, release.features.get(feature, (0, 0))[1]) for feature, level in before.finalized.items()
    }
    ranges = {key: ApiRange(*versions) for key, versions in release.apis.items()}
    supported = {feature: SupportedRange(*found) for feature, found in release.features.items()}
    broker = replace(_ANY_BROKER, api_ranges=ranges, supported=supported)
    return replace(before, finalized=levels, brokers=(broker,), api_ranges=ranges)


def _raised(ranges: Mapping[int, ApiRange], key: int, lowest: int) -> dict[int, ApiRange]:
    return {
        of: ApiRange(max(versions.min, lowest), versions.max) if of == key else versions
        for of, versions in ranges.items()
        if of != key or versions.max >= lowest
    }


# ---------------------------------------------------------------- what opens


class GateOpening(NamedTuple):
    """A gate that is closed now, and that the move opens, by its instances; as `featuregate.cli.plugin.GateOpens`."""

    app: str
    gate: str
    requirement: str
    at_once: int
    burn_in: int
    held: int
    text: str


def gate_openings(evidence: Evidence, move: Move) -> Iterator[GateOpening]:
    """Yield the gates that a move opens, by app and name."""
    uses = evidence.apps.gates if evidence.apps else ()
    for use in sorted(uses, key=lambda use: (use.app, use.gate or "")):
        found = None if use.gate is None or use.requirement is None else opening_of(evidence.view, use, move)
        if found is not None:
            yield found


def opening_of(seen: View | None, use: GateUse, move: Move) -> GateOpening | None:
    """Return how a gate opens with a move; None where it is open now, or stays closed."""
    if use.is_open or not _holds(view_after(view_before(seen, use), move), use):
        return None
    others, requirement = max(use.instances - use.held, 0), use.requirement or ""
    at_once, burn_in = (0, others) if use.open_after > 0 else (others, 0)
    parts = (
        (at_once, "at once"),
        (burn_in, f"after a burn-in of {timedelta(seconds=round(use.open_after))}"),
        (use.held, "not while an operator holds it"),
    )
    how = "; ".join(f"{instances(count)} {when}" for count, when in parts if count)
    text = f"It opens with the move: {how}: {requirement}."
    return GateOpening(use.app, use.gate or "", requirement, at_once, burn_in, use.held, text)


def instances(count: int) -> str:
    """Return a number of instances in words."""
    return "1 instance" if count == 1 else f"{count} instances"


def _holds(view: View, use: GateUse) -> bool:
    """Return whether the requirement of a gate is met; also False where it cannot be read, which a check says."""
    try:
        return evaluate(view, parse(use.requirement or "")).verdict == "open"
    except RequirementError:
        return False


# ---------------------------------------------------------------- what is done before levels are lowered


def downgrade_order(evidence: Evidence, moves: Sequence[Finalize]) -> Iterator[str]:
    """Yield the steps, in sentences: hold what may open meanwhile, release what is latched, lower what depends first.

    Nothing where no level is lowered.
    """
    view = evidence.view
    lowered = [move for move in moves if view is not None and move.level < (view.level(move.feature) or 0)]
    if not lowered or view is None:
        return
    uses = [use for use in evidence.apps.gates if _loses(view, use, lowered)] if evidence.apps else []
    for use in uses:
        if use.policy == "sticky" and not use.latched and use.held < use.instances:
            yield f"Hold gate {use.gate!r} of app {use.app!r} closed, so that it does not latch meanwhile."
    for use in uses:
        if use.latched:
            yield f"Run a release of app {use.app!r} without gate {use.gate!r}, in {instances(use.instances)}."
    for move in _dependents_first(lowered, {move.feature: view.level(move.feature) or 0 for move in lowered}):
        yield f"Lower {move.feature} to {move.level}."


def _loses(seen: View, use: GateUse, moves: Sequence[Finalize]) -> bool:
    before = view_before(seen, use)
    return _holds(before, use) and not _holds(reduce(view_after, moves, before), use)


def _dependents_first(moves: Sequence[Finalize], levels: Mapping[str, int]) -> list[Finalize]:
    """Sort so that a feature comes before those on which its level depends."""
    left, ordered = sorted(moves, key=lambda move: move.feature), []
    while left:
        needed = {other for move in left for other in _depends_on(move.feature, levels)}
        free = [move for move in left if move.feature not in needed] or left
        ordered += free
        left = [move for move in left if move not in free]
    return ordered


def _depends_on(feature: str, levels: Mapping[str, int]) -> set[str]:
    known = feature_level(feature, levels[feature])
    needs = set() if known is None else set(known.depends_on)
    return (needs if feature == METADATA_VERSION else {*needs, METADATA_VERSION}) - {feature}
