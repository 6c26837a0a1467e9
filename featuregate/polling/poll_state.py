"""What the polls so far have shown: their times, their failures, and brokers that vanished. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from featuregate.budgets import MOST_NODES
from featuregate.errors import ConfigError
from featuregate.gating.decisions import Staleness
from featuregate.printable import some
from featuregate.view.answers import BrokerAnswer, unlisted

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

STATUSES: Final = ("starting", "ok", "degraded", "stale", "failing", "closed")
"""The values of ``status`` in :meth:`PollState.health`."""
STALE_INTERVALS: Final = 3
"""Intervals without an answer after which a view is stale, unless the app says otherwise."""


@dataclass(slots=True, kw_only=True)
class PollState:
    """What polls have shown so far. Times are seconds of one monotonic clock, which is passed in."""

    interval: float
    stale_after: float
    forget_after: float
    started: int = 0
    finished: int = 0
    failures: int = 0
    """Failed polls in a row."""
    last_error: Exception | None = None
    succeeded_at: float | None = None
    began_at: float | None = None
    """When the first answer came."""
    moved_at: float | None = None
    """When content last became another one."""
    epoch_moved_at: float | None = None
    epoch_runs: bool = False
    """Whether this cluster's epoch has been seen to rise while nothing else changed, as KRaft's does."""
    levels_at: float | None = None
    """When a broker last reported the finalized levels of the view, or newer ones."""
    epoch: int = -1
    """The epoch of the view; ``epoch_reported`` is the highest epoch that a broker has just reported."""
    epoch_reported: int = -1
    closed: bool = False
    """Whether polling has ended for good."""
    vanished_since: dict[tuple[str | None, int], float] = field(default_factory=dict)
    """Brokers that were listed and are not any more, by cluster id and node id."""

    @classmethod
    def checked(cls, *, interval: float, stale_after: float | None, forget_after: float) -> PollState:
        """Begin with the seconds that an app gives; without ``stale_after``, a view is stale after three intervals.

        Raises `ConfigError`: one is not a number of seconds above 0. A view may never grow stale, and no broker be
        forgotten.
        """
        for name, value in (("interval", interval), ("stale_after", stale_after), ("forget_after", forget_after)):
            endless = name != "interval" and value == float("inf")
            if value is not None and not (type(value) in {int, float} and (0 < value < float("inf") or endless)):
                raise ConfigError(name, f"must be a number of seconds above 0, not {value!r}")
        return cls(interval=interval, stale_after=stale_after or STALE_INTERVALS * interval, forget_after=forget_after)

    def begin(self) -> int:
        """Note that a poll begins, and return its number."""
        self.started += 1
        return self.started

    def end(self, number: int) -> None:
        """Note that this poll has ended. One that a fork or a close cut off never does."""
        self.finished = number

    def fail(self, error: Exception) -> None:
        """Note a poll that no broker answered."""
        self.failures += 1
        self.last_error = error

    def succeed(self, before: View | None, after: View, now: float) -> None:
        """Note a poll that a broker answered at ``now``, and how it changed the view."""
        self.failures = 0
        self.last_error = None
        self.succeeded_at = now
        self.began_at = now if self.began_at is None else self.began_at
        same = before is not None and before.same_content(after)
        if before is not None and not same:
            self.moved_at = now
        if before is None or before.cluster_id != after.cluster_id:
            self.epoch_moved_at, self.epoch_runs = now, False
        elif after.epoch > before.epoch:
            self.epoch_moved_at, self.epoch_runs = now, self.epoch_runs or same
        self.epoch = after.epoch
        self.epoch_reported = max((broker.epoch for broker in after.answering), default=-1)
        other = before is None or before.cluster_id != after.cluster_id
        if other or self.levels_at is None or self.epoch_reported >= after.epoch:
            self.levels_at = now

    def vanished(
        self,
        before: View | None,
        cluster_id: str | None,
        listed: Collection[int | None],
        now: float,
        *,
        registered: bool,
    ) -> tuple[BrokerAnswer, ...]:
        """Return the brokers that were listed before and are not now, for as long as they count as known.

        A broker that is down in the middle of a roll may come back with the old software, so one that vanished stays
        known, and deaf, for ``forget_after`` seconds; together with those that are listed there are at most as many as
        a cluster can have. Where the list names those that are registered and down as well (``registered``), a broker
        that is missing there has been removed from the cluster.
        """
        known = before.brokers if before is not None and before.cluster_id == cluster_id else ()
        gone = {b.node_id: b for b in known if b.node_id is not None and b.node_id not in listed and not registered}
        # A broker in either kind of list is there: its time begins anew when it vanishes again.
        since = {node_id: self.vanished_since.get((cluster_id, node_id), now) for node_id in gone}
        kept = [(node_id, at) for node_id, at in since.items() if now - at < self.forget_after]
        # Those that vanished last are known longest, so the view stays incomplete for as long as with the others.
        newest = sorted(kept, key=lambda gone: gone[1], reverse=True)[: max(0, MOST_NODES - len(listed))]
        self.vanished_since = {(cluster_id, node_id): at for node_id, at in sorted(newest)}
        return tuple(unlisted(gone[node_id], seconds=now - at) for (_, node_id), at in self.vanished_since.items())

    def rolling(self, view: View | None, now: float) -> bool:
        """Say whether to poll faster: something moved a little while ago, or brokers differ.

        Brokers that differ for very long are not in a roll: some have telemetry on, or a node was left behind.
        """
        if view is None or self.began_at is None:
            return False
        if self.moved_at is not None and now - self.moved_at < MOVING_INTERVALS * self.interval:
            return True
        return view.mixed and now - (self.moved_at or self.began_at) < ROLL_INTERVALS * self.interval

    def age(self, now: float) -> float | None:
        """Return the seconds since the last answer of a broker; ``None`` before the first answer."""
        return None if self.succeeded_at is None else max(0.0, now - self.succeeded_at)

    def stale(self, now: float) -> bool:
        """Say whether the view is too old to prove anything."""
        age = self.age(now)
        return age is not None and age > self.stale_after

    def fresh_for(self, now: float) -> float | None:
        """Return the seconds for which the view can still prove something; ``None`` where there is none that can."""
        age = self.age(now)
        return None if age is None or age > self.stale_after else self.stale_after - age

    def staleness(self, now: float) -> Staleness:
        """Say why the view, or its levels, prove nothing any more."""
        old_view = f"no broker has answered for {self.age(now):.0f} s" if self.stale(now) else None
        return Staleness("this discoverer has been closed" if self.closed else old_view, self._old_levels())

    def _old_levels(self) -> str | None:
        """Say why the finalized levels of the view are old, though brokers answer: none reports them any more.

        The feature system was switched off (KIP-584's disabled state, epoch -1), or the cluster was restored to an
        earlier state under its old id.
        """
        if self.epoch < 0 or self.levels_at is None or self.succeeded_at is None:
            return None
        seconds = self.succeeded_at - self.levels_at
        if seconds <= self.stale_after:
            return None
        if self.epoch_reported < 0:
            return (
                f"no broker has reported finalized levels for {seconds:.0f} s (epoch -1):"
                " the feature system is switched off, or every broker is older than Kafka 2.7"
            )
        return (
            f"every broker has reported an epoch below {self.epoch} for {seconds:.0f} s"
            f" ({self.epoch_reported} at the most): the cluster was restored, or rebuilt with the same id"
        )

    def epoch_stuck(self, now: float) -> bool:
        """Say whether an epoch that used to run has stopped, although brokers answer: their controller is away."""
        return self.epoch_runs and self.epoch_moved_at is not None and now - self.epoch_moved_at > self.stale_after

    def health(self, view: View | None, now: float, *, troubles: Iterable[str]) -> dict[str, Any]:
        """Return the state of discovery as plain JSON-able values; ``troubles`` are reasons that polls do not show."""
        age = self.age(now)
        reasons = []
        if self.stale(now):
            reasons.append(f"no broker has answered for {age:.0f} s (stale after {self.stale_after:.0f} s)")
        old_levels = self._old_levels()
        if old_levels is not None:
            reasons.append(old_levels)
        if view is not None and view.missing:
            silent = some(broker.name.removeprefix(f"{broker.role} ") for broker in view.missing)
            reasons.append(f"{len(view.missing)} of {len(view.brokers)} brokers did not answer: {silent}")
        if self.last_error is not None:
            reasons.append(f"the last {self.failures} polls failed: {self.last_error}")
        if self.epoch_stuck(now) and old_levels is None:
            reasons.append("the epoch has stopped rising: brokers answer, but hear nothing new from their controller")
        reasons.extend(troubles)
        return {
            "status": self._status(view, now, troubled=bool(reasons)),
            "reasons": reasons,
            "cluster_id": view.cluster_id if view else None,
            "epoch": view.epoch if view else -1,
            "epoch_advancing": self._epoch_advancing(view, now),
            "age_seconds": age if view else None,  # the first view is not there yet while its latches are written
            "brokers_known": len(view.brokers) if view else 0,
            "brokers_answered": len(view.brokers) - len(view.missing) if view else 0,
            "polls": self.finished,
            "failures": self.failures,
            "last_error": None if self.last_error is None else str(self.last_error),
        }

    def _status(self, view: View | None, now: float, *, troubled: bool) -> str:
        if self.closed:
            return "closed"
        if view is None:
            return "failing" if self.failures else "starting"
        if self.stale(now):
            return "stale"
        return "degraded" if troubled else "ok"

    def _epoch_advancing(self, view: View | None, now: float) -> bool | None:
        """``None``: this cluster has no epoch, or one that has not been seen to run."""
        if view is None or view.epoch < 0 or not self.epoch_runs:
            return None
        return not self.epoch_stuck(now)


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

    ``interval``: seconds between polls of a quiet cluster. ``failures``: how many polls in a row got no answer from any
    broker: each doubles the wait, from one second up to the interval or 30 seconds, whichever is longer. ``rolling``:
    whether brokers differ, or something has just moved: then ten times as often, down to a second. ``chance``: a random
    number in [0, 1), which becomes a tenth of jitter either way. ``rest``: seconds for which the source sends nothing:
    a poll before that would fail, and double the wait. ``fresh_for``: seconds for which the view can still prove
    something; ``None`` where it cannot. The next poll comes before the view is stale, and while no broker answers at
    that moment, so that gates learn of it.
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
