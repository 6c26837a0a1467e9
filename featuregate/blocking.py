"""Between coroutines and calls that block: either one, run from the other side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

__all__ = ["in_daemon_thread", "run_blocking"]

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


async def in_daemon_thread(call: Callable[[], T]) -> T:
    """Run a call that may block, and wait for what it gives or raises.

    Whoever stops waiting is free at once. The loop's own executor is not used, since `asyncio.run` waits for its
    threads at the end, however long a name server or a token endpoint keeps them; nobody waits for a daemon thread.
    """
    import asyncio  # noqa: PLC0415 - see above
    import threading  # noqa: PLC0415

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
