"""The verdicts on one move of several clusters, the worst first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from featuregate_fleet.readiness.rows import Row, Verdict, worst

if TYPE_CHECKING:
    from featuregate_fleet.readiness.moves import Move
    from featuregate_fleet.readiness.report import Report

_REASONS: Final = 3
"""Findings of a cluster that a summary shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVerdict:
    """What is known of one cluster."""

    cluster: str
    verdict: Verdict
    """Unknown for a cluster whose evidence cannot be read."""
    failure: str = ""
    """Why the evidence cannot be read."""
    counts: Mapping[Verdict, int]
    """The number of findings with each verdict."""
    reasons: tuple[Row, ...] = ()
    """The first findings with the verdict of the cluster."""
    last_seen: datetime | None = None
    """When the last request was logged."""

    @property
    def why(self) -> str:
        """The failure or the first finding, in one line."""
        if self.failure or not self.reasons:
            return self.failure
        more = self.counts[self.verdict] - 1
        first = f"{self.reasons[0].subject}: {self.reasons[0].said}"
        return f"{first} (and {more} more)" if more else first


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """The verdicts on a move of several clusters."""

    move: Move
    now: datetime
    clusters: tuple[ClusterVerdict, ...]
    """The worst first: those that fail stand before those of which evidence is missing."""

    @property
    def verdict(self) -> Verdict:
        """The worst one."""
        return worst(each.verdict for each in self.clusters)

    @property
    def failed(self) -> tuple[str, ...]:
        """The clusters whose evidence cannot be read."""
        return tuple(each.cluster for each in self.clusters if each.failure)

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--output json`` prints. Times are ISO 8601 in UTC."""
        return {
            "verdict": self.verdict,
            "move": {"kind": self.move.KIND, "target": self.move.target},
            "taken_at": self.now.isoformat(),
            "clusters": [
                {
                    "cluster": each.cluster,
                    "verdict": each.verdict,
                    "failure": each.failure or None,
                    "findings": {str(verdict): each.counts[verdict] for verdict in Verdict},
                    "why": each.why,
                    "last_seen": each.last_seen.isoformat() if each.last_seen else None,
                }
                for each in self.clusters
            ],
        }


def summarized(found: Mapping[str, Report | Exception], move: Move, now: datetime) -> FleetSummary:
    """Return the verdict on each cluster, of its report or of the error that took its place."""
    clusters = [_verdict(name, each) for name, each in found.items()]
    return FleetSummary(move=move, now=now, clusters=tuple(sorted(clusters, key=_order)))


def _verdict(cluster: str, found: Report | Exception) -> ClusterVerdict:
    if isinstance(found, Exception):
        return ClusterVerdict(cluster=cluster, verdict=Verdict.UNKNOWN, failure=str(found), counts=Counter())
    return ClusterVerdict(
        cluster=cluster,
        verdict=found.verdict,
        counts=Counter(row.verdict for row in found.rows),
        reasons=tuple(_reasons(found.rows, found.verdict))[:_REASONS],
        last_seen=max((log.last_seen for log in found.evidence.brokers.values()), default=None),
    )


def _reasons(rows: Iterable[Row], verdict: Verdict) -> list[Row]:
    return [row for row in rows if row.verdict is verdict and verdict is not Verdict.OK]


def _order(found: ClusterVerdict) -> tuple[int, bool, int, str]:
    worst_first = -list(Verdict).index(found.verdict)
    return worst_first, not found.failure, -found.counts[found.verdict], found.cluster
