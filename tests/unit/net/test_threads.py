"""Blocking calls in daemon threads."""

import asyncio
import threading

import pytest

from featuregate.blocking import in_daemon_thread


async def test_the_result_of_the_call_is_returned():
    """The result may be None."""
    assert await in_daemon_thread(lambda: 7) == 7
    assert await in_daemon_thread(lambda: None) is None


async def test_the_exception_of_the_call_is_raised():
    """The coroutine that awaits the call raises the exception."""
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 / 0)


def test_invariant_7_a_call_that_never_ends_does_not_hold_up_the_end_of_the_loop():
    """asyncio.run() waits for the threads of its executor, and would wait for a name server."""
    never = threading.Event()

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await in_daemon_thread(never.wait)

    asyncio.run(main())
    assert not never.is_set()
    never.set()
