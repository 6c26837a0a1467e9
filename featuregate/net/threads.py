"""Calls that block, away from the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_daemon_thread"]

T = TypeVar("T")


async def in_daemon_thread(call: Callable[[], T]) -> T:
    """Run a call that may block, and wait for what it gives or raises.

    Whoever stops waiting is free at once. The loop's own executor is not used, since `asyncio.run` waits for its
    threads at the end, however long a name server or a token endpoint keeps them; nobody waits for a daemon thread.
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
        except Exception as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:
            return  # the loop has closed: nobody waits any more

    threading.Thread(target=run, name="featuregate-blocking-call", daemon=True).start()
    return await future
