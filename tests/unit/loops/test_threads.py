"""Blocking calls in daemon threads."""

import asyncio
import threading

import pytest

from featuregate.loops.asyncio_loop import ASYNCIO_LOOP


def test_invariant_7_a_call_that_never_ends_does_not_hold_up_the_end_of_the_loop():
    """asyncio.run() waits for the threads of its executor, and would wait for a name server."""
    never = threading.Event()

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ASYNCIO_LOOP.in_thread(never.wait)

    asyncio.run(main())
    assert not never.is_set()
    never.set()
