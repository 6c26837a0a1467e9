"""Polls a source: fetch, update the view, and say when the next poll is due."""

from __future__ import annotations

from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from featuregate.errors import RefreshTimedOut, RelayError
from featuregate.gating.events import Event, Polled
from featuregate.polling.schedule import least_delay, next_delay
from featuregate.sources.source import BrokerAnswers, ConfigSource, MergedView, NotifyingSource, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from featuregate.polling.view_updater import ViewUpdater
    from featuregate.view.cluster_view import View

_RANDOM = SystemRandom()


class Poller:
    """Polls one source, and writes what it learns through a view updater.

    Parameters
    ----------
    chance
        Returns a random number from 0 to 1, for the jitter between polls. The default is the system's generator: an app
        may seed Python's, and forked processes continue that of their parent, so that all would poll at once.
    """

    def __init__(self, source: Source, updater: ViewUpdater, *, chance: Callable[[], float] = _RANDOM.random) -> None:
        self.source = source
        self._updater = updater
        self._chance = chance

    @property
    def next_number(self) -> int:
        """The number of the poll that begins next; the first is 1."""
        return self._updater.state.started + 1

    @property
    def finished(self) -> int:
        """The number of the last poll that has ended; 0 before the first."""
        return self._updater.state.finished

    @property
    def last_error(self) -> Exception | None:
        """Why the last poll failed; None where it did not."""
        return self._updater.state.last_error

    @property
    def closed(self) -> bool:
        """Whether polling has ended for good."""
        return self._updater.state.closed

    def close(self) -> None:
        """End polling for good: from now on the view proves nothing new."""
        self._updater.close()

    def news(self) -> Callable[[float], Coroutine[Any, Any, None]] | None:
        """Return what waits until a poll may find something new, for so many seconds; None where there is no such wait.

        It refers to the source and not to this poller, and returns after the least time between two polls. After a poll
        that has failed, nothing shortens the wait.
        """
        if self._updater.state.failures or not isinstance(self.source, NotifyingSource):
            return None
        return partial(_changed, self.source, least_delay(self._updater.state.interval))

    async def poll(self) -> float:
        """Poll once, and return the seconds until the next poll. Never raises."""
        updater, state, store = self._updater, self._updater.state, self._updater.store
        began, number = updater.clock(), updater.begin()
        updater.expire()  # a process that was stopped, or a machine that slept, wakes here
        try:
            view = updater.apply(await self._fetch())
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the next poll may go right
            event: Event = updater.fail(error, seconds=updater.clock() - began)
        else:
            event = _polled(view, seconds=updater.clock() - began)
        updater.expire()
        updater.end(number)
        store.notify(event)
        if not state.failures and self._lacks_configs():
            return 0.0
        now = updater.clock()
        return next_delay(
            state.interval,
            failures=state.failures,
            rolling=state.rolling(store.view, now),
            chance=self._chance(),
            rest=state.last_error.rest if isinstance(state.last_error, RelayError) else 0.0,
            fresh_for=state.fresh_for(now),
        )

    def _lacks_configs(self) -> bool:
        """Say whether a gate was made during the poll that depends on a config for which the poll did not ask."""
        source = self.source
        return isinstance(source, ConfigSource) and not self._updater.store.wanted_configs() <= set(source.configs)

    async def _fetch(self) -> BrokerAnswers | MergedView:
        """Fetch with a bound: gates learn that a view is stale between polls, so a poll must end."""
        import asyncio  # noqa: PLC0415 - apps without a poll do not pay for it

        bound = 2 * self.source.timeout  # a source bounds itself; this is for one that does not
        within = asyncio.timeout(bound)
        if isinstance(self.source, ConfigSource):
            self.source.configs = self._updater.store.wanted_configs()
        try:
            async with within:
                return await self.source.fetch()
        except TimeoutError:
            if not within.expired():  # the source's own, which says what took too long
                raise
            raise RefreshTimedOut(bound) from None


async def _changed(source: NotifyingSource, least: float, within: float) -> None:
    import asyncio  # noqa: PLC0415 - see above

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
