"""An app beside a simulated cluster: the real polling, store and gates, without network, threads or clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.errors import DiscoveryError
from featuregate.gating.gates import Gate
from featuregate.gating.latches import LatchState, join
from featuregate.gating.store import Store
from featuregate.net.probe import BrokerList
from featuregate.polling.poll import take_in
from featuregate.polling.poll_state import Polls
from featuregate.requirements import parse
from featuregate.sources.brokers import Asked
from featuregate.testing.simulator.client import ask, listed_brokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from featuregate.gating.events import Event
    from featuregate.gating.latches import Policy
    from featuregate.testing.simulator.cluster import Cluster
    from featuregate.view.cluster_view import View

__all__ = ["FORGET_AFTER", "STALE_AFTER", "App", "MemoryLatchStore"]

_EPOCH: Final = 1_700_000_000.0
_INTERVAL: Final = 5.0
STALE_AFTER: Final = 15.0
"""Seconds without an answer after which the app's view is stale."""
FORGET_AFTER: Final = 20.0
"""Seconds for which the app knows brokers that are not listed any more."""


class MemoryLatchStore:
    """A latch store that outlives the app's restarts, and nothing else."""

    def __init__(self) -> None:
        self._kept: dict[str, LatchState] = {}

    def load(self, cluster_id: str) -> LatchState | None:
        """Return what is kept of this cluster."""
        return self._kept.get(cluster_id)

    def save(self, kept: LatchState) -> LatchState:
        """Join it with what is there."""
        assert kept.cluster_id is not None
        there = self._kept.get(kept.cluster_id, LatchState(cluster_id=kept.cluster_id))
        self._kept[kept.cluster_id] = join(there, kept)
        return self._kept[kept.cluster_id]


class App:
    """What a :class:`~featuregate.Discoverer` does at each poll, done when it is told to.

    Attributes
    ----------
    sticky, live : dict
        The gates by requirement, of either policy.
    events : list
        What the hooks of the app were told, oldest first.
    now : float
        Its wall clock, in seconds since the Unix epoch; it goes where it is put.
    elapsed : float
        Its monotonic clock, in seconds.
    looks : int
        How often it has looked. It asks another broker each time who the others are.

    Parameters
    ----------
    requirements
        Texts such as ``"group.version>=1"``; each gets a sticky and a live gate.
    """

    sticky: Mapping[str, Gate]
    live: Mapping[str, Gate]

    def __init__(self, requirements: Iterable[str]) -> None:
        self.requirements = tuple(requirements)
        self.latch_store = MemoryLatchStore()
        self.now, self.elapsed = _EPOCH, 0.0
        self.looks = 0
        self.events: list[Event] = []
        self.restart()

    def restart(self) -> None:
        """End the process, and begin another one: views are forgotten, the latch store is not."""
        self._polls = Polls(interval=_INTERVAL, stale_after=STALE_AFTER, forget_after=FORGET_AFTER)
        self._store: Store[Gate] = Store(
            latch_store=self.latch_store,
            wall=lambda: self.now,
            metrics=self.events.append,
            staleness=lambda: self._polls.staleness(self.elapsed),
        )
        self.sticky = {requirement: self.gate(requirement, "sticky") for requirement in self.requirements}
        self.live = {requirement: self.gate(requirement, "live") for requirement in self.requirements}

    @property
    def view(self) -> View | None:
        """The merged truth of the last look."""
        return self._store.view

    @property
    def latched(self) -> Mapping[str, int]:
        """The highest finalized level ever seen of each feature of this cluster."""
        return self._store.kept.levels

    def pass_time(self, seconds: float) -> None:
        """Let time go by. Gates learn when the view grows stale, as they do from a discoverer between its polls."""
        self.now += seconds
        self.elapsed += seconds
        if self._polls.stale(self.elapsed):
            self._store.reconsider()

    def look(self, cluster: Cluster, *, cut: Mapping[int, int] | None = None) -> View | None:
        """Ask every broker that is known, each on a new connection, and let the gates settle.

        Parameters
        ----------
        cluster
            As it is now.
        cut
            Node id to the number of bytes after which its connection ends.

        Returns
        -------
        The view; ``None`` where no broker answered, and then the view before stays.
        """
        self.looks += 1
        found = listed_brokers(cluster, self.looks)
        listed, registered = found if found is not None else ((), False)
        cuts = cut or {}
        answers = tuple(ask(cluster, node_id, now=self.now, cut_after=cuts.get(node_id)) for node_id in listed)
        if not any(answer.answered for answer in answers):
            self._polls.failed(DiscoveryError([]))
            return None
        broker_list = BrokerList(
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller_id,
            nodes=(),
            source="cluster",
            registered=registered,
        )
        asked = Asked(broker_list, answers, self.now)
        return take_in(asked, "broker", polls=self._polls, store=self._store, now=self.elapsed)

    def gate(self, requirement: str, policy: Policy, *, name: str | None = None) -> Gate:
        """Return a gate of the app, made now where there is none of this name yet."""
        name = name or f"{requirement} ({policy})"
        return self._store.add_gate(name, lambda: Gate(name, parse(requirement), policy=policy, owner=self))

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:  # noqa: ARG002 - what a gate's owner takes
        """Return at once whether it is so: nothing happens by itself here."""
        return done()

    def ensure_polling(self) -> None:
        """Do nothing: no thread is there to be revived."""
