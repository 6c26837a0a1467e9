"""Polls a source: fetch, take in the view that comes of it, and say when the next poll is due.

Features for tests take in their views here, too, without a poll.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from featuregate.errors import DiscoveryError, FeatureGateError, OlderAnswers, OtherCluster, RefreshTimedOut, RelayError
from featuregate.forks import LOOP_MODULES, load
from featuregate.gating.events import Event, Polled, PollFailed
from featuregate.logs import get_logger
from featuregate.polling.poll_state import PollState, least_delay, next_delay
from featuregate.sources.source import BrokerAnswers, ConfigSource, MergedView, NotifyingSource, Source

if TYPE_CHECKING:
    from featuregate.gating.store import Store
    from featuregate.view.cluster_view import View

logger = get_logger("featuregate")

_RANDOM = SystemRandom()


class Poller:
    """Polls one source, and writes what it learns into a store and a poll state. No other object commits views.

    ``clock``: seconds of a monotonic clock. ``chance``: returns a random number from 0 to 1, for the jitter between
    polls. The default is the system's generator: an app may seed Python's, and forked processes continue that of their
    parent, so that all would poll at once.
    """

    def __init__(
        self,
        source: Source,
        store: Store,
        state: PollState,
        clock: Callable[[], float],
        *,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self.source = source
        self.state = state
        self._store = store
        self._clock = clock
        self._chance = chance
        self._shown: tuple[View, float] | None = None

    @property
    def next_number(self) -> int:
        """The number of the poll that begins next; the first is 1."""
        return self.state.started + 1

    def load(self) -> None:
        """Import what polls need, before a thread starts that polls; see :func:`featuregate.forks.load`."""
        load(LOOP_MODULES)
        if (load_own := getattr(self.source, "load", None)) is not None:
            load_own()

    def news(self) -> Callable[[float], Coroutine[Any, Any, None]] | None:
        """Return what waits until a poll may find something new, within seconds; None where there is no such wait.

        It refers to the source and not to this poller, and returns after the least time between two polls. After a poll
        that has failed, nothing shortens the wait.
        """
        if self.state.failures or not isinstance(self.source, NotifyingSource):
            return None
        return partial(_changed, self.source, least_delay(self.state.interval))

    async def poll(self, *, aside: bool = False) -> float:
        """Poll once, and return the seconds until the next poll. Never raises.

        ``aside``: the loop is the app's, so the latch store works in another thread.
        """
        state, began = self.state, self._clock()
        number = state.begin()
        self.expire()  # a process that was stopped, or a machine that slept, wakes here
        try:
            fetched = await self._fetch()
            if aside and self._store.latches.may_block:
                view, events = await asyncio.to_thread(self._take_in, fetched)
                self._store.hooks.notify(*events)  # here: they may belong to the loop
            else:
                view = self.apply(fetched)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the next poll may go right
            event: Event = self._failed(error, seconds=self._clock() - began)
        else:
            event = _polled(view, seconds=self._clock() - began)
        self.expire()
        self._store.hooks.notify(event)  # first: who waited for this poll finds its events told
        with self._store.changing():  # wakes those that wait for this poll
            state.end(number)
        return 0.0 if not state.failures and self._lacks_configs() else self._delay()

    def _delay(self) -> float:
        state, now = self.state, self._clock()
        return next_delay(
            state.interval,
            failures=state.failures,
            rolling=state.rolling(self._store.view, now),
            chance=self._chance(),
            rest=state.last_error.rest if isinstance(state.last_error, RelayError) else 0.0,
            fresh_for=state.fresh_for(now),
        )

    def _lacks_configs(self) -> bool:
        """Say whether a gate was made during the poll that depends on a config for which the poll did not ask."""
        source = self.source
        return isinstance(source, ConfigSource) and not self._store.wanted_configs() <= set(source.configs)

    async def _fetch(self) -> BrokerAnswers | MergedView:
        """Fetch with a bound: gates learn that a view is stale between polls, so a poll must end."""
        bound = 2 * self.source.timeout  # a source bounds itself; this is for one that does not
        within = asyncio.timeout(bound)
        if isinstance(self.source, ConfigSource):
            self.source.configs = self._store.wanted_configs()
        try:
            async with within:
                return await self.source.fetch()
        except TimeoutError:
            if not within.expired():  # the source's own, which says what took too long
                raise
            raise RefreshTimedOut(bound) from None

    def apply(self, fetched: BrokerAnswers | MergedView) -> View:
        """Take in what a source returned, and return the view that comes of it.

        Answers of brokers are merged with the last view of their cluster and with its brokers that have vanished. A
        view that was merged elsewhere is as old as the brokers' answers in it. It keeps the finalized levels of the
        last view where these have a higher epoch, so that they age as they do where brokers fall behind. Raises
        `OlderAnswers`: a view that was merged elsewhere is older than the view at hand: nothing has changed.
        """
        view, events = self._take_in(fetched)
        self._store.hooks.notify(*events)
        return view

    def _take_in(self, fetched: BrokerAnswers | MergedView) -> tuple[View, list[Event]]:
        now = self._clock()
        if isinstance(fetched, BrokerAnswers):
            view, answered_at = self._merge(fetched, now), now
        else:
            view, answered_at = self._with_newest_levels(fetched.view), self._answered_at(fetched, now)
        with self._store.writing:  # a gate that is made meanwhile must not take the view before for a fresh one
            self.state.succeed(self._store.view, view, answered_at)
            return view, self._commit(view, answered_at, fetched)

    def view_and_age(self) -> tuple[View | None, float]:
        """Return the view and the seconds since the brokers answered, of one poll: other polls may end meanwhile."""
        shown = self._shown
        return (None, 0.0) if shown is None else (shown[0], max(0.0, self._clock() - shown[1]))

    def _failed(self, error: Exception, *, seconds: float) -> PollFailed:
        """Note that a source returned nothing; ``seconds`` is how long that took."""
        if not isinstance(error, FeatureGateError):
            logger.error("a poll failed in a way that it should not", exc_info=error)
        elif not self.state.failures:
            logger.warning("a poll failed: %s", error)
        self.state.fail(error)
        causes = [cause for _, cause in error.causes] if isinstance(error, DiscoveryError) else [error]
        for other in causes:
            if isinstance(other, OtherCluster):
                self._store.answered_by(other.found)
        return PollFailed(error=str(error), failures=self.state.failures, seconds=seconds)

    def expire(self) -> None:
        """Decide every gate again where the view has grown stale."""
        if self.state.stale(self._clock()):
            self._store.reevaluate()

    def health(self) -> dict[str, Any]:
        """Return the state of polling as plain JSON-able values."""
        return self.state.health(self._store.view, self._clock(), troubles=self._store.troubles())

    def _commit(self, view: View, answered_at: float, fetched: BrokerAnswers | MergedView) -> list[Event]:
        latched = () if isinstance(fetched, BrokerAnswers) else fetched.latched
        events = self._store.commit(view, latched, fetched.holds)
        if self._store.view is not None:
            self._shown = self._store.view, answered_at
        return events

    def _answered_at(self, fetched: MergedView, now: float) -> float:
        """Return when the brokers answered, on the clock of this process, if that is not before the view at hand.

        The same answers have the age that the source says now: this machine may have slept. The view of another cluster
        is not compared.
        """
        if math.isnan(fetched.age):
            raise ValueError("the age of a view is not a number, so that nothing says whether it is stale")
        # Clocks of two machines differ, but no answer is of a time to come, and fresh for longer.
        answered_at, last, known = min(now, now - fetched.age), self.state.succeeded_at, self._store.view
        if last is not None and known is not None and known.cluster_id == fetched.view.cluster_id:
            behind = last - answered_at - fetched.transit
            if behind > 0 and known.seen_at != fetched.view.seen_at:
                raise OlderAnswers(behind)
        return answered_at

    def _with_newest_levels(self, view: View) -> View:
        last = self._store.last(view.cluster_id)
        if last is None or last.epoch <= view.epoch:
            return view
        return replace(view, epoch=last.epoch, finalized=last.finalized)

    def _merge(self, fetched: BrokerAnswers, now: float) -> View:
        last = self._store.last(fetched.cluster_id)
        fetched = fetched._replace(answers=tuple(fetched.answers))  # an app's source may give an iterator
        listed = {answer.node_id for answer in fetched.answers}
        vanished = self.state.vanished(last, fetched.cluster_id, listed, now, registered=fetched.registered)
        return fetched.merge(previous=last, unlisted=vanished)


async def _changed(source: NotifyingSource, least: float, within: float) -> None:
    loop = asyncio.get_running_loop()
    earliest = loop.time() + least
    await source.changed(within)
    await asyncio.sleep(earliest - loop.time())


def _polled(view: View, *, seconds: float) -> Polled:
    return Polled(
        cluster_id=view.cluster_id,
        epoch=view.epoch,
        seconds=seconds,
        answered=len(view.brokers) - len(view.missing),
        known=len(view.brokers),
    )
