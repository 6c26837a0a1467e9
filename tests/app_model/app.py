"""An app over a fake cluster: the production discoverer and its gates, without a network, threads or a clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from memory_latches import MemoryLatchStore

from app_model.brokers import UnpluggedBrokers
from featuregate import Discoverer, Gate, View
from featuregate.errors import DiscoveryError
from featuregate.gating.events import Event
from featuregate.gating.latches import Policy
from featuregate.loops import run_blocking
from featuregate.testing import FakeCluster

INTERVAL = 5.0
STALE_AFTER = 15.0
"""Seconds without an answer after which the view is stale."""
FORGET_AFTER = 20.0
"""Seconds for which the app remembers brokers that are no longer listed."""


@dataclass(frozen=True)
class Poll:
    """The app polls all brokers."""


@dataclass(frozen=True)
class TruncateAnswer:
    """The next answer of a node to the app is cut off after some bytes."""

    node_id: int
    after_bytes: int


@dataclass(frozen=True)
class Lie:
    """A broker reports another level at another epoch, right or wrong, until the cluster changes its levels."""

    node_id: int
    epoch: int
    level: int


@dataclass(frozen=True)
class PassTime:
    """The clock of the app goes on, or jumps back."""

    seconds: float


@dataclass(frozen=True)
class RestartApp:
    """Restart the process of the app. It keeps its latch store."""


class Unstarted(Discoverer):
    """A discoverer that polls when a test says so, in the thread of the test."""

    def start(self) -> Self:
        return self

    def poll(self) -> None:
        run_blocking(self._poller.poll)
        error = self._poller.state.last_error
        if error is not None and not isinstance(error, DiscoveryError):
            raise error

    @property
    def failed(self) -> bool:
        return self._poller.state.last_error is not None


class App:
    """An app that polls when a script says so, with a sticky and a live gate for each requirement."""

    sticky: Mapping[str, Gate]
    live: Mapping[str, Gate]
    options: Mapping[str, Any] = {}
    """More options of the discoverer."""

    def __init__(self, requirements: Iterable[str]) -> None:
        self.requirements = tuple(requirements)
        self.latch_store = MemoryLatchStore()
        self.elapsed = 0.0
        self.poll_count = 0
        """Each poll fetches the broker list from another broker."""
        self.events: list[Event] = []
        self.brokers: UnpluggedBrokers | None = None
        self.restart()

    def restart(self) -> None:
        """End the process, and begin another one: the app forgets its views, and starts from its latches."""
        self.features = Unstarted(
            source=self,
            interval=INTERVAL,
            stale_after=STALE_AFTER,
            forget_after=FORGET_AFTER,
            latch_store=self.latch_store,
            start_from="latch",
            chance=lambda: 0.0,
            clock=lambda: self.elapsed,
            **self.options,
        )
        self.features.on_event(self.events.append)
        self.sticky = {requirement: self.gate(requirement, "sticky") for requirement in self.requirements}
        self.live = {requirement: self.gate(requirement, "live") for requirement in self.requirements}

    timeout = UnpluggedBrokers.timeout

    async def fetch(self):
        return await self.brokers.fetch()

    @property
    def view(self) -> View | None:
        return self.features.view

    @property
    def latched(self) -> Mapping[str, int]:
        return self.features.latched

    def pass_time(self, seconds: float) -> None:
        """Let time pass. Gates learn that the view is stale, as they do from a discoverer between two polls."""
        self.elapsed += seconds
        self.features._poller.expire()

    def poll(self, cluster: FakeCluster, *, cut: Mapping[int, int] | None = None) -> View | None:
        """Probe every listed broker on a new connection. The connection to a node in ``cut`` ends after some bytes.

        Returns the view, and None if no broker answered: then the app keeps the previous view.
        """
        self.poll_count += 1
        self.brokers = UnpluggedBrokers(cluster, now=self.elapsed, cut=cut or {}, turn=self.poll_count)
        self.features.poll()
        return None if self.features.failed else self.view

    def gate(self, requirement: str, policy: Policy, *, name: str | None = None) -> Gate:
        return self.features.gate(name or f"{requirement} ({policy})", requirement, policy=policy)
