"""From what a Prometheus has kept to evidence: lives of brokers, hours that are covered, and counters in them.

An hour in which a broker did not restart is asked for by its last value, and any other by all of its samples. Only what
decides is asked for hour by hour: versions that the target does not serve, and software that may break.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from operator import add
from typing import Final

from featuregate_fleet.metrics.counters import Growth, Point, growth
from featuregate_fleet.metrics.evidence import (
    HOUR_SECONDS,
    MetricsEvidence,
    RequestCount,
    SoftwareSeen,
    hour_of,
    named_by,
)
from featuregate_fleet.metrics.pages import M, life_of, whole
from featuregate_fleet.metrics.prometheus import Prometheus, selector
from featuregate_fleet.metrics.spellings import (
    KINDS,
    NAMES,
    Connected,
    Converted,
    Deprecated,
    Labels,
    Meaning,
    Requests,
    Started,
    meaning_of,
    own_labels,
)
from featuregate_fleet.metrics.targets import (
    PLACE,
    Hours,
    Place,
    Target,
    coverage,
    joined,
    life_at,
    own_place,
    place_of,
    time_of,
    unsteady,
)

_FETCHES: Final = ("Fetch", "FetchConsumer")
_FUNCTIONS: Final[Mapping[str, tuple[str, str, Callable[[float, float], float]]]] = {
    "count": ("count", "max", add),
    "sum": ("max", "sum", add),
    "min": ("min", "min", min),
    "max": ("max", "max", max),
}
"""How a value is found: over the time, of the series of a target, and of two addresses of a pod."""


class History:
    """Reads the evidence of a time.

    Parameters
    ----------
    conditions
        What chooses the cluster: conditions of PromQL, such as ``cluster="orders"``.
    decides
        Whether requests or a software may decide about the verdict, so that their times are needed.
    """

    def __init__(
        self,
        server: Prometheus,
        conditions: Sequence[str],
        since: datetime,
        until: datetime,
        decides: Callable[[Meaning], bool],
    ) -> None:
        self._server = server
        self._conditions = conditions
        self._decides = decides
        self._unread: set[Place] = set()
        """The targets of which a value is not a number."""
        self._until = until.timestamp()
        self._last = math.floor(self._until / HOUR_SECONDS) * HOUR_SECONDS
        self._since = math.floor(since.timestamp() / HOUR_SECONDS) * HOUR_SECONDS

    def read(self) -> MetricsEvidence:
        """Ask the server.

        Raises
        ------
        MetricsUnread
            It cannot be asked, or has more than is believed.
        """
        of_place = {target.place: target for target in self._targets()}
        self._read_lives(of_place)
        targets = [each for each in of_place.values() if max(each.counts, default=self._until) > self._since]
        of_place = {target.place: target for target in targets}
        grown = self._grown(of_place)
        groups = joined(targets)
        names = {target.place: group[0].name for group in groups for target in group}
        requests = [count for target in targets for count in self._requests(target, grown, names[target.place])]
        software = tuple(self._software(of_place, names))
        new = [
            one
            for (_, one), found in grown.items()
            if isinstance(one, Deprecated) and any(each.is_new for each in found)
        ]
        return MetricsEvidence(
            since=time_of(self._since),
            until=time_of(self._until),
            brokers=tuple(
                coverage(
                    group, self._since, self._last, self._until, len({each.place for each in group} & self._unread)
                )
                for group in groups
            ),
            requests=tuple(_of_best_target(requests)),
            deprecated=named_by(new),
            software=software,
            converted=tuple(sorted({(one.call, one.topic) for each in targets for one in each.of(Converted)})),
        )

    # ------------------------------------------------------------ targets, their lives and hours

    def _targets(self) -> list[Target]:
        """Return the targets that had any of these metrics; those that only have a start are not brokers."""
        chosen = selector({}, f"__name__=~{json.dumps(NAMES)}", f'name=~"{KINDS}"', *self._conditions)
        found: dict[Place, Target] = {}
        for labels in self._server.series(chosen, self._since, self._until):
            meaning = meaning_of(labels.get("__name__", ""), labels)
            if meaning is not None:
                target = Target(labels)
                series, own = found.setdefault(target.place, target).series, own_labels(labels)
                # Rules that were changed in this time give two names to one metric: one of them is read.
                series[meaning] = max(own, series.get(meaning, own), key=lambda each: sorted(each.items()))
        return [each for each in found.values() if any(not isinstance(one, Started) for one in each.series)]

    def _read_lives(self, of_place: Mapping[Place, Target]) -> None:
        """Read how many samples each hour has, and when the broker started."""
        targets = list(of_place.values())
        for _, own in _distinct(targets, Requests, _is_reference):
            for place, hours in self._hours(own, "count", len(targets)).items():
                if target := of_place.get(place):
                    target.counts |= {end: max(count, target.counts.get(end, 0)) for end, count in hours.items()}
        without = {place: target for place, target in of_place.items() if not target.counts}
        for meaning, own in _distinct(targets, Started):
            self._read_starts(meaning, own, of_place)
            # A controller does not answer what brokers do: the samples of its start are counted.
            for place, hours in self._hours(own, "count", len(targets)).items() if without else ():
                if place in without:
                    without[place].counts = hours
        for target in targets:
            target.interval = next(self._intervals(target), None)
            for end in unsteady(target):
                target.lives[end] = self._raw(target, target.series[target.start] if target.start else {}, end)

    def _read_starts(self, meaning: Started, own: Labels, of_place: Mapping[Place, Target]) -> None:
        lowest, highest = (self._hours(own, function, len(of_place)) for function in ("min", "max"))
        for place, hours in highest.items():
            if target := of_place.get(place):
                target.known_starts |= {life_of(meaning.source, start) for start in hours.values()} - {None}
                if target.start == meaning and target.series[meaning] == own:
                    low = lowest.get(place, {})
                    target.starts = {end: (low.get(end, high), high) for end, high in hours.items()}

    def _intervals(self, target: Target) -> Iterator[float]:
        """Yield the seconds between two samples of the fullest hour: the median, which a hole in each hour leaves."""
        end = max(target.counts, key=lambda one: target.counts[one], default=0.0)
        for _, own in [*_distinct([target], Requests, _is_reference), *_distinct([target], Started)] if end else ():
            chosen = selector({**own, **own_place(target.labels)}, *self._conditions)
            for series in self._server.raw(chosen, end, HOUR_SECONDS):
                gaps = sorted(after[0] - before[0] for before, after in pairwise(series.values))
                if gaps and (median := gaps[len(gaps) // 2]) > 0:
                    yield median

    def _hours(self, own: Labels, function: str, series: int) -> dict[Place, Hours]:
        """Return a function of the samples of each hour, from the one before the time on, and of the hour that runs.

        ``sum`` adds the highest samples of network threads up.
        """
        over, together, merged = _FUNCTIONS[function]
        chosen = f"{over}_over_time({selector(own, *self._conditions)}[{{window}}])"
        expression = f"{together} by ({', '.join(PLACE)}) ({chosen})"
        found: defaultdict[Place, Hours] = defaultdict(dict)
        answers = list(self._server.hourly(expression, self._since, self._last, series))
        if (seconds := int(self._until - self._last)) >= 60:  # noqa: PLR2004 - less shows nothing
            answers += self._server.at(expression, self._until, seconds)
        for labels, values in answers:
            hours = found[place_of(labels)]
            for end, value in values:
                if self._since <= end <= self._until + 1:  # a server may say any time
                    # A pod that started again has two addresses in this hour.
                    hours[end] = merged(hours[end], value) if end in hours else value
        for place, hours in found.items():
            if not all(map(math.isfinite, hours.values())):
                self._unread.add(place)
                found[place] = {end: value for end, value in hours.items() if math.isfinite(value)}
        return {place: hours for place, hours in found.items() if hours}

    def _raw(self, target: Target, own: Labels, end: float) -> list[tuple[float, float]]:
        """Return all samples of a series in the hour, and a little before."""
        seconds = HOUR_SECONDS + int(3 * (target.interval or 0))
        chosen = selector({**own, **own_place(target.labels)}, *self._conditions)
        found = (one for series in self._server.raw(chosen, end, seconds) for one in series.values)
        return sorted(one for one in found if end - seconds <= one[0] <= end and math.isfinite(one[1]))

    # ------------------------------------------------------------ counters, and software

    def _grown(self, of_place: Mapping[Place, Target]) -> dict[tuple[Place, Requests | Deprecated], list[Growth]]:
        """Return what the counters prove that may decide."""
        found: dict[tuple[Place, Requests | Deprecated], list[Growth]] = {}
        decide: list[tuple[Requests | Deprecated, Labels]]
        targets = of_place.values()
        decide = [*_distinct(targets, Requests, self._decides), *_distinct(targets, Deprecated, self._decides)]
        for meaning, own in decide:
            lowest, highest = (self._hours(own, function, len(of_place)) for function in ("min", "max"))
            for place, hours in highest.items():
                if any(whole(value) is None for value in hours.values()):
                    self._unread.add(place)
                if (target := of_place.get(place)) and target.is_mixed:
                    found[place, meaning] = [Growth(None, max(hours), 1, is_new=False)]
                elif target:
                    points = self._points(target, own, lowest.get(place, {}), hours)
                    found[place, meaning] = list(growth(points, self._since, target.last_before(min(hours))))
        return found

    def _points(self, target: Target, own: Labels, lowest: Hours, highest: Hours) -> Iterator[Point]:
        before = -1.0
        for end, high in sorted(highest.items()):
            if end in target.lives or lowest.get(end, high) < before:
                samples = [one for one in self._raw(target, own, end) if one[0] > end - HOUR_SECONDS]
            else:
                samples = [(end, high)]
            for at, value in samples:
                if (count := whole(value)) is not None:
                    yield Point(at, count, life_at(target, end, at))
            before = samples[-1][1] if samples else before

    def _requests(
        self, target: Target, grown: Mapping[tuple[Place, Requests | Deprecated], list[Growth]], broker: str
    ) -> Iterator[tuple[Place, RequestCount]]:
        """Yield the requests of a target; of those that decide nothing, that there were some."""
        for pair in target.of(Requests):
            parts = {Requests(part, pair.version) for part in ("FetchConsumer", "FetchFollower")}
            if pair.api == "Fetch" and target.series.keys() & parts:
                continue  # FetchConsumer has the same requests, without those of followers
            api = "Fetch" if pair.api in _FETCHES else pair.api
            found = grown.get((target.place, pair), [])
            for after, at, events, is_new in (
                found if self._decides(pair) else [Growth(None, self._until, 1, is_new=True)]
            ):
                began = time_of(after) if after is not None and 0 < after < at else None
                yield target.place, RequestCount(broker, api, pair.version, events, began, time_of(at), is_new)

    def _software(self, of_place: Mapping[Place, Target], names: Mapping[Place, str]) -> Iterator[SoftwareSeen]:
        """Yield software: by hour, where it may decide. One that left before the time is left out."""
        for meaning, own in _distinct(of_place.values(), Connected):
            decides = self._decides(meaning)
            hours = self._hours(own, "sum", len(of_place)) if decides else {}
            for target in (each for each in of_place.values() if own in each.series.values()):
                found = hours.get(target.place, {}) if decides else {self._until: 0.0}
                connected = {end: count for end, count in found.items() if count > 0 and end > self._since}
                if not connected and found and (not decides or target.last_before(min(found)) is not None):
                    connected = {max(found): 0.0}
                _, version, listener, _ = meaning
                for end, count in sorted(connected.items()):
                    hour = hour_of(time_of(end - 1))
                    yield SoftwareSeen(names[target.place], listener, meaning.software, version, hour, int(count))


def _is_reference(one: Meaning) -> bool:
    """Return whether it is of a request that each broker with clients answers, so that it is on each page."""
    return isinstance(one, Requests) and one.api == "Metadata"


def _distinct(
    targets: Iterable[Target], kind: type[M], wanted: Callable[[Meaning], bool] = bool
) -> list[tuple[M, Labels]]:
    """Return the series of a kind that are wanted, each once for all targets."""
    found = (each for target in targets for each in target.series.items())
    of_kind = ((meaning, own) for meaning, own in found if isinstance(meaning, kind) and wanted(meaning))
    return list({tuple(sorted(own.items())): (meaning, own) for meaning, own in of_kind}.values())


def _of_best_target(requests: Iterable[tuple[Place, RequestCount]]) -> Iterator[RequestCount]:
    """Yield the requests of each broker by the target that shows most of them: two exporters count each."""
    found: defaultdict[tuple[str, str, int], defaultdict[Place, list[RequestCount]]]
    found = defaultdict(lambda: defaultdict(list))
    for place, one in requests:
        found[one.broker, one.api, one.version][place].append(one)
    for of_places in found.values():
        yield from max(of_places.values(), key=lambda counts: sum(one.count for one in counts))
