"""A thread for each cluster, for what takes longer the larger the cluster is. The event loop serves all clusters."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from featuregate_relay.refusals import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

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

        Raises
        ------
        RequestRefused
            503: too many calls wait.
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
