"""What runs the poll loop: a daemon thread with a loop of its own, or a task of the caller's loop.

Both run the same coroutine. Any thread may stop, wake or drop a worker. A discoverer starts and ends its worker, its
usage reports and its part in a fork together.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from os import getpid
from typing import TYPE_CHECKING, Any, Self

from featuregate.errors import ClosedError
from featuregate.logs import get_logger

if TYPE_CHECKING:
    from featuregate.polling.poller import Poller
    from featuregate.usage.reporting import Reporting

logger = get_logger("featuregate")

JOIN_SECONDS = 5.0
BEGIN_SECONDS = 15.0
"""Seconds within which a thread begins to poll, and continues after a rest, on any busy machine."""
POLL_SECONDS = 60.0
"""What a poll may take in addition to its source: a latch store blocks for as long as its app allows."""


class Worker:
    """Polls until it is stopped, or until its poller has no other reference."""

    def __init__(self, poller: Poller, *, clock: Callable[[], float] = time.monotonic) -> None:
        poller.load()  # here, in the caller's thread: see featuregate.forks
        self._poller = weakref.ref(poller)
        self._clock = clock
        self._moves_by = clock() + BEGIN_SECONDS
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        # Runs wherever the garbage collector happens to run, so it may neither block nor lock.
        weakref.finalize(poller, self._halt).atexit = False

    @classmethod
    def in_thread(cls, poller: Poller) -> Self:
        """Start a named daemon thread, with a loop of its own."""
        worker = cls(poller)
        worker._thread = threading.Thread(target=worker._in_thread, name="featuregate-poll", daemon=True)
        worker._thread.start()
        return worker

    @classmethod
    def in_task(cls, poller: Poller) -> Self:
        """Start a task in the running loop."""
        worker = cls(poller)
        # Before the task runs: until then, a caller must not block the loop either.
        worker._loop = asyncio.get_running_loop()
        worker._task = worker._loop.create_task(worker._run(), name="featuregate-poll")
        return worker

    def wake(self, number: int) -> None:
        """Begin the poll of this number now rather than later. If it has begun already, no other poll follows it."""
        self._call_in_loop(partial(self._wake_for, number))

    def stop(self) -> None:
        """Stop, also in the middle of a poll. A thread has ended when this returns."""
        self._halt()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)

    async def stopped(self) -> None:
        """Wait until the task has ended."""
        if self._task is not None and self._thread is None:
            # Not by awaiting the task: its cancellation would look like that of the caller.
            await asyncio.wait([self._task])

    def alive(self) -> bool:
        """Say whether it polls."""
        if self._thread is not None:
            return self._thread.is_alive()
        ended = self._loop is not None and self._loop.is_closed()
        return self._task is not None and not self._task.done() and not ended

    def hangs(self) -> bool:
        """Say whether it has made no step for longer than any step takes, as where a fork broke an import."""
        return self._clock() > self._moves_by

    def is_here(self) -> bool:
        """Say whether the caller runs in the loop that polls, and would block it by waiting."""
        if self._loop is None:
            return False
        with suppress(RuntimeError):  # no loop runs in this thread
            return asyncio.get_running_loop() is self._loop
        return False

    def _halt(self) -> None:
        # Without a lock: either this sees the loop, or _run sees the flag, because each writes before it reads.
        self._stopping = True
        if self._task is not None:
            self._call_in_loop(self._task.cancel)

    def _wake_for(self, number: int) -> None:
        # In the loop that polls, so no poll begins between the look and the call.
        poller = self._poller()
        if self._wake is not None and poller is not None and poller.next_number <= number:
            self._wake.set()

    def _call_in_loop(self, function: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, so nothing runs there
                self._loop.call_soon_threadsafe(function)

    def _in_thread(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            return
        except BaseException:
            logger.exception("the thread that polled in process %d has ended: wait() starts another one", getpid())

    async def _run(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.current_task()
        source = None
        try:
            while not self._stopping:
                poller = self._poller()
                if poller is None:
                    return
                source = poller.source
                self._wake.clear()
                self._moves_by = self._clock() + 2 * source.timeout + POLL_SECONDS
                delay, news = await poller.poll(aside=self._thread is None), poller.news()
                del poller
                self._moves_by = self._clock() + delay + BEGIN_SECONDS
                await self._rest(delay, news)
        finally:
            if (close := getattr(source, "close", None)) is not None:
                close()

    async def _rest(self, delay: float, news: Callable[[float], Coroutine[Any, Any, None]] | None) -> None:
        """Wait for these seconds, or until a thread wakes this worker, or until there is news."""
        assert self._wake is not None
        listening = None if news is None else asyncio.create_task(self._listen(news, delay))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._wake.wait()
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def _listen(self, news: Callable[[float], Coroutine[Any, Any, None]], within: float) -> None:
        assert self._wake is not None
        try:
            await news(within)
        except Exception:
            logger.exception("a source failed to wait for news; the next poll comes in its time")
        else:
            self._wake.set()


class Lifecycle:
    """Holds the worker of a poller, and the reports of its gates where there are some."""

    def __init__(self, poller: Poller, reporting: Reporting | None) -> None:
        self._poller = poller
        self._reporting = reporting
        self._lock = threading.RLock()
        self.worker: Worker | None = None
        """What polls; None before the start, after the end, and in a forked child."""
        self._hung: Worker | None = None

    @property
    def polling(self) -> bool:
        """Whether a worker polls. The log has it once where a worker hangs."""
        worker = self.worker
        if worker is None or not worker.alive():
            return False
        if not worker.hangs():
            return True
        if self._hung is not worker:
            self._hung = worker
            logger.error("nothing polls in process %d: its thread hangs; restart the process", getpid())
        return False

    def start_thread(self) -> None:
        """Start polling in a thread; see :meth:`start`."""
        self.start(Worker.in_thread)

    def start_task(self) -> None:
        """Start polling in a task of the running loop; see :meth:`start`."""
        self.start(Worker.in_task)

    def start(self, begin: Callable[[Poller], Worker]) -> None:
        """Start polling where nothing polls, or a loop that polled has ended. Raises `ClosedError` after the end."""
        with self._lock:
            if not self._poller.state.closed and (self.worker is None or not self.worker.alive()):
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
