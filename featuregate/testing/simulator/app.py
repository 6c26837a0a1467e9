"""An app beside a simulated cluster: the real merge, ratchet, store and gates, without network, threads or clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.answers import unlisted
from featuregate.gates import Gate
from featuregate.ratchet import Kept, join
from featuregate.requirements import parse
from featuregate.store import Store
from featuregate.testing.simulator.asking import ask, listed_brokers, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from featuregate.answers import BrokerAnswer
    from featuregate.events import Event
    from featuregate.ratchet import Policy
    from featuregate.testing.simulator.cluster import Cluster
    from featuregate.view import View

__all__ = ["App", "MemoryShelf"]

_EPOCH: Final = 1_700_000_000.0


class MemoryShelf:
    """A shelf that outlives the app's restarts, and nothing else."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def load(self, cluster_id: str) -> Kept | None:
        """Return what is kept of this cluster."""
        return self._kept.get(cluster_id)

    def save(self, kept: Kept) -> Kept:
        """Join it with what is there."""
        assert kept.cluster_id is not None
        there = self._kept.get(kept.cluster_id, Kept(cluster_id=kept.cluster_id))
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

    Parameters
    ----------
    requirements
        Texts such as ``"group.version>=1"``; each gets a sticky and a live gate.
    """

    sticky: Mapping[str, Gate]
    live: Mapping[str, Gate]

    def __init__(self, requirements: Iterable[str]) -> None:
        self.requirements = tuple(requirements)
        self.shelf = MemoryShelf()
        self.now = _EPOCH
        self.events: list[Event] = []
        self.restart()

    def restart(self) -> None:
        """End the process, and begin another one: views are forgotten, the shelf is not."""
        self._store: Store[Gate] = Store(shelf=self.shelf, wall=lambda: self.now, metrics=self.events.append)
        self.sticky = {requirement: self._gate(requirement, "sticky") for requirement in self.requirements}
        self.live = {requirement: self._gate(requirement, "live") for requirement in self.requirements}

    @property
    def view(self) -> View | None:
        """The merged truth of the last look."""
        return self._store.view

    @property
    def latched(self) -> Mapping[str, int]:
        """The highest finalized level ever seen of each feature of this cluster."""
        return self._store.kept.levels

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
        The view; ``None`` where no broker answered, and then nothing changes.
        """
        found = listed_brokers(cluster)
        if found is None:
            return None
        listed, registered = found
        cuts = cut or {}
        answers = [ask(cluster, node_id, now=self.now, cut_after=cuts.get(node_id)) for node_id in listed]
        if not any(answer.answered for answer in answers):
            return None
        last = self._store.last(cluster.cluster_id)
        if last is not None and not registered:
            answers += _vanished(last, listed)
        view = merged(cluster, answers, last, self.now)
        self._store.offer(view)
        return view

    def _gate(self, requirement: str, policy: Policy) -> Gate:
        name = f"{requirement} ({policy})"
        return self._store.add_gate(name, lambda: Gate(name, parse(requirement), policy=policy, owner=self))

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:  # noqa: ARG002 - what a gate's owner takes
        """Return at once whether it is so: nothing happens by itself here."""
        return done()

    def revive(self) -> None:
        """Do nothing: no thread is there to be revived."""


def _vanished(last: View, listed: tuple[int, ...]) -> list[BrokerAnswer]:
    """Keep brokers known that an old cluster does not list while they are down: they may come back as they were."""
    return [unlisted(broker, seconds=0.0) for broker in last.brokers if broker.node_id not in listed]
