"""Burn-in: how long the requirement of a gate has held, before the gate opens for good. Pure.

A process counts the time between polls that both saw the requirement hold. Its count starts from what the latch state
has when the process first sees the requirement hold, and later counts of other processes are joined, never added. So
the count is at most the time for which some process has seen the requirement hold, however many processes count.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from featuregate.gating.latches import LATEST, BurnIn, LatchKey

if TYPE_CHECKING:
    from featuregate.gating.verdicts import GateVerdict


class Count(NamedTuple):
    """What one process has counted of an attempt."""

    attempt: int
    base: float
    """Seconds that the latch state had when the process began to count."""
    own: float = 0.0
    """Seconds that the process has counted."""
    held_at: float | None = None
    """When a poll last saw the requirement hold, on the monotonic clock; None: the last poll could not tell."""


def count_poll(
    kept: BurnIn | None,
    count: Count | None,
    verdict: GateVerdict,
    *,
    key: LatchKey,
    now: float,
    wall: float,
    most: float,
) -> tuple[BurnIn | None, Count | None]:
    """Return the burn-in and the count of this process after a poll.

    A requirement that does not hold ends the attempt. A poll that cannot tell, and a time of more than ``most`` seconds
    between two polls, count for nothing.
    """
    if verdict == "closed":
        if kept is None or kept.since is None:
            return kept, None
        return replace(kept, attempt=kept.attempt + 1, seconds=0.0, since=None), None
    if verdict == "unknown":
        return kept, count and count._replace(held_at=None)
    if kept is None:
        kept = BurnIn(gate=key.gate, requirement=key.requirement, attempt=1, seconds=0.0, since=wall)
    if count is None or count.attempt != kept.attempt:
        count = Count(kept.attempt, base=kept.seconds)
    gap = 0.0 if count.held_at is None else now - count.held_at
    count = count._replace(own=count.own + (gap if 0 <= gap <= most else 0.0), held_at=now)
    since = wall if kept.since is None else kept.since
    return replace(kept, seconds=max(kept.seconds, count.base + count.own), since=since), count


def why_waiting(kept: BurnIn | None, open_after: float, wall: float) -> str | None:
    """Say until when a gate with ``open_after`` seconds waits; None where it need not wait any more."""
    seconds = 0.0 if kept is None else kept.seconds
    if seconds >= open_after:
        return None
    since = "" if kept is None or kept.since is None else f" since {_time(kept.since)}"
    return (
        f"the requirement holds{since}, counted {_duration(seconds)} of {_duration(open_after)}; "
        f"the gate opens at {_time(wall + open_after - seconds)} if it goes on holding"
    )


def _time(at: float) -> str:
    return datetime.fromtimestamp(min(at, LATEST), UTC).isoformat(timespec="seconds")


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
