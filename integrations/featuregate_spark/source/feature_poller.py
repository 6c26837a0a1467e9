"""Polls brokers for a stream of features, by the poller of the core: it merges answers, and ages what they reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate.blocking import run_blocking
from featuregate.errors import DiscoveryError, RefreshTimedOut
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate_spark.source.feature_state import Ages, FeatureState, next_state, reports_levels

if TYPE_CHECKING:
    from featuregate import View
    from featuregate.sources.source import Source
    from featuregate_spark.source.reader_options import ReaderOptions


def _wall() -> float:
    """Return seconds since the Unix epoch, for times that outlive the process."""
    return datetime.now(UTC).timestamp()


class FeaturePoller:
    """Polls a source, and keeps the feature state up to date.

    Parameters
    ----------
    before
        The state of the offset where a restarted query continues; ``None`` for a new query.
    clock
        Seconds of a monotonic clock.
    wall
        Seconds since the Unix epoch.
    """

    def __init__(
        self,
        source: Source,
        options: ReaderOptions,
        before: FeatureState | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = _wall,
    ) -> None:
        self.state = before
        self._clock, self._wall = clock, wall
        self._polls = PollState(
            interval=options.interval, stale_after=options.seconds_to_stale, forget_after=options.forget_after
        )
        self._store = Store(wall=wall)
        self._poller = Poller(source, self._store, self._polls, clock)
        if before is not None:
            self._restore(before)

    def poll(self) -> None:
        """Poll once. If no broker answers, the view stays, and ages.

        Raises
        ------
        ConfigError
            A property of the cluster has a value that cannot be used.
        """
        run_blocking(self._poller.poll)
        error = self._polls.last_error
        if error is not None and not isinstance(error, DiscoveryError | RefreshTimedOut):
            raise error
        view = self._store.view
        if view is not None:
            self.state = next_state(self.state, view, self._ages(view), self._polls.staleness(self._clock()))

    def _restore(self, before: FeatureState) -> None:
        """Continue from a state of an earlier process.

        While brokers reported the levels, no offset was written. So levels that the last offset shows as reported age
        from now on, and the view ages from the time of that offset.
        """
        view, ages = before.view, before.ages
        self._poller.restore(
            view,
            answered_at=self._clock_at(view.seen_at),
            levels_at=self._clock() if reports_levels(view) else self._clock_at(ages.levels_at),
            unlisted_since={node_id: self._clock_at(at) for node_id, at in ages.unlisted_since.items()},
        )

    def _ages(self, view: View) -> Ages:
        assert self._polls.levels_at is not None, "there is a view"
        unlisted = self._polls.unlisted_since(view.cluster_id)
        return Ages(
            levels_at=self._wall_at(self._polls.levels_at),
            unlisted_since={node_id: self._wall_at(at) for node_id, at in unlisted.items()},
        )

    def _clock_at(self, wall: float) -> float:
        """Return the monotonic time of a wall time, which is not in the future."""
        return self._clock() - max(0.0, self._wall() - wall)

    def _wall_at(self, clock: float) -> float:
        return self._wall() - (self._clock() - clock)
