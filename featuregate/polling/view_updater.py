"""What one poll changes: answers become a view, and the store and the poll state learn of it.

Discoverers, the simulator's apps and features for tests all come through here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from featuregate.errors import DiscoveryError, FeatureGateError, OlderAnswers, OtherCluster
from featuregate.gating.events import Event, PollFailed
from featuregate.sources.source import BrokerAnswers, MergedView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from featuregate.gating.store import Store
    from featuregate.polling.poll_state import PollState
    from featuregate.view.cluster_view import View

logger = logging.getLogger("featuregate")


class ViewUpdater:
    """Writes what polls bring into a store and a poll state. No other object commits views, or writes to the state.

    Parameters
    ----------
    clock
        Seconds of a monotonic clock.
    """

    def __init__(self, store: Store, state: PollState, clock: Callable[[], float]) -> None:
        self.store = store
        self.state = state
        self.clock = clock
        self._shown: tuple[View, float] | None = None

    def begin(self) -> int:
        """Note that a poll begins, and return its number."""
        return self.state.begin()

    def end(self, number: int) -> None:
        """Note that this poll has ended, and wake those that wait for it."""
        with self.store.changing():
            self.state.end(number)

    def close(self) -> None:
        """Note that polling has ended for good: from now on the view proves nothing new."""
        self.state.closed = True

    def restore(self, view: View, *, answered_at: float, levels_at: float, unlisted_since: Mapping[int, float]) -> None:
        """Continue from the view of an earlier process; see :meth:`.PollState.restore`."""
        with self.store.writing:
            self.state.restore(view, answered_at=answered_at, levels_at=levels_at, unlisted_since=unlisted_since)
            events = self._commit(view, answered_at)
        self.store.notify(*events)

    def apply(self, fetched: BrokerAnswers | MergedView) -> View:
        """Take in what a source returned, and return the view that comes of it.

        Answers of brokers are merged with the last view of their cluster and with its brokers that have vanished. A
        view that was merged elsewhere is as old as the brokers' answers in it. It keeps the finalized levels of the
        last view where these have a higher epoch, so that they age as they do where brokers fall behind.

        Raises
        ------
        OlderAnswers
            A view that was merged elsewhere is older than the view at hand: nothing has changed.
        """
        now = self.clock()
        if isinstance(fetched, BrokerAnswers):
            view, answered_at = self._merge(fetched, now), now
        else:
            view, answered_at = self._with_newest_levels(fetched.view), self._answered_at(fetched, now)
        with self.store.writing:  # a gate that is made meanwhile must not take the view before for a fresh one
            self.state.succeed(self.store.view, view, answered_at)
            events = self._commit(view, answered_at, None if isinstance(fetched, BrokerAnswers) else fetched)
        self.store.notify(*events)
        return view

    def view_and_age(self) -> tuple[View | None, float]:
        """Return the view and the seconds since the brokers answered, of one poll: other polls may end meanwhile."""
        shown = self._shown
        return (None, 0.0) if shown is None else (shown[0], max(0.0, self.clock() - shown[1]))

    def fail(self, error: Exception, *, seconds: float = 0.0) -> PollFailed:
        """Note that a source returned nothing; ``seconds`` is how long that took."""
        if not isinstance(error, FeatureGateError):
            logger.error("a poll failed in a way that it should not", exc_info=error)
        elif not self.state.failures:
            logger.warning("a poll failed: %s", error)
        self.state.fail(error)
        causes = [cause for _, cause in error.causes] if isinstance(error, DiscoveryError) else [error]
        for other in causes:
            if isinstance(other, OtherCluster):
                self.store.answered_by(other.found)
        return PollFailed(error=str(error), failures=self.state.failures, seconds=seconds)

    def expire(self) -> None:
        """Decide every gate again where the view has grown stale."""
        if self.state.stale(self.clock()):
            self.store.reevaluate()

    def health(self) -> dict[str, Any]:
        """Return the state of polling as plain JSON-able values."""
        return self.state.health(self.store.view, self.clock(), troubles=self.store.troubles())

    def _commit(self, view: View, answered_at: float, merged: MergedView | None = None) -> list[Event]:
        events = self.store.commit(view) if merged is None else self.store.commit(view, merged.latched, merged.holds)
        if self.store.view is not None:
            self._shown = self.store.view, answered_at
        return events

    def _answered_at(self, fetched: MergedView, now: float) -> float:
        """Return when the brokers answered, on the clock of this process, if that is not before the view at hand.

        The same answers have the age that the source says now: this machine may have slept. The view of another cluster
        is not compared.
        """
        answered_at, last, known = now - fetched.age, self.state.succeeded_at, self.store.view
        if last is not None and known is not None and known.cluster_id == fetched.view.cluster_id:
            behind = last - answered_at - fetched.transit
            if behind > 0 and known.seen_at != fetched.view.seen_at:
                raise OlderAnswers(behind)
        return answered_at

    def _with_newest_levels(self, view: View) -> View:
        last = self.store.last(view.cluster_id)
        if last is None or last.epoch <= view.epoch:
            return view
        return replace(view, epoch=last.epoch, finalized=last.finalized, finalized_min=last.finalized_min)

    def _merge(self, fetched: BrokerAnswers, now: float) -> View:
        last = self.store.last(fetched.cluster_id)
        listed = {answer.node_id for answer in fetched.answers}
        vanished = self.state.vanished(last, fetched.cluster_id, listed, now, registered=fetched.registered)
        return fetched.merge(previous=last, unlisted=vanished)
