"""Who uses what: software by listener, on which brokers, and when it was seen. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from featuregate_fleet.metrics.evidence import HOUR, MetricsEvidence, hour_of, oldest_release

_COLUMNS: Final = 48
_BARS: Final = "▁▂▃▄▅▆▇█"
_NONE: Final = "·"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareUse:
    """One release of a software on one listener."""

    software: str
    """Name and version."""
    listener: str
    brokers: tuple[str, ...]
    connections: dict[datetime, int]
    """By the begin of each hour in which it was connected, the most connections to all brokers at a sample."""

    @property
    def most(self) -> int:
        """The most connections in an hour; 0 for software that was connected between samples alone."""
        return max(self.connections.values(), default=0)

    def bars(self, since: datetime, until: datetime) -> str:
        """Draw the connections from left to right: a bar for each part of the time, on a logarithmic scale."""
        hours = max(1, math.ceil((until - hour_of(since)) / HOUR))
        columns = min(_COLUMNS, hours)
        most: defaultdict[int, int] = defaultdict(int)
        for hour, count in self.connections.items():
            at = min(columns - 1, int((hour - hour_of(since)) / HOUR * columns / hours))
            most[at] = max(count, most[at])
        return "".join(_bar(most[at], self.most) for at in range(columns))


def _bar(count: int, most: int) -> str:
    return _BARS[round((len(_BARS) - 1) * math.log1p(count) / math.log1p(most))] if count else _NONE


def software_in_use(evidence: MetricsEvidence) -> Iterator[SoftwareUse]:
    """Yield each software, in the order of its name. What two exporters say of one broker counts once."""
    found: defaultdict[tuple[str, str], defaultdict[tuple[datetime, str], int]]
    found = defaultdict(lambda: defaultdict(int))
    for one in evidence.software:
        of_broker = found[one.text, one.listener]
        of_broker[one.hour, one.broker] = max(one.connections, of_broker[one.hour, one.broker])
    for (software, listener), of_brokers in sorted(found.items()):
        connections: defaultdict[datetime, int] = defaultdict(int)
        for (hour, _), count in of_brokers.items():
            connections[hour] += count
        yield SoftwareUse(
            software=software,
            listener=listener,
            brokers=tuple(sorted({broker for _, broker in of_brokers})),
            connections=dict(sorted(connections.items())),
        )


def broker_releases(evidence: MetricsEvidence) -> dict[str, str]:
    """Return the oldest release that each broker may run, by what it answered."""
    answered: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for one in evidence.requests:
        answered[one.broker].add((one.api, one.version))
    return {one.broker: oldest_release(frozenset(answered[one.broker])) for one in evidence.brokers}
