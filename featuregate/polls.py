"""What the polls so far have shown about themselves: times, failures, and brokers that vanished. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from featuregate.answers import unlisted
from featuregate.schedule import ROLL_INTERVALS, SETTLE_INTERVALS

if TYPE_CHECKING:
    from collections.abc import Collection

    from featuregate.answers import BrokerAnswer
    from featuregate.view import View

__all__ = ["Polls"]


@dataclass(slots=True, kw_only=True)
class Polls:
    """The memory of the poll loop. Times are seconds of one monotonic clock, which is passed in."""

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
    vanished_since: dict[int, float] = field(default_factory=dict)
    """Brokers that were listed and are not any more, by node id."""

    def failed(self, error: Exception) -> None:
        """Note a poll that nobody answered."""
        self.failures += 1
        self.last_error = error

    def succeeded(self, before: View | None, after: View, now: float) -> None:
        """Note a poll that somebody answered, and what the view became by it."""
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

    def vanished(
        self, before: View | None, cluster_id: str | None, listed: Collection[int | None], now: float
    ) -> tuple[BrokerAnswer, ...]:
        """Return the brokers that were listed before and are not now, for as long as they count as known.

        A broker that is down in the middle of a roll may come back with the old software, so one that vanished stays
        known, and deaf, for ``forget_after`` seconds.
        """
        known = before.brokers if before is not None and before.cluster_id == cluster_id else ()
        gone = [broker for broker in known if broker.node_id is not None and broker.node_id not in listed]
        self.vanished_since = {
            broker.node_id: since
            for broker in gone
            if broker.node_id is not None
            and now - (since := self.vanished_since.get(broker.node_id, now)) < self.forget_after
        }
        return tuple(
            unlisted(broker, seconds=now - self.vanished_since[broker.node_id])
            for broker in gone
            if broker.node_id in self.vanished_since
        )

    def rolling(self, view: View | None, now: float) -> bool:
        """Say whether to poll faster: something moved a little while ago, or brokers differ.

        Brokers that differ for very long are no roll: some have telemetry on, or a node was left behind.
        """
        if view is None or self.began_at is None:
            return False
        if self.moved_at is not None and now - self.moved_at < SETTLE_INTERVALS * self.interval:
            return True
        return view.mixed and now - (self.moved_at or self.began_at) < ROLL_INTERVALS * self.interval

    def age(self, now: float) -> float | None:
        """Return the seconds since anybody answered; ``None`` before the first answer."""
        return None if self.succeeded_at is None else max(0.0, now - self.succeeded_at)

    def stale(self, now: float) -> bool:
        """Say whether the view is too old to prove anything."""
        age = self.age(now)
        return age is not None and age > self.stale_after

    def epoch_stuck(self, now: float) -> bool:
        """Say whether an epoch that used to run has stopped, although brokers answer: their controller is away."""
        return self.epoch_runs and self.epoch_moved_at is not None and now - self.epoch_moved_at > self.stale_after

    def health(self, view: View | None, now: float, *, closed: bool, shelf_error: str | None) -> dict[str, Any]:
        """Return the state of discovery for a periodic health check, as plain JSON-able values."""
        age = self.age(now)
        reasons = []
        if self.stale(now):
            reasons.append(f"nobody has answered for {age:.0f} s (stale after {self.stale_after:.0f} s)")
        if view is not None and view.missing:
            silent = ", ".join(_name(broker.node_id, broker.host, broker.port) for broker in view.missing)
            reasons.append(f"{len(view.missing)} of {len(view.brokers)} brokers did not answer: {silent}")
        if self.last_error is not None:
            reasons.append(f"the last {self.failures} polls failed: {self.last_error}")
        if self.epoch_stuck(now):
            reasons.append(
                "the epoch has stopped rising: brokers answer, but hear nothing new from their controller"
                " (or the cluster was rebuilt with the same id)"
            )
        if shelf_error is not None:
            reasons.append(shelf_error)
        return {
            "status": self._status(view, now, closed=closed, troubled=bool(reasons)),
            "reasons": reasons,
            "cluster_id": view.cluster_id if view else None,
            "epoch": view.epoch if view else -1,
            "epoch_advancing": self._epoch_advancing(view, now),
            "age_seconds": age,
            "brokers_known": len(view.brokers) if view else 0,
            "brokers_answered": len(view.brokers) - len(view.missing) if view else 0,
            "polls": self.finished,
            "failures": self.failures,
            "last_error": None if self.last_error is None else str(self.last_error),
        }

    def _status(self, view: View | None, now: float, *, closed: bool, troubled: bool) -> str:
        if closed:
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


def _name(node_id: int | None, host: str, port: int) -> str:
    where = f"{host}:{port}"
    return where if node_id is None else f"{node_id} ({where})"
