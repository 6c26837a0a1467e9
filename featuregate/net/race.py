"""Run several attempts, and take the result of the first that succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def race(
    attempts: Iterable[Callable[[], Awaitable[T | None]]], *, stagger: float, dispose: Callable[[T], object]
) -> T | None:
    """Start one attempt after another until one succeeds; return its result, or None where all have failed.

    The next attempt starts when one fails, or after ``stagger`` seconds without a result, as RFC 8305 does with
    addresses. An attempt that returns None has failed. Attempts that still run at the end are cancelled; a result that
    comes too late goes to ``dispose``.
    """
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


async def _stop(running: set[asyncio.Future[T | None]], dispose: Callable[[T], object]) -> None:
    for task in running:
        if task.done():
            _dispose(
                task, dispose
            )  # from Python 3.12 on, gather does not wait for the callbacks of a task that is done
            continue
        task.add_done_callback(
            lambda done: _dispose(done, dispose)
        )  # also where this coroutine has been cancelled by then
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _dispose(task: asyncio.Future[T | None], dispose: Callable[[T], object]) -> None:
    if not task.cancelled() and task.exception() is None and (result := task.result()) is not None:
        dispose(result)
