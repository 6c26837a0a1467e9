"""From samples of targets to evidence: which of them are one broker, which hours are covered, what was counted. Pure.

A target is a place that a server has scraped again and again, or a page, which is one sample.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from featuregate_fleet.metrics.evidence import (
    BY_CLIENTS,
    BY_FOLLOWERS,
    FETCH,
    HOUR_SECONDS,
    MOST_PAIRS,
    BrokerCoverage,
    MetricsEvidence,
    RequestCount,
    SoftwareSeen,
    host_names,
    is_of_broker,
    named_by,
)
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
from featuregate_fleet.readiness.hours import hour_of

M = TypeVar("M", bound=Meaning)
_YEAR_2018: Final = 1_514_764_800
"""Kafka 2.0, the first release with these metrics, is of this year: an older start is not one, or of a wrong clock."""
_YEAR_2100: Final = 4_102_444_800
Life = tuple[bool, int]
"""A start as two exporters on one broker show it alike: of its process, or of Kafka in it, in milliseconds."""


def started_at(seconds: float | None) -> datetime | None:
    """Return when a broker started; None for what is not a start."""
    return time_of(seconds) if seconds is not None and _YEAR_2018 < seconds < _YEAR_2100 else None


def time_of(seconds: float) -> datetime:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def life_of(one: Started, value: float) -> Life | None:
    """Return what tells the lives of brokers apart; None for what is not a start."""
    seconds = one.seconds(value)
    return ("app" in one.source, round(seconds * 1000)) if started_at(seconds) else None


def called(meanings: Iterable[Meaning], otherwise: str) -> str:
    """Return the id of the broker if a metric has it, and otherwise another name."""
    ids = {one.broker for one in meanings if isinstance(one, Started) and one.broker}
    return ids.pop() if len(ids) == 1 else otherwise


class Growth(NamedTuple):
    """Events that a sample shows for the first time."""

    after: float | None
    """When they happened at the earliest: the sample before, or the start of the broker. None: that is not known."""
    at: float
    events: int


Point = tuple[float, int, float | None]
"""The time of a sample, its value, and the start of the broker, if a metric has it."""


def growth(points: Iterable[Point], since: float, absent_at: float | None) -> Iterator[Growth]:
    """Yield what a counter proves from ``since`` on, oldest first. The first sample of a life counts whole.

    ``points``: in their order, with one of before ``since`` if there is one; of an hour in which nothing but this
    counter changed, the last one. ``absent_at``: the last sample of the broker before these that did not have the
    counter; None without one.
    """
    after, before, life = absent_at, 0, None
    for at, value, start in points:
        goes_on = before <= value and (start == life or None in {start, life})
        events = value - before if goes_on else value
        if events and at > since:
            yield Growth(start if after is None else after, at, events)
        after, before, life = at, value, start


def of_clients(grown: Mapping[Requests, list[Growth]]) -> dict[Requests, list[Growth]]:
    """Leave the fetches of followers out of Fetch, which counts each request of a follower or client again."""
    found = {pair: counted for pair, counted in grown.items() if pair.api not in {FETCH, BY_CLIENTS}}
    for version in {pair.version for pair in grown if pair.api in {FETCH, BY_CLIENTS}}:
        every, clients, followers = (grown.get(Requests(api, version), []) for api in (FETCH, BY_CLIENTS, BY_FOLLOWERS))
        if followers and not clients and (others := events_of(every) - events_of(followers)) > 0:
            clients = [Growth(every[0].after, every[-1].at, others)]
        found[Requests(FETCH, version)] = clients if clients or followers else every
    return found


def events_of(counted: Iterable[Growth]) -> int:
    """Return how many there are at least."""
    return sum(one.events for one in counted)


PLACE: Final = ("job", "instance", "namespace", "pod")
"""The labels that tell targets apart. A pod keeps its name, and has another address after each restart."""
_NAMING: Final = ("instance", "pod", "kubernetes_pod_name", "host", "hostname")
"""The labels that name the machine or the container of a target."""
_FEW_MISSING: Final = 0.9
"""The share of samples from which on an hour may be covered."""
_JITTER: Final = 1.1
_RUNNING: Final = 300
"""Seconds after which the hour that runs has samples, also of a server that takes some time to show them."""

Place = tuple[str, ...]
Hours = dict[float, float]
"""By the end of the hour, in seconds since the epoch."""
Ranges = dict[float, tuple[float, float]]
"""The lowest and the highest sample of each hour."""


@dataclass(eq=False, kw_only=True)
class Target:
    """One target, and what was found of it."""

    broker: str
    """What people call the broker."""
    labels: Labels = field(default_factory=dict)
    series: dict[Meaning, Labels] = field(default_factory=dict)
    marks: set[object] = field(default_factory=set)
    """What no target of another broker has: when it started, and what a person called it."""
    counts: Hours = field(default_factory=dict)
    """The samples in each hour."""
    starts: Ranges = field(default_factory=dict)
    """In seconds since the epoch."""
    lives: dict[float, list[tuple[float, float]]] = field(default_factory=dict)
    """Each whole sample with its start, for hours with a restart and those that lack samples or parts of them."""
    interval: float | None = None
    """Seconds between two samples; None for a page."""
    grown: dict[Requests | Deprecated, list[Growth]] = field(default_factory=dict)
    """What counters have counted; of those that decide nothing, that there was some."""
    connected: defaultdict[tuple[str, str, str], Hours] = field(default_factory=lambda: defaultdict(dict))
    """The most connections in an hour by listener, and name and version of the software."""
    named: set[float] = field(default_factory=set)
    """The ends of the hours that have the metric of connected software; of a server."""
    unread: int = 0
    """Lines that are not in the text format, and values that are not numbers of events."""
    problem: str = ""
    """Why nothing of it could be read, or its metrics may be of another broker, or of several."""

    def of(self, kind: type[M]) -> list[M]:
        """Return what its series of one kind are about."""
        return [one for one in self.series if isinstance(one, kind)]

    @cached_property
    def start(self) -> Started | None:
        """The best metric of the start of the broker."""
        return min(self.of(Started), key=lambda one: (list(SOURCES).index(one.source), one.broker), default=None)

    @property
    def started(self) -> datetime | None:
        """The newest start of the broker; None where no metric has it."""
        return started_at(self.starts[max(self.starts)][1] if self.starts else None)

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


# ---------------------------------------------------------------- evidence


def evidence_of(targets: Sequence[Target], since: datetime, until: datetime) -> MetricsEvidence:
    """Return what targets say of the time from ``since``. Two targets of one broker count once."""
    brokers = _one_broker_each(targets)
    for group in brokers:
        for target in group:
            target.broker = group[0].broker
    return MetricsEvidence(
        since=since,
        until=until,
        brokers=tuple(_coverage(group, since.timestamp(), until.timestamp()) for group in brokers),
        requests=tuple(_requests(targets)),
        deprecated=named_by(one for target in targets for one in target.of(Deprecated) if target.grown.get(one)),
        software=tuple(_software(targets)),
    )


def _one_broker_each(targets: Iterable[Target]) -> list[list[Target]]:
    """Group the targets of one broker: these have a mark in common, such as one start, to the millisecond."""
    groups: list[tuple[set[object], list[Target]]] = []
    for one in targets:
        same = [group for group in groups if group[0] & one.marks]
        groups = [group for group in groups if group not in same]
        groups.append((one.marks.union(*(of for of, _ in same)), [*(each for _, of in same for each in of), one]))
    return [group for _, group in groups]


def _coverage(group: Sequence[Target], since: float, until: float) -> BrokerCoverage:
    """Return what is known of the targets of one broker.

    An hour that one of them covers is covered. The hour that runs must have half of its samples, unless it has just
    begun and there are others.
    """
    ends = [since + HOUR_SECONDS * n for n in range(1, int((until - since + 1) // HOUR_SECONDS) + 1)]
    last = ends[-1] if ends else since
    of_broker = [each for each in group if is_of_broker(each.of(Requests))]
    # What comes from the future, by the clock of this machine, shows no time.
    showing = [one for one in of_broker or group if max(one.counts, default=until) <= until + HOUR_SECONDS]
    covered = {end for target in showing for end in target.covered(ends)}
    named = {end for target in showing for end in target.named}
    holes = [end for end in ends if end not in covered]
    if (until - last > _RUNNING or not ends) and not any(each.runs(last, until) for each in showing):
        holes.append(last + HOUR_SECONDS)
    meanings = [one for each in group for one in each.series]
    full = Counter((one.listener, one.thread) for one in {one for one in meanings if isinstance(one, Connected)})
    names = (each.labels.get(name, "") for each in group for name in _NAMING)
    return BrokerCoverage(
        broker=group[0].broker,
        hosts=tuple(sorted({host for name in names for host in host_names(name)})),
        started=next((each.started for each in group if each.started), None),
        hours=max(0, len(ends) - len(holes)),
        of_hours=len(ends),
        holes=tuple(time_of(end - HOUR_SECONDS) for end in holes),
        restarts=_restarts(group, since),
        is_broker=bool(of_broker),
        has_requests=any(isinstance(one, Requests) for one in meanings),
        has_software=bool(full) and not (any(each.interval for each in showing) and covered - named),
        full_listeners=tuple(sorted({listener for (listener, _), count in full.items() if count >= MOST_PAIRS})),
        unusable=tuple(sorted({one.lacks for one in meanings if isinstance(one, Unusable)})),
        unread=sum(each.unread for each in group),
        interval=next((each.interval for each in group if each.interval), None),
        converted=tuple(sorted({(one.call, one.topic) for one in meanings if isinstance(one, Converted)})),
        problem=next((each.problem for each in group if each.problem), ""),
    )


def _restarts(group: Iterable[Target], since: float) -> int:
    """Return how many the metric of a start shows that shows most, from the last sample before the time on."""
    lives: defaultdict[str, set[float]] = defaultdict(set)
    for each in group:
        for end, (low, high) in each.starts.items():
            if each.start and end >= since:
                lives[each.start.source] |= {low, high} if end > since else {high}
    return max([1, *map(len, lives.values())]) - 1


def _requests(targets: Iterable[Target]) -> Iterator[RequestCount]:
    """Yield the requests of each broker by the target that shows most of them: two exporters count each."""
    found: defaultdict[tuple[str, Requests], list[list[Growth]]] = defaultdict(list)
    for target in targets:
        counted = {one: grown for one, grown in target.grown.items() if isinstance(one, Requests)}
        for pair, grown in of_clients(counted).items():
            found[target.broker, pair].append(grown)
    for (broker, pair), of_targets in sorted(found.items()):
        for after, at, events in max(of_targets, key=events_of):
            began = time_of(after) if after is not None and 0 < after < at else None
            yield RequestCount(broker, *pair, events, began, time_of(at))


def _software(targets: Iterable[Target]) -> Iterator[SoftwareSeen]:
    for target in targets:
        for (listener, name, version), connected in sorted(target.connected.items()):
            for end, count in sorted(connected.items()):
                hour = hour_of(time_of(end - 1))
                yield SoftwareSeen(target.broker, listener, name, version, hour, int(count))
