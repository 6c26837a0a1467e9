"""What is scraped of brokers: which targets are one broker, when it started, and which hours are covered. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from featuregate_fleet.metrics.evidence import HOUR_SECONDS, MOST_PAIRS, BrokerCoverage, host_names, is_of_broker
from featuregate_fleet.metrics.spellings import (
    SOURCES,
    Connected,
    Converted,
    Deprecated,
    Labels,
    Meaning,
    Requests,
    Started,
    Unusable,
)

M = TypeVar("M", bound=Meaning)
T = TypeVar("T")
_EXACT: Final = 2**53
"""Above this a float does not count exactly."""
_YEAR_2018: Final = 1_514_764_800
"""Kafka 2.0, the first release with these metrics, is of this year: an older start is not one, or of a wrong clock."""
_YEAR_2100: Final = 4_102_444_800
Life = tuple[bool, int]
"""A start as two exporters on one broker show it alike: of its process, or of Kafka in it, in milliseconds."""


def whole(value: float) -> int | None:
    """Return the value of a counter; None for what no counter is, such as NaN, or one that rules scale below 1."""
    return int(value) if 0 <= value < _EXACT and value % 1 == 0 else None


def started_at(seconds: float | None) -> datetime | None:
    """Return when a broker started; None for what is not a start."""
    is_start = seconds is not None and _YEAR_2018 < seconds < _YEAR_2100
    return time_of(seconds) if seconds is not None and is_start else None


def time_of(seconds: float) -> datetime:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def life_of(one: Started, value: float) -> Life | None:
    """Return what tells the lives of brokers apart; None for what is not a start."""
    seconds = one.seconds(value)
    return ("app" in one.source, round(seconds * 1000)) if started_at(seconds) else None


def of_kind(kind: type[M], meanings: Iterable[Meaning]) -> list[M]:
    """Return those of one kind."""
    return [one for one in meanings if isinstance(one, kind)]


def called(started: Iterable[Started], otherwise: str) -> str:
    """Return the id of the broker if a metric has it, and otherwise another name."""
    ids = {one.broker for one in started if one.broker}
    return ids.pop() if len(ids) == 1 else otherwise


def one_broker_each(found: Iterable[T], marks: Callable[[T], Collection[object]]) -> list[list[T]]:
    """Group what is of one broker: it has a mark in common, such as one start, to the millisecond."""
    groups: list[tuple[set[object], list[T]]] = []
    for one in found:
        own = {*marks(one)}
        same = [group for group in groups if group[0] & own]
        groups = [group for group in groups if group not in same]
        groups.append((own.union(*(of for of, _ in same)), [*(each for _, of in same for each in of), one]))
    return [group for _, group in groups]


def shown(broker: str, meanings: Collection[Meaning]) -> BrokerCoverage:
    """Return what metrics show of a broker, of which the hours are not known yet."""
    software = set(of_kind(Connected, meanings))
    full = Counter((one.listener, one.thread) for one in software)
    return BrokerCoverage(
        broker=broker,
        is_broker=is_of_broker(of_kind(Requests, meanings)),
        has_requests=any(isinstance(one, Requests) for one in meanings),
        has_software=bool(software),
        full_listeners=tuple(sorted({listener for (listener, _), count in full.items() if count >= MOST_PAIRS})),
        unusable=tuple(sorted({one.lacks for one in of_kind(Unusable, meanings)})),
        converted=tuple(sorted({(one.call, one.topic) for one in of_kind(Converted, meanings)})),
    )


# ---------------------------------------------------------------- counters

SKEW: Final = 300.0
"""Seconds by which the clocks of a broker and of what samples it may differ."""


class Point(NamedTuple):
    """One sample, or the last one of an hour in which nothing but this counter changed."""

    at: float
    """Seconds since the epoch, by the clock that sampled."""
    value: int
    life: float | None
    """The start of the broker, by its own clock; None where no metric has it."""


class Growth(NamedTuple):
    """Events that a sample shows for the first time."""

    after: float | None
    """When they happened at the earliest; None: since the broker started, or not known."""
    at: float
    events: int
    is_new: bool
    """False: they may be older than the time that was asked about."""


def growth(points: Iterable[Point], since: float, absent_at: float | None) -> Iterator[Growth]:
    """Yield what a counter proves from ``since`` on, oldest first.

    ``points``: in the order of their times, with one of before ``since`` if there is one. ``absent_at``: the last
    sample of the broker before these that did not have the counter; None without one.
    """
    before: Point | None = None
    for point in points:
        at, events, life = point
        after = before.at if before else absent_at
        is_new = after is not None and after >= since
        if before and before.value <= events and (life == before.life or None in {life, before.life}):
            events -= before.value
        else:  # a life begins, which may be one of this time
            is_new = is_new or (life is not None and life >= since + SKEW)
        if events and at > since:
            yield Growth(life if after is None else after, at, events, is_new)
        before = point


# ---------------------------------------------------------------- targets of a server

PLACE: Final = ("job", "instance", "namespace", "pod")
"""The labels that tell targets apart. A pod keeps its name, and has another address after each restart."""
_NAMING: Final = ("instance", "pod", "kubernetes_pod_name", "host", "hostname")
"""The labels that name the machine or the container of a target."""
_FEW_MISSING: Final = 0.9
"""The share of samples from which on an hour may be covered."""
_JITTER: Final = 1.1
_RUNNING: Final = 300
"""Seconds after which the hour that runs has samples, also of a server that takes some time to show them."""
_MIXED: Final = f"its start goes back, so that several brokers may share {', '.join(PLACE)}: choose one by --match"

Place = tuple[str, ...]
Hours = dict[float, float]
"""By the end of the hour, in seconds since the epoch."""
Ranges = dict[float, tuple[float, float]]
"""The lowest and the highest sample of each hour."""


@dataclass(eq=False)
class Target:
    """One target of the server, and what was found of it."""

    labels: Labels
    series: dict[Meaning, Labels] = field(default_factory=dict)
    broker: str = ""
    """What people call the broker, also where several targets are of it."""
    counts: Hours = field(default_factory=dict)
    """The samples in each hour."""
    starts: Ranges = field(default_factory=dict)
    """In seconds since the epoch."""
    marks: set[Life] = field(default_factory=set)
    """What no target of another broker has."""
    lives: dict[float, list[tuple[float, float]]] = field(default_factory=dict)
    """Each sample with its start, for hours with a restart and those that lack samples."""
    interval: float | None = None
    """Seconds between two samples."""
    grown: dict[Requests | Deprecated, list[Growth]] = field(default_factory=dict)
    """What the counters that decide have counted."""
    is_unread: bool = False
    """Whether a value is not a number, or not one of a counter."""

    def of(self, kind: type[M]) -> list[M]:
        """Return what its series of one kind are about."""
        return of_kind(kind, self.series)

    @cached_property
    def start(self) -> Started | None:
        """The best metric of the start of the broker."""
        return min(self.of(Started), key=lambda one: (list(SOURCES).index(one.source), one.broker), default=None)

    @property
    def expected(self) -> float:
        """The samples that an hour has if none is missing."""
        return HOUR_SECONDS / self.interval if self.interval else math.inf

    @property
    def is_mixed(self) -> bool:
        """Whether a start goes back, so that these labels are of several brokers."""
        starts = [start for _, start in sorted(self.starts.items())]
        return any(after[0] < before[1] for before, after in pairwise(starts))

    def last_before(self, end: float) -> float | None:
        """Return the end of the last hour before one that has samples."""
        return max((each for each, count in self.counts.items() if count and each < end), default=None)

    def runs(self, last: float, until: float) -> bool:
        """Return whether there are samples of the hour that runs."""
        found = sum(count for end, count in self.counts.items() if end > last)
        return found * 2 * HOUR_SECONDS >= self.expected * (until - last)

    def unsteady(self) -> Iterator[float]:
        """Yield the hours in which it started, or lacks a few samples, by their ends."""
        before: float | None = None
        for end, (low, high) in sorted(self.starts.items()):
            lacks = _FEW_MISSING * self.expected <= self.counts.get(end, 0) < self.expected - 1
            if low != high or lacks or (before is not None and high != before):
                yield end
            before = high

    def life_at(self, end: float, at: float) -> float | None:
        """Return the start of the broker at a sample of an hour."""
        if samples := self.lives.get(end):
            return samples[max(0, bisect_right(samples, at, key=lambda one: one[0]) - 1)][1]
        return self.starts[end][1] if end in self.starts else None

    def covered(self, ends: Iterable[float]) -> Iterator[float]:
        """Yield the hours without a gap of more than two intervals, but for the time in which the broker was off."""
        known = sorted(self.starts)
        for end in ends:
            if end in self.lives:
                is_covered = self._has_no_gap(end, self.lives[end])
            else:
                is_covered = self.counts.get(end, 0) >= self.expected - 1 and self._ran(end, known)
            if is_covered:
                yield end

    def _ran(self, end: float, known: Sequence[float]) -> bool:
        """Return whether no restart of the hour may be hidden: its start was kept, or a later one is of before."""
        at = bisect_left(known, end)
        if at == len(known):
            return self.start is None
        return known[at] == end or self.starts[known[at]][0] <= end - HOUR_SECONDS

    def _has_no_gap(self, end: float, samples: Sequence[tuple[float, float]]) -> bool:
        longest = 2 * (self.interval or 0) * _JITTER
        if not samples or samples[0][0] > end - HOUR_SECONDS + longest:
            return False
        gaps = pairwise([*samples, (end, samples[-1][1])])
        return all((at if start == life else start) - before <= longest for (before, life), (at, start) in gaps)


def own_place(labels: Labels) -> dict[str, str]:
    """Return the labels that stay the same when a target starts again."""
    names = ("job", "namespace", "pod") if labels.get("pod") else ("job", "instance")
    return {name: labels.get(name, "") for name in names}


def place_of(labels: Labels) -> Place:
    """Return what tells a target apart."""
    return tuple(own_place(labels).values())


def coverage(group: Sequence[Target], since: float, last: float, until: float) -> BrokerCoverage:
    """Return what is known of the targets of one broker in the hours from ``since`` to ``last``.

    An hour that one of them covers is covered. The hour that runs must have half of its samples.
    """
    ends = [since + HOUR_SECONDS * n for n in range(1, round((last - since) / HOUR_SECONDS) + 1)]
    of_broker = [each for each in group if is_of_broker(each.of(Requests))]
    covered = {end for target in of_broker or group for end in target.covered(ends)}
    holes = [end for end in ends if end not in covered]
    if until - last > _RUNNING and not any(each.runs(last, until) for each in of_broker or group):
        holes.append(last + HOUR_SECONDS)
    lives = {life for each in group for end, lives in each.starts.items() if end > since for life in lives}
    sources = {each.start.source for each in group if each.start}
    newest = next((each.starts[max(each.starts)][1] for each in group if each.starts), None)
    names = (each.labels.get(name, "") for each in group for name in _NAMING)
    return replace(
        shown(group[0].broker, [one for each in group for one in each.series]),
        hosts=tuple(sorted({host for name in names for host in host_names(name)})),
        started=started_at(newest),
        hours=max(0, len(ends) - len(holes)),
        of_hours=len(ends),
        holes=tuple(time_of(end - HOUR_SECONDS) for end in holes),
        restarts=max(0, len(lives) // max(1, len(sources)) - 1),
        is_broker=bool(of_broker),
        interval=next((each.interval for each in group if each.interval), None),
        unread=sum(each.is_unread for each in group),
        problem=_MIXED if any(each.is_mixed for each in group) else "",
    )
