"""The life of a discoverer: what polls and what reports start, end and follow a fork together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from featuregate.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate.polling.poller import Poller
    from featuregate.polling.worker import Worker
    from featuregate.usage.reporting import Reporting


class Lifecycle:
    """Holds the worker of a poller, and the reports of its gates where there are some."""

    def __init__(self, poller: Poller, reporting: Reporting | None) -> None:
        self._poller = poller
        self._reporting = reporting
        self._lock = threading.RLock()
        self.worker: Worker | None = None
        """What polls; None before the start, after the end, and in a forked child."""

    @property
    def polling(self) -> bool:
        """Whether a worker polls."""
        worker = self.worker
        return worker is not None and worker.alive()

    def start(self, begin: Callable[[Poller], Worker]) -> None:
        """Start polling where nothing polls, also where a loop that polled has ended.

        Raises `ClosedError` after the end.
        """
        with self._lock:
            if not self._poller.state.closed and not self.polling:
                self.worker = begin(self._poller)
                if self._reporting is not None:
                    self._reporting.start()
            # Perhaps just now: this lock lets the signal handlers of its own thread through.
            closed = self._poller.state.closed
        if closed:
            self.close()
            raise ClosedError("this discoverer has been closed; make a new one")

    def close(self) -> None:
        """End it. Closing twice is closing once."""
        if self._reporting is not None:
            self._reporting.close()
        with self._lock:
            worker, self.worker = self.worker, None
            self._poller.state.closed = True  # from now on the view proves nothing new
        if worker is not None:
            worker.stop()

    async def aclose(self) -> None:
        """End it from the loop that polls, and wait until the task has ended."""
        worker = self.worker
        try:
            if self._reporting is not None:
                import asyncio  # noqa: PLC0415 - see Worker.in_task

                await asyncio.to_thread(self._reporting.close)  # a sender that blocks must not hold the caller's loop
        finally:
            self.close()
        if worker is not None:
            await worker.stopped()

    def forked(self) -> None:
        """In a forked child no thread polls, and locks may be held for ever."""
        self._lock = threading.RLock()
        self.worker = None
        if self._reporting is not None:
            self._reporting.forked()
