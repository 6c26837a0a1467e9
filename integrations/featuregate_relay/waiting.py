"""Requests that wait for a change of a cluster. One task looks for it, however many requests wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from featuregate_relay.refusals import RequestRefused

if TYPE_CHECKING:
    from starlette.types import Receive

T = TypeVar("T")

_MOST: Final = 10_000
"""Requests that wait at a time. Further ones are answered at once."""
_LOOK_SECONDS: Final = 0.05


class NextChange(Generic[T]):
    """Wakes requests as soon as ``look()`` returns another object."""

    def __init__(self, look: Callable[[], T], *, most: int = _MOST) -> None:
        self._look = look
        self._most = most
        self._waiting = 0
        self._stopped = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._found = look()
        """What the task has found last: thousands that wait look at it, because each look costs more than a wait."""

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self._waiting

    @property
    def stopped(self) -> bool:
        """Whether the server stops, so that nothing may wait any more."""
        return self._stopped

    def latest(self) -> T:
        """Return the current object; while the task runs, the one that it has found last."""
        return self._look() if self._task is None else self._found

    async def after(self, seen: T, seconds: float) -> bool:
        """Wait until there is another object than this, and return whether there is.

        Not for longer than ``seconds``, and not at all where too many wait, or once the server stops.
        """
        if self._waiting < self._most:
            self._waiting += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        return await self._until_changed(seen)
            finally:
                self._waiting -= 1
        return self._is_news(seen)

    def stop(self) -> None:
        """Let every request go that waits, and those that come."""
        self._stopped = True
        self._changed.set()

    def _is_news(self, seen: T) -> bool:
        """Say whether there is another object. What the task has found may be older than that."""
        return self.latest() is not seen and self._look() is not seen

    async def _until_changed(self, seen: T) -> bool:
        while not self._stopped and not self._is_news(seen):
            if self._task is None:
                self._found = seen
                self._task = asyncio.get_running_loop().create_task(self._look_on())
            await self._changed.wait()
            if self._found is not seen:
                return True
        return self._is_news(seen)

    async def _look_on(self) -> None:
        """Look until there is a change or no request waits. No hook of the discoverer is called for each poll."""
        seen = self._found
        while self._found is seen and self._waiting and not self._stopped:
            await asyncio.sleep(_LOOK_SECONDS)
            self._found = self._look()
        self._task = None
        if not self._stopped:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, and end it with the connection: clients that come back would leave it behind.

    The body of the request is read, and left. Raises RequestRefused, which is not read by any client.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_end_of(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise RequestRefused(503, "the client has closed the connection")
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _end_of(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
