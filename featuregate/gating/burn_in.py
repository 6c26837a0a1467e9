"""Burn-in: how long the requirement of a gate has held, before the gate opens for good. Pure.

A process counts the time between polls that both saw the requirement hold. Its count starts from what the latch state
has when the process first sees the requirement hold, and later counts of other processes are joined, never added. So
the count is at most the time for which some process has seen the requirement hold, however many processes count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.gating.latches import LATEST, BurnIn, LatchKey, LatchState

if TYPE_CHECKING:
    from featuregate.gating.conditions import GateVerdict
    from featuregate.gating.gates import Gate

_STEPS: Final = 100
"""A burn-in is written to the latch store in this many steps, and not at each poll."""


class Count(NamedTuple):
    """What one process has counted of an attempt."""

    attempt: int
    base: float
    """Seconds that the latch state had when the process began to count."""
    own: float = 0.0
    """Seconds that the process has counted."""
    held_at: float | None = None
    """When a poll last saw the requirement hold, on the monotonic clock; None: the last poll could not tell."""


class BurnIns:
    """Counts, in one process, the burn-ins of the gates of one cluster.

    ``clock``: seconds of a monotonic clock. ``wall``: seconds since the Unix epoch, for the times that people read.
    ``longest_gap``: the most seconds between two polls that count.
    """

    def __init__(self, *, clock: Callable[[], float], wall: Callable[[], float], longest_gap: float) -> None:
        self._clock = clock
        self._wall = wall
        self._longest_gap = longest_gap
        self._counts: dict[LatchKey, Count] = {}
        self._cluster_id: str | None = None

    def count(self, state: LatchState, verdicts: Iterable[tuple[Gate, GateVerdict]]) -> LatchState:
        """Return the state with what a poll adds to the burn-ins of these gates, where that is worth writing.

        A requirement that does not hold ends the attempt. A poll that cannot tell, and a time of more than
        ``longest_gap`` between two polls, count for nothing.
        """
        if state.cluster_id != self._cluster_id:
            self._counts, self._cluster_id = {}, state.cluster_id
        burn_ins = dict(state.burn_ins)
        for gate, verdict in verdicts:
            before = burn_ins.get(gate.key)
            counted = self._count(gate.key, before, verdict) if gate.open_after else None
            if counted is not None and _is_worth_writing(before, counted, gate.open_after):
                burn_ins[gate.key] = counted
        return replace(state, burn_ins=burn_ins)

    def _count(self, key: LatchKey, kept: BurnIn | None, verdict: GateVerdict) -> BurnIn | None:
        count = self._counts.pop(key, None)
        if verdict == "closed":
            held = kept is not None and kept.since is not None
            return replace(kept, attempt=kept.attempt + 1, seconds=0.0, since=None) if kept and held else kept
        if verdict == "unknown":
            if count is not None:
                self._counts[key] = count._replace(held_at=None)
            return kept
        now, wall = self._clock(), self._wall()
        if kept is None:
            kept = BurnIn(gate=key.gate, requirement=key.requirement, attempt=1, seconds=0.0, since=wall)
        if count is None or count.attempt != kept.attempt:
            count = Count(kept.attempt, base=kept.seconds)
        gap = 0.0 if count.held_at is None else now - count.held_at
        own = count.own + (gap if 0 <= gap <= self._longest_gap else 0.0)
        self._counts[key] = count._replace(own=own, held_at=now)
        since = wall if kept.since is None else kept.since
        return replace(kept, seconds=max(kept.seconds, count.base + own), since=since)


def _is_worth_writing(before: BurnIn | None, counted: BurnIn, open_after: float) -> bool:
    """Whether an attempt begins or ends, the burn-in is over, or a hundredth of it has passed."""
    if before is None or (before.attempt, before.since) != (counted.attempt, counted.since):
        return True
    return counted.seconds >= open_after > before.seconds or counted.seconds - before.seconds >= open_after / _STEPS


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
