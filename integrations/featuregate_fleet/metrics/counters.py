"""What the samples of a counter prove: how many events there were at least, and when. Pure.

A counter lives as long as its broker, and is born with the value of its first event or more. So the first sample of a
life counts whole, where an older sample of the broker did not have it, and a lower value is another life. What the
samples do not show is left out: a sum is never more than what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

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

    Parameters
    ----------
    points
        In the order of their times, with one of before ``since`` if there is one.
    absent_at
        The last sample of the broker before these that did not have the counter; None without one.
    """
    before: Point | None = None
    for at, value, life in points:
        is_of_window = life is not None and life >= since + SKEW
        if before is None:
            found = Growth(
                life if absent_at is None else absent_at, at, value, _is_new(absent_at, since) or is_of_window
            )
        elif (life == before.life or life is None or before.life is None) and value >= before.value:
            found = Growth(before.at, at, value - before.value, _is_new(before.at, since))
        else:
            found = Growth(before.at, at, value, _is_new(before.at, since) or is_of_window)
        before = Point(at, value, life)
        if found.events and at > since:
            yield found


def _is_new(after: float | None, since: float) -> bool:
    return after is not None and after >= since
