"""An app beside a simulated cluster: the real poller, store and gates, without network, threads or clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.blocking import run_blocking
from featuregate.errors import DiscoveryError
from featuregate.gating.gates import Gate
from featuregate.gating.latches import LatchState, join
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate.polling.view_updater import ViewUpdater
from featuregate.requirements import parse
from featuregate.testing.simulator.client import SimulatedBrokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from featuregate.gating.events import Event
    from featuregate.gating.latches import Policy
    from featuregate.testing.simulator.cluster import Cluster
    from featuregate.view.cluster_view import View

_EPOCH: Final = 1_700_000_000.0
_INTERVAL: Final = 5.0
STALE_AFTER: Final = 15.0
"""Seconds without an answer after which the view is stale."""
FORGET_AFTER: Final = 20.0
"""Seconds for which the app remembers brokers that are no longer listed."""


class MemoryLatchStore:
    """A latch store in memory, which the app keeps when it restarts."""

    def __init__(self) -> None:
        self._kept: dict[str, LatchState] = {}

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the latches of this cluster."""
        return self._kept.get(cluster_id)

    def save(self, kept: LatchState) -> LatchState:
        """Join the latches with the stored ones."""
        assert kept.cluster_id is not None
        there = self._kept.get(kept.cluster_id, LatchState(cluster_id=kept.cluster_id))
        self._kept[kept.cluster_id] = join(there, kept)
        return self._kept[kept.cluster_id]


class App:
    """An app that polls when a script says so, as a :class:`~featuregate.Discoverer` does by itself.

    Attributes
    ----------
    sticky, live : dict
        The gates of each policy, by requirement.
    events : list
        The events that the hooks of the app received, oldest first.
    now : float
        The wall clock, in seconds since the Unix epoch. A script may set it.
    elapsed : float
        The monotonic clock, in seconds.
    poll_count : int
        The number of polls. Each poll fetches the broker list from another broker.

    Parameters
    ----------
    requirements
        Texts such as ``"group.version>=1"``; the app has a sticky and a live gate for each.
    """

    sticky: Mapping[str, Gate]
    live: Mapping[str, Gate]

    def __init__(self, requirements: Iterable[str]) -> None:
        self.requirements = tuple(requirements)
        self.latch_store = MemoryLatchStore()
        self.now, self.elapsed = _EPOCH, 0.0
        self.poll_count = 0
        self.events: list[Event] = []
        self.restart()

    def restart(self) -> None:
        """End the process, and begin another one: the app forgets its views and keeps its latch store."""
        state = PollState(interval=_INTERVAL, stale_after=STALE_AFTER, forget_after=FORGET_AFTER)
        self._store = Store(
            latch_store=self.latch_store,
            wall=lambda: self.now,
            metrics=self.events.append,
            staleness=lambda: self._updater.state.staleness(self.elapsed),
        )
        self._updater = ViewUpdater(self._store, state, lambda: self.elapsed)
        self.sticky = {requirement: self.gate(requirement, "sticky") for requirement in self.requirements}
        self.live = {requirement: self.gate(requirement, "live") for requirement in self.requirements}

    @property
    def view(self) -> View | None:
        """The view of the last successful poll."""
        return self._store.view

    @property
    def latched(self) -> Mapping[str, int]:
        """The highest finalized level of each feature that the app has seen in this cluster."""
        return self._store.latch_state.levels

    def pass_time(self, seconds: float) -> None:
        """Let time pass. Gates learn that the view is stale, as they do from a discoverer between two polls."""
        self.now += seconds
        self.elapsed += seconds
        self._updater.expire()

    def poll(self, cluster: Cluster, *, cut: Mapping[int, int] | None = None) -> View | None:
        """Probe every listed broker on a new connection, and update view and gates.

        Parameters
        ----------
        cluster
            The cluster as it is now.
        cut
            Node id to the number of bytes after which the connection ends.

        Returns
        -------
        The view; ``None`` if no broker answered. Then the app keeps the previous view.
        """
        self.poll_count += 1
        brokers = SimulatedBrokers(cluster, now=self.now, cut=cut or {}, turn=self.poll_count)
        poller = Poller(brokers, self._updater, chance=lambda: 0.0)
        run_blocking(poller.poll)
        error = poller.last_error
        if error is not None and not isinstance(error, DiscoveryError):
            raise error
        return None if error else self.view

    def gate(self, requirement: str, policy: Policy, *, name: str | None = None) -> Gate:
        """Return the gate of this name, created now if it does not exist."""
        name = name or f"{requirement} ({policy})"
        return self._store.add_gate(name, lambda: Gate(name, parse(requirement), policy=policy, owner=self))

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:  # noqa: ARG002 - what a gate's owner takes
        """Return ``done()`` at once: nothing happens without an event."""
        return done()

    def ensure_polling(self) -> None:
        """Do nothing: the app has no thread."""
