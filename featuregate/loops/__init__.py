"""What coroutines of ours wait with, in whichever loop they run: time limits, races, blocking calls.

The code that asks brokers is written once. It runs in asyncio for a discoverer, whose sources belong to apps, and in a
`featuregate.loops.short_loop.ShortLoop` for one question: importing asyncio would take longer than asking. Both have
the same methods. Times are in seconds, and deadlines are times of the loop.
"""

from __future__ import annotations

from _thread import _local  # threading.local, without the rest of threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featuregate.loops.asyncio_loop import AsyncioLoop
    from featuregate.loops.short_loop import ShortLoop


class _Running(_local):
    short_loop: ShortLoop | None = None


_running = _Running()


def running_short_loop() -> ShortLoop | None:
    """Return the short loop that runs in this thread, if one does."""
    return _running.short_loop


def enter(loop: ShortLoop | None) -> ShortLoop | None:
    """Make this the loop that runs in this thread, and return the one before."""
    before, _running.short_loop = _running.short_loop, loop
    return before


def running_loop() -> AsyncioLoop | ShortLoop:
    """Return the loop in which the caller runs."""
    if _running.short_loop is not None:
        return _running.short_loop
    from featuregate.loops.asyncio_loop import ASYNCIO_LOOP  # noqa: PLC0415 - what asks once does not pay for asyncio

    return ASYNCIO_LOOP
