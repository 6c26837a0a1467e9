"""Coroutines for callers that have none: one front, and no twin of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["run_blocking"]

T = TypeVar("T")


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, and give what it gives or raise what it raises.

    Works where an event loop already runs too, as in a notebook; there it blocks that loop meanwhile.
    """
    import asyncio  # noqa: PLC0415 - the front door must be cheap to import

    def run() -> T:
        return asyncio.run(work())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see above

    # A loop cannot be entered twice in one thread, so this call gets a thread of its own.
    with ThreadPoolExecutor(1, thread_name_prefix="featuregate-blocking") as thread:
        return thread.submit(run).result()
