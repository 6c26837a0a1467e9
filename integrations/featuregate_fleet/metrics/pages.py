"""From the pages of exporters to evidence: what each counter says of the time since its broker started. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from featuregate.printable import some
from featuregate_fleet.metrics.evidence import (
    HOUR,
    MOST_PAIRS,
    BrokerCoverage,
    MetricsEvidence,
    RequestCount,
    SoftwareSeen,
    host_names,
    hour_of,
    is_of_broker,
    named_by,
    without_nodes,
)
from featuregate_fleet.metrics.spellings import Connected, Converted, Deprecated, Meaning, Requests, Started, Unusable

if TYPE_CHECKING:
    from featuregate_fleet.metrics.samples import Samples

M = TypeVar("M", bound=Meaning)
_EXACT: Final = 2**53
"""Above this a float does not count exactly."""
_YEAR_2018: Final = 1_514_764_800
"""Kafka 2.0, the first release with these metrics, is of this year: an older start is not one, or of a wrong clock."""
_YEAR_2100: Final = 4_102_444_800
SOURCES: Final = ("kafkaserverappinfostarttimems", "javalangruntimestarttime", "processstarttimeseconds")
"""The starts of a broker, the best first: the last one may be of an exporter with a process of its own."""


class Page(NamedTuple):
    """One page, and where and when it was read."""

    broker: str
    """What the operator calls it, or where it was read."""
    at: datetime
    samples: Samples
    is_named: bool = True
    """False: the id of the broker, if a metric has it, is the better name."""


class NodeMetrics(NamedTuple):
    """What the pages of one node have together."""

    broker: str
    at: datetime
    values: dict[Meaning, float]
    unread: int

    def of(self, kind: type[M]) -> dict[M, int]:
        """Return the values of one kind."""
        return {meaning: int(value) for meaning, value in self.values.items() if isinstance(meaning, kind)}

    def used(self, kind: type[M]) -> dict[M, int]:
        """Return those that are not 0."""
        return {meaning: count for meaning, count in self.of(kind).items() if count}

    @property
    def starts(self) -> dict[str, float]:
        """The starts of the node by their source, each the last one that it has."""
        found = sorted((value, one.source) for one, value in self.values.items() if isinstance(one, Started))
        return {source: value for value, source in found}

    @property
    def problem(self) -> str:
        """Why its metrics may be of another broker than they were named for; empty where nothing says so."""
        ids = {one.broker for one in self.values if isinstance(one, Started) and one.broker}
        return (
            f"they say that it is broker {some(sorted(ids))}" if self.broker.isdecimal() and ids - {self.broker} else ""
        )


def evidence_of(
    pages: Sequence[Page], since: datetime, until: datetime, problems: Sequence[tuple[str, str]] = ()
) -> MetricsEvidence:
    """Return what pages say of the time from ``since``. Two pages of one node count once.

    ``problems`` has the brokers of which no page could be read, each with the reason.
    """
    nodes = _joined([_node(page) for page in pages])
    unread = (BrokerCoverage(broker=one, is_broker=False, has_requests=False, problem=why) for one, why in problems)
    return MetricsEvidence(
        since=since,
        until=until,
        brokers=(*(_coverage(node, since, until) for node in nodes), *unread),
        requests=tuple(count for node in nodes for count in _requests(node)),
        deprecated=named_by(one for node in nodes for one in node.used(Deprecated)),
        software=tuple(seen for node in nodes for seen in _software(node)),
        converted=tuple(sorted({(one.call, one.topic) for node in nodes for one in node.used(Converted)})),
    )


def started_at(starts: dict[str, float]) -> datetime | None:
    """Return the start of a broker by the best source that has it."""
    best = next((source for source in SOURCES if source in starts), None)
    seconds = None if best is None else start_seconds(best, starts[best])
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def start_seconds(source: str, value: float) -> float | None:
    """Return a start in seconds since the epoch; None for what is none."""
    seconds = value if source.endswith("seconds") else value / 1000
    return seconds if _YEAR_2018 < seconds < _YEAR_2100 else None


def life_of(source: str, value: float) -> tuple[bool, int] | None:
    """Return what two exporters on one broker show alike: the start of its process, or of Kafka in it, in ms."""
    seconds = start_seconds(source, value)
    return None if seconds is None else (source == SOURCES[0], round(seconds * 1000))


def whole(value: float) -> int | None:
    """Return the value of a counter; None for what no counter is, such as NaN, or one that rules scale below 1."""
    return int(value) if 0 <= value < _EXACT and value % 1 == 0 else None


def _node(page: Page) -> NodeMetrics:
    values: dict[Meaning, float] = {}
    unread_lines, broker = page.samples.unread, page.broker
    for meaning, value in page.samples.samples:
        if isinstance(meaning, Started) and math.isfinite(value):
            values[meaning] = max(value, values.get(meaning, value))
            broker = broker if page.is_named else meaning.broker or broker
        elif isinstance(meaning, Unusable):
            values[meaning] = 0.0
        elif whole(value) is None:
            unread_lines += 1
        else:
            values[meaning] = max(value, values.get(meaning, 0.0))
    return NodeMetrics(broker, page.at, values, unread_lines)


def _joined(nodes: Iterable[NodeMetrics]) -> list[NodeMetrics]:
    """Join the pages of one node: of one name, or of one start to the millisecond, as two exporters show it."""
    joined: list[NodeMetrics] = []
    for node in nodes:
        for same in [one for one in reversed(joined) if _is_same(one, node)]:
            joined.remove(same)
            node = _both(same, node)  # noqa: PLW2901 - it may join several
        joined.append(node)
    return joined


def _is_same(one: NodeMetrics, other: NodeMetrics) -> bool:
    lives, others = ({life_of(*each) for each in node.starts.items()} - {None} for node in (one, other))
    return one.broker == other.broker or bool(lives & others)


def _both(one: NodeMetrics, other: NodeMetrics) -> NodeMetrics:
    values = {key: max(one.values.get(key, 0.0), other.values.get(key, 0.0)) for key in one.values | other.values}
    return NodeMetrics(one.broker, min(one.at, other.at), values, one.unread + other.unread)


def _coverage(node: NodeMetrics, since: datetime, until: datetime) -> BrokerCoverage:
    """Return what a page covers: the hours since the broker started, up to the page."""
    started, hours = started_at(node.starts), max(1, round((until - since) / HOUR))
    covered = max(0, round((node.at - max(started or node.at, since)) / HOUR))
    is_whole = started is not None and started <= since and abs(until - node.at) <= HOUR
    return BrokerCoverage(
        broker=node.broker,
        hosts=tuple(sorted(host_names(node.broker))),
        started=started,
        hours=hours if is_whole else min(covered, hours - 1),
        of_hours=hours,
        is_broker=is_of_broker(node.used(Requests)),
        has_requests=bool(node.used(Requests)),
        has_software=bool(node.of(Connected)),
        full_listeners=full_listeners(node.of(Connected)),
        unusable=tuple(sorted(one.lacks for one in node.of(Unusable))),
        unread=node.unread,
        problem=node.problem,
    )


def full_listeners(pairs: Iterable[Connected]) -> tuple[str, ...]:
    """Return the listeners at which a thread has as many pairs of software and version as it can count."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for pair in pairs:
        found[pair.listener, pair.thread] += 1
    return tuple(sorted({listener for (listener, _), count in found.items() if count >= MOST_PAIRS}))


def _requests(node: NodeMetrics) -> Iterator[RequestCount]:
    started = started_at(node.starts)
    for (api, version), count in sorted(without_nodes(node.used(Requests)).items()):
        yield RequestCount(node.broker, api, version, count, started, node.at)


def _software(node: NodeMetrics) -> Iterator[SoftwareSeen]:
    found: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for pair, connections in node.of(Connected).items():
        found[pair.listener, pair.software, pair.software_version] += connections
    for (listener, name, version), connections in sorted(found.items()):
        yield SoftwareSeen(node.broker, listener, name, version, hour_of(node.at), connections)
