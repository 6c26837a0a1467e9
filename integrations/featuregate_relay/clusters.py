"""The clusters of a relay: what each request and each stream looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from featuregate.sources.seen import digest
from featuregate_relay.refusals import RequestRefused
from featuregate_relay.states import CurrentState, is_open_in
from featuregate_relay.waiting import NextChange

if TYPE_CHECKING:
    from featuregate import Discoverer, Gate
    from featuregate.gating.latches import LatchKey

T = TypeVar("T")

_POLL_SECONDS: Final = 1.0
"""Seconds between two polls that clients ask for, for all clients together."""
MOST_CALLS: Final = 500
"""Calls of requests that wait for the thread of one cluster."""


class ClusterThread:
    """Runs calls one after the other in a thread, which starts with the first call. A cluster delays no other one."""

    def __init__(self, *, most: int = MOST_CALLS) -> None:
        self._most = most
        self._waiting = 0
        self._thread: ThreadPoolExecutor | None = None
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns. A request that is cancelled while the call waits takes the call with it.

        Raises RequestRefused: too many calls wait (503).
        """
        if self._waiting >= self._most:
            raise RequestRefused(
                503, f"{self._most} requests wait for this cluster, which is as many as may", retry_after=1
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._started(), call)
        finally:
            self._waiting -= 1

    async def run_once(self, key: Hashable, call: Callable[[], T]) -> T:
        """Return what the call returns, which runs once for all that ask for the same key meanwhile."""
        task = self._shared.get(key)
        if task is None:
            task = self._shared[key] = asyncio.create_task(self.run(call))
            task.add_done_callback(lambda _: self._shared.pop(key))
        return await asyncio.shield(task)

    def later(self, call: Callable[[], object]) -> None:
        """Run a call for which nobody waits."""
        self._started().submit(call)

    def close(self) -> None:
        """End the thread after the call that runs. A later call starts another thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def _started(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="featuregate-relay")
        return self._thread


@dataclass(frozen=True, slots=True)
class PolledCluster:
    """A cluster that the relay polls, and the gates that it keeps there."""

    features: Discoverer
    gates: tuple[Gate, ...] = ()


class ServedCluster:
    """A cluster under its name, with what waits for its next view and its next state."""

    def __init__(self, name: str, cluster: PolledCluster) -> None:
        self.name = name
        self.features = cluster.features
        self.gates = cluster.gates
        self._sticky = tuple(gate for gate in cluster.gates if gate.policy == "sticky")
        self.worker = ClusterThread()
        self.state = CurrentState(cluster.features, cluster.gates, self.worker.later)
        self.next_view = NextChange(lambda: cluster.features.view_and_age()[0])
        self.next_state = NextChange(self.state)
        self._poll_at = 0.0
        """When the last poll that a client has asked for begins, on the clock of the loop."""
        self._status = ""
        self._since = ""

    def health(self) -> dict[str, Any]:
        """Return what `Discoverer.health` says, and since when the relay has seen the status, as a time of ISO 8601."""
        health = self.features.health()
        if health["status"] != self._status:
            self._status, self._since = health["status"], datetime.now(UTC).isoformat(timespec="seconds")
        return health | {"since": self._since}

    async def prepare(self) -> None:
        """Wait until the state is that of the view at hand."""
        self.state()
        if self.state.is_behind:
            await self.worker.run(self.state.made)

    def poll_soon(self) -> None:
        """Let the discoverer ask its brokers, for a client that has seen newer answers than these. On the loop."""
        loop = asyncio.get_running_loop()
        if self._poll_at <= loop.time():
            self._poll_at = max(loop.time(), self._poll_at + _POLL_SECONDS)
            loop.call_at(self._poll_at, self.features.poll_soon)

    def latched(self, cluster_id: str | None) -> tuple[LatchKey, ...]:
        """Return the gates that are latched for this cluster, which clients of its view latch, too."""
        return tuple([gate.key for gate in self._sticky if is_open_in(cluster_id, gate.decision)])

    def latches(self, cluster_id: str | None) -> dict[str, str]:
        """Return the digits that identify the latch of each sticky gate, by its name, for this cluster."""
        return {gate.name: digest([cluster_id, *gate.key]) for gate in self._sticky}

    def stop_waiting(self) -> None:
        """Let every request and stream go that waits."""
        self.next_view.stop()
        self.next_state.stop()
