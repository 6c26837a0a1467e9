"""Run a coroutine from blocking code, and a blocking call from a coroutine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

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


def in_daemon_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Begin a blocking call in a daemon thread; awaiting it returns its result or raises its exception.

    A caller that is cancelled does not wait for the call. The loop's own executor is not used: `asyncio.run` waits at
    its end for the executor's threads, however long a name server or a token endpoint takes.
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
        except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited, also sys.exit()
            error = raised
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:
            return  # the loop is closed, so no coroutine waits any more

    threading.Thread(target=run, name="featuregate-blocking-call", daemon=True).start()
    return future
