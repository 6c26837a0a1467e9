"""When to ask again: a function of what the last polls showed. Pure."""

from __future__ import annotations

JITTER = 0.1
"""A tenth either way, so that a fleet that started together does not ask together."""
ROLL_SPEEDUP = 10
BACKOFF_START = 1.0
AT_ONCE = 0.05
BACKOFF_CAP = 30.0
MOVING_INTERVALS = 5
"""What has moved is still moving until this many intervals have passed in which nothing else did."""
ROLL_INTERVALS = 60
"""Brokers that differ, and in which nothing has moved for this many intervals, are not being rolled."""


def least_delay(interval: float) -> float:
    """Return the seconds between two polls, at the least, however much there is to learn."""
    return min(interval, BACKOFF_START)


def next_delay(
    interval: float, *, failures: int, rolling: bool, chance: float, rest: float = 0.0, fresh_for: float | None = None
) -> float:
    """Return the seconds until the next poll.

    Parameters
    ----------
    interval
        Seconds between polls of a quiet cluster.
    failures
        How many polls in a row got no answer from any broker: each doubles the wait, from one second up to
        the interval or 30 seconds, whichever is longer.
    rolling
        Whether brokers differ, or something has just moved: then ten times as often, down to a second.
    chance
        A random number in [0, 1), which becomes a tenth of jitter either way.
    rest
        Seconds for which the source sends nothing: a poll before that would fail, and double the wait.
    fresh_for
        Seconds for which the view can still prove something; ``None`` where it cannot. The next poll comes before
        the view is stale, and while no broker answers at that moment, so that gates learn of it.
    """
    if failures:
        start, cap = min(BACKOFF_START, interval), max(BACKOFF_CAP, interval)
        # The exponent is bounded, because a cluster may be away for days.
        delay = min(start * 2.0 ** min(failures - 1, 32), cap)
    elif rolling:
        delay = max(interval / ROLL_SPEEDUP, least_delay(interval))
    else:
        delay = interval
    delay *= 1 + JITTER * (2 * chance - 1)
    if rest:
        delay = max(delay, rest + AT_ONCE)
    if fresh_for is None:
        return delay
    return min(delay, fresh_for + AT_ONCE if failures else max(fresh_for / 2, AT_ONCE))
