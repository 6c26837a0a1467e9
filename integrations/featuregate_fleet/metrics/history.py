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

from featuregate_fleet.metrics.evidence import HOUR_SECONDS, SCRAPE_SECONDS, MetricsEvidence, whole
from featuregate_fleet.metrics.prometheus import Prometheus, Series, selector
from featuregate_fleet.metrics.spellings import (
    CONNECTED,
    KINDS,
    NAMES,
    Connected,
    Deprecated,
    Labels,
    Meaning,
    Requests,
    ScrapeFailed,
    Started,
    meaning_of,
    own_labels,
)
from featuregate_fleet.metrics.targets import (
    PLACE,
    Growth,
    Hours,
    M,
    Place,
    Point,
    Ranges,
    Target,
    called,
    evidence_of,
    growth,
    life_of,
    own_place,
    place_of,
    time_of,
)

_MIXED: Final = f"its start goes back, so that several brokers may share {', '.join(PLACE)}: choose one by --match"
_FUNCTIONS: Final[Mapping[str, tuple[str, str, Callable[[float, float], float]]]] = {
    "count": ("count", "max", add),
    "sum": ("max", "sum", add),
    "min": ("min", "min", min),
    "max": ("max", "max", max),
}
"""How a value is found: over the time, of the series of a target, and of two addresses of a pod."""
_DAY: Final = 24 * HOUR_SECONDS


class History:
    """Reads the evidence of a time.

    ``conditions``: what chooses the cluster: conditions of PromQL, such as ``cluster="orders"``. ``decides``: whether
    requests or a software may decide about the verdict, so that their times are needed.
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
        self._until = until.timestamp()
        self._last = math.floor(self._until / HOUR_SECONDS) * HOUR_SECONDS
        self._since = math.floor(since.timestamp() / HOUR_SECONDS) * HOUR_SECONDS
        self._targets: list[Target] = []

    def read(self) -> MetricsEvidence:
        """Ask the server. Raises MetricsUnread (it cannot be asked, or has more than is believed)."""
        self._find_targets()
        self._read_lives()
        self._targets = [one for one in self._targets if max(one.counts, default=self._until) > self._since]
        self._read_counters()
        self._read_software()
        return evidence_of(self._targets, time_of(self._since), time_of(self._until))

    # ------------------------------------------------------------ targets, their lives and hours

    def _find_targets(self) -> None:
        """Find the targets that had any of these metrics; those that only have what all exporters have are none."""
        chosen = selector({}, f"__name__=~{json.dumps(NAMES)}", f'name=~"{KINDS}"', *self._conditions)
        found: dict[Place, Target] = {}
        for labels in self._server.series(chosen, self._since, self._until):
            if (meaning := meaning_of(labels.get("__name__", ""), labels)) is not None:
                target = found.setdefault(place_of(labels), Target(broker=labels.get("instance", ""), labels=labels))
                series, own = target.series, own_labels(labels)
                # Rules that were changed in this time give two names to one metric: one of them is read.
                series[meaning] = max(own, series.get(meaning, own), key=lambda each: sorted(each.items()))
        others = (Started, ScrapeFailed)
        self._targets = [each for each in found.values() if any(not isinstance(one, others) for one in each.series)]

    def _read_lives(self) -> None:
        for _, own in _distinct(self._targets, Requests, _is_reference):
            for target, hours in self._hours(own, "count").items():
                target.counts |= {end: max(count, target.counts.get(end, 0)) for end, count in hours.items()}
        without = {target for target in self._targets if not target.counts}
        for meaning, own in _distinct(self._targets, Started):
            self._read_starts(meaning, own)
            # A controller does not answer what brokers do: the samples of its start are counted.
            for target, hours in self._hours(own, "count").items() if without else ():
                if target in without:
                    target.counts = hours
        for target in self._targets:
            target.broker = called(target.series, target.broker)
            target.problem = _MIXED if target.is_mixed else ""
            target.interval = next(self._intervals(target), None)
        parts = self._parts()
        for target in self._targets:
            if (start := target.start) is not None:
                for end in {*target.unsteady(), *parts[target]}:
                    samples = self._raw(target, target.series[start], end)
                    whole_ones = [one for one in samples if one[0] not in parts[target].get(end, ())]
                    target.lives[end] = [(at, start.seconds(value)) for at, value in whole_ones]

    def _parts(self) -> Mapping[Target, Mapping[float, set[float]]]:
        """Return the times of the samples, by target and hour, of which the exporter says that they are not whole."""
        found: defaultdict[Target, dict[float, set[float]]] = defaultdict(dict)
        for _, own in _distinct(self._targets, ScrapeFailed):
            for target, hours in self._hours(own, "max").items():
                for end in (end for end, most in hours.items() if most):
                    found[target][end] = {at for at, failures in self._raw(target, own, end) if failures}
        return found

    def _read_starts(self, meaning: Started, own: Labels) -> None:
        for target, hours in self._ranges(own).items():
            target.marks |= {life for _, high in hours.values() if (life := life_of(meaning, high))}
            if target.start == meaning and target.series[meaning] == own:
                target.starts = {
                    end: (meaning.seconds(low), meaning.seconds(high)) for end, (low, high) in hours.items()
                }

    def _intervals(self, target: Target) -> Iterator[float]:
        """Yield the seconds between two samples of the fullest hour: the median, which a hole in each hour leaves."""
        end = max(target.counts, key=lambda one: target.counts[one], default=0.0)
        for _, own in [*_distinct([target], Requests, _is_reference), *_distinct([target], Started)] if end else ():
            for series in self._samples(target, own, end, HOUR_SECONDS):
                gaps = sorted(after[0] - before[0] for before, after in pairwise(series.values))
                if gaps and (median := gaps[len(gaps) // 2]) > 0:
                    yield median

    # ------------------------------------------------------------ questions

    def _hours(self, own: Labels, function: str, *more: str) -> dict[Target, Hours]:
        """Return a function of the samples of each hour, from the one before the time on, and of the hour that runs.

        ``sum`` adds the highest samples of network threads up.
        """
        begin = self._question(own, function, *more)
        answers = list(self._server.hourly(f"{begin}[1h]))", self._since, self._last, len(self._targets)))
        if (seconds := int(self._until - self._last)) >= SCRAPE_SECONDS:
            answers += self._server.at(f"{begin}[{seconds}s]))", self._until)
        return self._by_target(answers, function, self._since)

    def _day_before(self, own: Labels) -> dict[Target, Hours]:
        """Return the highest samples of the day that ends before these hours."""
        end = self._since - HOUR_SECONDS
        return self._by_target(self._server.at(f"{self._question(own, 'max')}[{_DAY}s]))", end), "max", end)

    def _question(self, own: Labels, function: str, *more: str) -> str:
        """Return how the question for a function of samples begins, up to over which time."""
        over, together, _ = _FUNCTIONS[function]
        return f"{together} by ({', '.join(PLACE)}) ({over}_over_time({selector(own, *more, *self._conditions)}"

    def _by_target(self, answers: Iterable[Series], function: str, first: float) -> dict[Target, Hours]:
        """Return the values of each target from a time on, by the time at which they end."""
        merged = _FUNCTIONS[function][2]
        of_place = {place_of(target.labels): target for target in self._targets}
        found: defaultdict[Target, Hours] = defaultdict(dict)
        for labels, values in answers:
            if (target := of_place.get(place_of(labels))) is None:
                continue
            for end, value in values:
                if first <= end <= self._until + 1:  # a server may say any time
                    # A pod that started again has two addresses in this hour.
                    hours = found[target]
                    hours[end] = merged(hours[end], value) if end in hours else value
        for target, hours in found.items():
            if not all(map(math.isfinite, hours.values())):
                target.unread = 1
                found[target] = {end: value for end, value in hours.items() if math.isfinite(value)}
        return {target: hours for target, hours in found.items() if hours}

    def _ranges(self, own: Labels) -> dict[Target, Ranges]:
        """Return the lowest and the highest sample of each hour."""
        lowest, highest = self._hours(own, "min"), self._hours(own, "max")
        return {
            target: {end: (lowest.get(target, {}).get(end, high), high) for end, high in hours.items()}
            for target, hours in highest.items()
        }

    def _samples(self, target: Target, own: Labels, end: float, seconds: int) -> Iterator[Series]:
        chosen = selector({**own, **own_place(target.labels)}, *self._conditions)
        return self._server.at(f"{chosen}[{seconds}s]", end)

    def _raw(self, target: Target, own: Labels, end: float) -> list[tuple[float, float]]:
        """Return the samples of an hour with those shortly before it."""
        seconds = HOUR_SECONDS + int(3 * (target.interval or 0))
        found = (one for series in self._samples(target, own, end, seconds) for one in series.values)
        return sorted(one for one in found if end - seconds <= one[0] <= end and math.isfinite(one[1]))

    # ------------------------------------------------------------ counters, and software

    def _read_counters(self) -> None:
        """Count what may decide by hours; of the other counters it is enough that there was some."""
        some = [Growth(None, self._until, 1)]
        for target in self._targets:
            target.grown = (
                {} if target.problem else {one: some for one in target.of(Requests) if not self._decides(one)}
            )
        decide: list[tuple[Requests | Deprecated, Labels]]
        decide = [*_distinct(self._targets, Requests, self._decides)]
        decide += _distinct(self._targets, Deprecated, self._decides)
        has_hole = any(self._since not in target.counts for target in self._targets)
        for meaning, own in decide:
            earlier = self._day_before(own) if has_hole else {}
            for target, hours in self._ranges(own).items():
                if any(whole(high) is None for _, high in hours.values()):
                    target.unread = 1
                if not target.problem:
                    points = self._points(target, own, hours, earlier.get(target, {}))
                    target.grown[meaning] = list(growth(points, self._since, target.last_before(min(hours))))

    def _points(self, target: Target, own: Labels, hours: Ranges, earlier: Hours) -> Iterator[Point]:
        """Yield the samples of a counter, after what it had reached ``earlier`` if the broker ran all that day."""
        start = target.life_at(min(hours), 0.0)
        for end, value in earlier.items():
            if (count := whole(value)) is not None and (start is None or start <= end - _DAY):
                yield end, count, start
        before = -1.0
        for end, (low, high) in sorted(hours.items()):
            samples = [(end, high)]
            if end in target.lives or low < before:
                samples = [one for one in self._raw(target, own, end) if one[0] > end - HOUR_SECONDS]
            for at, value in samples:
                if (count := whole(value)) is not None:
                    yield at, count, target.life_at(end, at)
            before = samples[-1][1] if samples else before

    def _read_software(self) -> None:
        """Find the hours of software that may decide. One that left before the time is left out."""
        for target, hours in self._hours({}, "count", f"__name__=~{json.dumps(CONNECTED)}").items():
            target.named = {*hours}
        for meaning, own in _distinct(self._targets, Connected):
            decides = self._decides(meaning)
            of_targets = self._hours(own, "sum") if decides else {}
            for target in (each for each in self._targets if own in each.series.values()):
                found = of_targets.get(target, {}) if decides else {self._until: 0.0}
                connected = {end: count for end, count in found.items() if count > 0 and end > self._since}
                if not connected and found and (not decides or target.last_before(min(found)) is not None):
                    connected = {max(found): 0.0}
                target.connected[meaning.listener, meaning.software, meaning.software_version] |= connected


def _is_reference(one: Meaning) -> bool:
    """Return whether it is of a request that each broker with clients answers, so that it is on each page."""
    return isinstance(one, Requests) and one.api == "Metadata"


def _distinct(
    targets: Iterable[Target], kind: type[M], wanted: Callable[[Meaning], bool] = bool
) -> list[tuple[M, Labels]]:
    found = (each for target in targets for each in target.series.items())
    of_kind = ((meaning, own) for meaning, own in found if isinstance(meaning, kind) and wanted(meaning))
    return list({tuple(sorted(own.items())): (meaning, own) for meaning, own in of_kind}.values())
