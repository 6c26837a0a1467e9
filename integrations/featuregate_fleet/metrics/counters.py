"""The life of a counter: what its samples prove, which is never more than what happened. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from featuregate_fleet.metrics.evidence import BY_CLIENTS, BY_FOLLOWERS, FETCH
from featuregate_fleet.metrics.spellings import Requests

_EXACT: Final = 2**53
"""Above this a float does not count exactly."""


def whole(value: float) -> int | None:
    """Return the value of a counter; None for what no counter is, such as NaN, or one that rules scale below 1."""
    return int(value) if 0 <= value < _EXACT and value % 1 == 0 else None


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
    """When they happened at the earliest: the sample before, or the start of the broker. None: that is not known."""
    at: float
    events: int


def growth(points: Iterable[Point], since: float, absent_at: float | None) -> Iterator[Growth]:
    """Yield what a counter proves from ``since`` on, oldest first. The first sample of a life counts whole.

    ``points``: in the order of their times, with one of before ``since`` if there is one. ``absent_at``: the last
    sample of the broker before these that did not have the counter; None without one.
    """
    before: Point | None = None
    for point in points:
        at, events, life = point
        after = before.at if before else absent_at
        if before and before.value <= events and (life == before.life or None in {life, before.life}):
            events -= before.value
        if events and at > since:
            yield Growth(life if after is None else after, at, events)
        before = point


def of_clients(grown: Mapping[Requests, list[Growth]]) -> dict[Requests, list[Growth]]:
    """Leave the fetches of followers out of Fetch, which counts each request of a follower or client again."""
    found = {pair: counted for pair, counted in grown.items() if pair.api not in {FETCH, BY_CLIENTS}}
    for version in {pair.version for pair in grown if pair.api in {FETCH, BY_CLIENTS}}:
        whole, clients, followers = (grown.get(Requests(api, version), []) for api in (FETCH, BY_CLIENTS, BY_FOLLOWERS))
        if followers and not clients and (others := events_of(whole) - events_of(followers)) > 0:
            clients = [Growth(whole[0].after, whole[-1].at, others)]
        found[Requests(FETCH, version)] = clients if clients or followers else whole
    return found


def events_of(counted: Iterable[Growth]) -> int:
    """Return how many there are at least."""
    return sum(one.events for one in counted)
