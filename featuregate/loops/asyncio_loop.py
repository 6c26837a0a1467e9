"""Wait in the asyncio loop that runs, whichever code has started it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")


class AsyncioLoop:
    """What `ShortLoop` has, in asyncio."""

    def time(self) -> float:
        """Return the time of the loop."""
        return asyncio.get_running_loop().time()

    def timeout(self, delay: float | None) -> asyncio.Timeout:
        """Raise TimeoutError where the block takes longer."""
        return asyncio.timeout(delay)

    def timeout_at(self, deadline: float) -> asyncio.Timeout:
        """Raise TimeoutError where the block has not ended by then."""
        return asyncio.timeout_at(deadline)

    async def race(
        self,
        attempts: Iterable[Callable[[], Coroutine[Any, Any, T | None]]],
        *,
        stagger: float,
        dispose: Callable[[T], object],
    ) -> T | None:
        """Return the result of the first attempt that succeeds."""
        waiting = iter(attempts)
        running: set[asyncio.Future[T | None]] = set()
        winner: asyncio.Future[T | None] | None = None
        try:
            while winner is None:
                start = next(waiting, None)
                if start is not None:
                    running.add(asyncio.ensure_future(start()))
                if not running:
                    return None
                timeout = stagger if start is not None else None
                await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                finished = {task for task in running if task.done()}
                winner = next((task for task in finished if task.result() is not None), None)
                running -= {winner} if winner is not None else finished
        finally:
            try:
                await _stop(running, dispose)
            except asyncio.CancelledError:  # the caller does not wait for the winner any more
                if winner is not None:
                    _dispose(winner, dispose)
                raise
        return winner.result()

    async def together(self, works: Iterable[Coroutine[Any, Any, None]], deadline: float) -> None:
        """Run coroutines at the same time, until the deadline."""
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await asyncio.gather(*tasks)
        finally:  # after an unexpected error of one, the others must not go on in the loop of the app
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def in_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a blocking call in a daemon thread.

        The loop's own executor is not used: `asyncio.run` waits at its end for the executor's threads, however long a
        name server or a token endpoint takes.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]  # a call that gives None has T = None
            else:
                future.set_exception(error)

        def run() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited, also sys.exit()
                error = raised
            try:
                loop.call_soon_threadsafe(finish, result, error)
            except RuntimeError:
                return  # the loop is closed, so no coroutine waits any more

        threading.Thread(target=run, name="featuregate-blocking-call", daemon=True).start()
        return future


async def _stop(running: set[asyncio.Future[T | None]], dispose: Callable[[T], object]) -> None:
    for task in running:
        if task.done():  # from Python 3.12 on, gather does not wait for the callbacks of such a task
            _dispose(task, dispose)
            continue
        # Also where this coroutine has been cancelled by then.
        task.add_done_callback(lambda done: _dispose(done, dispose))
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _dispose(task: asyncio.Future[T | None], dispose: Callable[[T], object]) -> None:
    if not task.cancelled() and task.exception() is None and (result := task.result()) is not None:
        dispose(result)


ASYNCIO_LOOP: Final = AsyncioLoop()
