"""What coroutines of ours wait with, in whichever loop they run: time limits, races, blocking calls.

The code that asks brokers is written once. It runs in asyncio for a discoverer, whose sources belong to apps, and in a
`featuregate.loops.short_loop.ShortLoop` for one question: importing asyncio would take longer than asking. Both have
the same methods. Times are in seconds, and deadlines are times of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine, and return its result or raise its exception.

    Also works where an event loop runs already, as in a notebook; there the call blocks that loop.
    """
    import asyncio  # noqa: PLC0415 - the front door must be cheap to import

    def run() -> T:
        return asyncio.run(work())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see above

    # A thread can run only one loop, so this call gets a thread of its own.
    with ThreadPoolExecutor(1, thread_name_prefix="featuregate-blocking") as thread:
        return thread.submit(run).result()
