"""A loop for one question: it runs coroutines of ours in the caller's thread, and ends with them; which loop runs.

It has what asking brokers needs, and nothing else: sockets, time limits, races, and blocking calls aside. A task is
cancelled by closing its coroutine, so what cleans up there must not wait.
"""

from __future__ import annotations

import selectors
import time
from _thread import _local  # threading.local, without the rest of threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    import socket

    from featuregate.loops.asyncio_loop import AsyncioLoop


T = TypeVar("T")


class ShortLoop:
    """Runs one coroutine, and those that it starts."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ready: deque[_Task[Any]] = deque()
        self._timers: list[_Timer] = []
        self._running: set[_Task[Any]] = set()
        self.current: _Task[Any]
        """The task that runs."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, and return its result or raise its exception. A loop runs once.

        Works where an asyncio loop runs in this thread, which this call blocks.
        """
        before, _running.short_loop = _running.short_loop, self
        try:
            task = self._start(work)
            while not task.ended:
                self._turn()
            return task.outcome()
        finally:
            for left in list(self._running):
                self._cancel(left)
            self._selector.close()
            _running.short_loop = before

    def time(self) -> float:
        """Return the time of the loop."""
        return time.monotonic()

    def timeout(self, delay: float | None) -> _Timeout:
        """Raise TimeoutError where the block takes longer."""
        return _Timeout(self, None if delay is None else self.time() + delay)

    def timeout_at(self, deadline: float) -> _Timeout:
        """Raise TimeoutError where the block has not ended by then."""
        return _Timeout(self, deadline)

    async def race(
        self,
        attempts: Iterable[Callable[[], Coroutine[Any, Any, T | None]]],
        *,
        stagger: float,
        dispose: Callable[[T], object],
    ) -> T | None:
        """Start one attempt after another until one succeeds; return its result, or None where all have failed.

        The next attempt starts when one fails, or after ``stagger`` seconds without a result, as RFC 8305 does with
        addresses. An attempt that returns None has failed. Attempts that still run at the end are cancelled; a result
        that comes too late goes to ``dispose``.
        """
        waiting = iter(attempts)
        running: list[_Task[T | None]] = []
        try:
            while True:
                start = next(waiting, None)
                if start is not None:
                    running.append(self._start(start()))
                if not running:
                    return None
                await self._first(running, stagger if start is not None else None)
                for task in [task for task in running if task.ended]:
                    running.remove(task)
                    if (result := task.outcome()) is not None:
                        return result
        finally:
            for task in running:
                self._cancel(task)
                if task.result is not None:
                    dispose(task.result)

    async def together(self, works: Iterable[Coroutine[Any, Any, None]], deadline: float) -> None:
        """Run coroutines at the same time, and cancel the others at the deadline, or where one raises."""
        tasks = [self._start(work) for work in works]
        try:
            with suppress(TimeoutError):
                async with self.timeout_at(deadline):
                    for task in tasks:
                        await self._first([task], None)
                        task.outcome()
        finally:
            for task in tasks:
                self._cancel(task)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call in a daemon thread. A caller that is cancelled does not wait for it."""
        import socket  # noqa: PLC0415 - for names to resolve and passwords alone
        import threading  # noqa: PLC0415 - likewise

        outcome: list[tuple[T | None, BaseException | None]] = []
        here, there = socket.socketpair()

        def run() -> None:
            with there:  # its end wakes the loop
                try:
                    outcome.append((call(), None))
                except BaseException as error:  # noqa: BLE001 - raised again where it is awaited, also sys.exit()
                    outcome.append((None, error))

        with here:
            threading.Thread(target=run, name="featuregate-blocking-call", daemon=True).start()
            await self.ready(here, selectors.EVENT_READ)
        result, error = outcome[0]
        if error is not None:
            raise error
        return cast("T", result)

    async def ready(self, watched: socket.socket, events: int) -> None:
        """Wait until a socket can be read or written (``EVENT_READ``, ``EVENT_WRITE``), or has failed."""
        wait = _Wait(self.current)
        self._selector.register(watched, events, wait)
        try:
            await wait
        finally:
            self._selector.unregister(watched)

    async def _first(self, tasks: Iterable[_Task[Any]], within: float | None) -> None:
        """Wait until one of these tasks has ended, for these seconds at the most."""
        if any(task.ended for task in tasks):
            return
        wait = _Wait(self.current)
        timer = None if within is None else self.at(self.time() + within, partial(self.wake, wait))
        for task in tasks:
            task.waited_for.append(wait)
        try:
            await wait
        finally:
            if timer is not None:
                timer.call = None
            for task in tasks:
                task.waited_for.remove(wait)

    def at(self, when: float, call: Callable[[], object]) -> _Timer:
        """Call a function at this time."""
        timer = _Timer(when, call)
        heappush(self._timers, timer)
        return timer

    def _start(self, work: Coroutine[Any, Any, T]) -> _Task[T]:
        task = _Task(work)
        self._running.add(task)
        self._ready.append(task)
        return task

    def _turn(self) -> None:
        """Wait until something is due, and run the tasks that can go on."""
        timeout = 0.0 if self._ready else None
        if timeout is None and self._timers:
            timeout = max(0.0, self._timers[0].when - self.time())
        for key, _ in self._selector.select(timeout):
            self.wake(key.data)
        while self._timers and self._timers[0].when <= self.time():
            if (call := heappop(self._timers).call) is not None:
                call()
        for _ in range(len(self._ready)):
            self._step(self._ready.popleft())

    def _step(self, task: _Task[Any]) -> None:
        if task.ended:
            return
        self.current = task
        try:
            task.wait = task.work.throw(task.expired.pop(0)) if task.expired else task.work.send(None)
        except StopIteration as stop:
            task.result = stop.value
        except Exception as error:  # noqa: BLE001 - raised again where the task is awaited
            task.error = error
        else:
            if task.expired:
                self.wake(task.wait)
            return
        self._end(task)

    def wake(self, wait: _Wait | None) -> None:
        """End a wait."""
        if wait is not None and not wait.over:
            wait.over = True
            self._ready.append(wait.task)

    def _cancel(self, task: _Task[Any]) -> None:
        if not task.ended:
            self._end(task)
            task.work.close()

    def _end(self, task: _Task[Any]) -> None:
        task.ended = True
        self._running.discard(task)
        for wait in task.waited_for:
            self.wake(wait)


class _Task(Generic[T]):
    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.work = work
        self.ended = False
        self.result: T | None = None
        self.error: Exception | None = None
        self.wait: _Wait | None = None
        """What it waits for now."""
        self.expired: list[_Expired] = []
        """What is thrown into it when it goes on, one after the other."""
        self.waited_for: list[_Wait] = []
        """The waits that end with it."""

    def outcome(self) -> T:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast("T", self.result)


class _Wait:
    """One wait of a task. Whatever ends it first counts."""

    def __init__(self, task: _Task[Any]) -> None:
        self.task = task
        self.over = False

    def __await__(self) -> Generator[_Wait, None, None]:
        yield self


class _Timer:
    """A function to call at a time; None where nobody waits for it any more."""

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call: Callable[[], object] | None = call

    def __lt__(self, other: _Timer) -> bool:
        return self.when < other.when


class _Expired(BaseException):
    """The time of a block is over. Not an error that code within the block may catch."""


class _Timeout:
    def __init__(self, loop: ShortLoop, deadline: float | None) -> None:
        self._loop = loop
        self._deadline = deadline

    async def __aenter__(self) -> None:
        self._task, self._expired = self._loop.current, _Expired()
        self._timer = None if self._deadline is None else self._loop.at(self._deadline, self._expire)

    async def __aexit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if self._timer is not None:
            self._timer.call = None
        if self._expired in self._task.expired:  # beside another one, which has ended the block
            self._task.expired.remove(self._expired)
        if error is self._expired:
            raise TimeoutError from error

    def _expire(self) -> None:
        self._task.expired.append(self._expired)
        self._loop.wake(self._task.wait)


class _Running(_local):
    short_loop: ShortLoop | None = None


_running = _Running()


def running_short_loop() -> ShortLoop | None:
    """Return the short loop that runs in this thread, if one does."""
    return _running.short_loop


def running_loop() -> AsyncioLoop | ShortLoop:
    """Return the loop in which the caller runs."""
    if _running.short_loop is not None:
        return _running.short_loop
    from featuregate.loops.asyncio_loop import ASYNCIO_LOOP  # noqa: PLC0415 - what asks once does not pay for asyncio

    return ASYNCIO_LOOP
