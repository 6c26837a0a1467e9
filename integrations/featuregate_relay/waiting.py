"""Requests that wait for the next view of a cluster. One task looks for it, however many requests wait."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from featuregate import Discoverer, View

__all__ = ["NextView"]

_MOST: Final = 10_000
"""Requests that wait at a time. Further ones are answered at once."""
_LOOK_SECONDS: Final = 0.05


class NextView:
    """Wakes requests as soon as a discoverer has another view."""

    def __init__(self, features: Discoverer, *, most: int = _MOST) -> None:
        self._features = features
        self._most = most
        self._waiting = 0
        self._stopped = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self._waiting

    async def after(self, view: View | None, seconds: float) -> bool:
        """Wait until the view is another one than this, and return whether it is.

        Not for longer than ``seconds``, and not at all where too many wait, or once the server stops.
        """
        if self._waiting < self._most:
            self._waiting += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._until_changed(view)
            finally:
                self._waiting -= 1
        return self._features.view is not view

    def stop(self) -> None:
        """Let every request go that waits, and those that come."""
        self._stopped = True
        self._changed.set()

    async def _until_changed(self, view: View | None) -> None:
        while self._features.view is view and not self._stopped:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._look(view))
            await self._changed.wait()

    async def _look(self, view: View | None) -> None:
        """Look until the view has changed or no request waits. No hook of the discoverer is called for each poll."""
        while self._features.view is view and self._waiting and not self._stopped:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(_LOOK_SECONDS)
        self._task = None
        if not self._stopped:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
