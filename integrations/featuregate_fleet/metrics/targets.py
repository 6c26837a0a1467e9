"""The targets of a Prometheus: which of them are one broker, when it started, and which hours are covered. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from featuregate_fleet.metrics.evidence import HOUR_SECONDS, BrokerCoverage, host_names, is_of_broker
from featuregate_fleet.metrics.pages import SOURCES, M, full_listeners, started_at
from featuregate_fleet.metrics.spellings import Connected, Labels, Meaning, Requests, Started, Unusable

PLACE: Final = ("job", "instance", "namespace", "pod")
"""The labels that tell targets apart. A pod keeps its name, and has another address after each restart."""
_NAMING: Final = ("instance", "pod", "kubernetes_pod_name", "host", "hostname")
"""The labels that name the machine or the container of a target."""
_MOST_HOLES: Final = 5
_FEW_MISSING: Final = 0.9
"""The share of samples from which on an hour may be covered."""
_JITTER: Final = 1.1
_RUNNING: Final = 300
"""Seconds after which the hour that runs has samples, also of a server that takes some time to show them."""
_MIXED: Final = f"its start goes back, so that several brokers may share {', '.join(PLACE)}: choose one by --match"

Place = tuple[str, ...]
Hours = dict[float, float]
"""By the end of the hour, in seconds since the epoch."""


@dataclass(slots=True)
class Target:
    """One target of the server, and what was found of it."""

    labels: Labels
    series: dict[Meaning, Labels] = field(default_factory=dict)
    counts: Hours = field(default_factory=dict)
    """The samples in each hour."""
    starts: dict[float, tuple[float, float]] = field(default_factory=dict)
    """The lowest and the highest start in each hour."""
    known_starts: set[tuple[bool, int] | None] = field(default_factory=set)
    """Each start as two exporters on one broker have it."""
    lives: dict[float, list[tuple[float, float]]] = field(default_factory=dict)
    """Each sample with its start, for hours with a restart and those that lack samples."""
    interval: float | None = None
    """Seconds between two samples."""

    def of(self, kind: type[M]) -> list[M]:
        """Return what its series of one kind are about."""
        return [one for one in self.series if isinstance(one, kind)]

    def last_before(self, end: float) -> float | None:
        """Return the end of the last hour before one that has samples."""
        return max((each for each, count in self.counts.items() if count and each < end), default=None)

    def runs(self, last: float, until: float) -> bool:
        """Return whether there are samples of the hour that runs."""
        found = sum(count for end, count in self.counts.items() if end > last)
        return found * 2 * HOUR_SECONDS >= self.expected * (until - last)

    @property
    def place(self) -> Place:
        """What tells it apart."""
        return place_of(self.labels)

    @property
    def name(self) -> str:
        """How people call it: by the id of the broker if a metric has it."""
        ids = {one.broker for one in self.of(Started) if one.broker}
        return ids.pop() if len(ids) == 1 else self.labels.get("instance", "")

    @property
    def start(self) -> Started | None:
        """The best metric of the start of the broker."""
        return min(self.of(Started), key=lambda one: (SOURCES.index(one.source), one.broker), default=None)

    @property
    def expected(self) -> float:
        """The samples that an hour has if none is missing."""
        return HOUR_SECONDS / self.interval if self.interval else math.inf

    @property
    def is_mixed(self) -> bool:
        """Whether a start goes back, so that these labels are of several brokers."""
        starts = [start for _, start in sorted(self.starts.items())]
        return any(after[0] < before[1] for before, after in pairwise(starts))


def own_place(labels: Labels) -> dict[str, str]:
    """Return the labels that stay the same when a target starts again."""
    names = ("job", "namespace", "pod") if labels.get("pod") else ("job", "instance")
    return {name: labels.get(name, "") for name in names}


def place_of(labels: Labels) -> Place:
    """Return what tells a target apart."""
    return tuple(own_place(labels).values())


def unsteady(target: Target) -> Iterator[float]:
    """Yield the hours of a target in which it started, or lacks a few samples, by their ends."""
    before: float | None = None
    for end, (low, high) in sorted(target.starts.items()):
        lacks = _FEW_MISSING * target.expected <= target.counts.get(end, 0) < target.expected - 1
        if low != high or lacks or (before is not None and high != before):
            yield end
        before = high


def life_at(target: Target, end: float, at: float) -> float | None:
    """Return the start of the broker at a sample."""
    if samples := target.lives.get(end):
        found = samples[max(0, bisect_right(samples, at, key=lambda one: one[0]) - 1)][1]
        return _seconds(target, found)
    return _seconds(target, target.starts[end][1]) if end in target.starts else None


def joined(targets: Sequence[Target]) -> list[list[Target]]:
    """Group the targets that are one broker: two exporters show one start, to the millisecond."""
    groups: list[tuple[set[tuple[bool, int] | None], list[Target]]] = []
    for target in targets:
        same = [group for group in groups if group[0] & target.known_starts]
        lives = target.known_starts.union(*(group[0] for group in same))
        groups = [each for each in groups if each not in same]
        groups.append((lives, [*(each for group in same for each in group[1]), target]))
    return [group for _, group in groups]


def coverage(group: Sequence[Target], since: float, last: float, until: float, unread: int) -> BrokerCoverage:
    """Return what is known of the targets of one broker in the hours from ``since`` to ``last``.

    An hour that one of them covers is covered. The hour that runs must have half of its samples.
    """
    ends = [since + HOUR_SECONDS * n for n in range(1, round((last - since) / HOUR_SECONDS) + 1)]
    of_broker = [each for each in group if is_of_broker(each.of(Requests))]
    software = [one for each in group for one in each.of(Connected)]
    holes = [end for end in ends if not any(_is_covered(target, end) for target in of_broker or group)]
    if until - last > _RUNNING and not any(each.runs(last, until) for each in of_broker or group):
        holes.append(last + HOUR_SECONDS)
    lives = {life for each in group for end, lives in each.starts.items() if end > since for life in lives}
    best = next((each for each in group if each.starts), None)
    newest = best.starts[max(best.starts)][1] if best else None
    return BrokerCoverage(
        broker=group[0].name,
        hosts=tuple(
            sorted({host for each in group for name in _NAMING for host in host_names(each.labels.get(name, ""))})
        ),
        started=started_at({best.start.source: newest}) if best and best.start and newest is not None else None,
        hours=max(0, len(ends) - len(holes)),
        of_hours=len(ends),
        holes=tuple(time_of(end - HOUR_SECONDS) for end in holes[:_MOST_HOLES]),
        restarts=max(0, len(lives) // max(1, len({each.start and each.start.source for each in group})) - 1),
        is_broker=bool(of_broker),
        has_requests=any(each.of(Requests) for each in group),
        has_software=bool(software),
        full_listeners=full_listeners(software),
        unusable=tuple(sorted({one.lacks for each in group for one in each.of(Unusable)})),
        interval=next((each.interval for each in group if each.interval), None),
        unread=unread,
        problem=_MIXED if any(each.is_mixed for each in group) else "",
    )


def _is_covered(target: Target, end: float) -> bool:
    """Return whether no gap of the hour is longer than two intervals, but for the time in which the broker was off."""
    samples = target.lives.get(end)
    if samples is None:
        return target.counts.get(end, 0) >= target.expected - 1 and _ran(target, end)
    longest, before = 2 * (target.interval or 0) * _JITTER, None
    for at, start in [*samples, (end, samples[-1][1] if samples else 0)]:
        if before and (_seconds(target, start) - before[0] if start != before[1] else at - before[0]) > longest:
            return False
        before = (at, start)
    return bool(samples) and samples[0][0] <= end - HOUR_SECONDS + longest


def _ran(target: Target, end: float) -> bool:
    """Return whether no restart of the hour may be hidden: its start was kept, or a later one is of before."""
    later = min((each for each in target.starts if each >= end), default=None)
    if later is None:
        return target.start is None
    return later == end or _seconds(target, target.starts[later][0]) <= end - HOUR_SECONDS


def _seconds(target: Target, start: float) -> float:
    return start if target.start and target.start.source.endswith("seconds") else start / 1000


def time_of(seconds: float) -> datetime:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
