"""Several attempts, of which the first that works is taken."""

import asyncio
import contextlib

import pytest

from featuregate.net.race import race

NEVER = 3600


def giving(value):
    """An attempt that gives a value at once."""

    async def attempt():
        return value

    return attempt


async def hang():
    """An attempt that never ends."""
    await asyncio.Event().wait()


async def test_the_first_that_works_is_taken():
    """The others are not even started."""
    started = []

    async def late():
        started.append("late")

    assert await race([giving(None), giving("a"), late], stagger=NEVER, dispose=started.append) == "a"
    assert started == []


async def test_all_that_fail_are_none():
    """Each was tried."""
    assert await race([giving(None)] * 3, stagger=NEVER, dispose=print) is None


async def test_none_to_try_is_none():
    """Nothing hangs."""
    assert await race([], stagger=NEVER, dispose=print) is None


async def test_one_that_says_nothing_does_not_hold_up_the_next():
    """It is cancelled when the next one works."""
    assert await race([hang, giving("b")], stagger=0.001, dispose=print) == "b"


async def test_a_result_that_comes_too_late_is_disposed_of():
    """A connection that nobody wants must be closed."""

    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"

    disposed = []
    assert await race([stubborn, giving("b")], stagger=0.001, dispose=disposed.append) == "b"
    assert disposed == ["late"]


async def test_two_that_work_at_the_same_time_give_one():
    """The other is disposed of."""
    both = asyncio.Event()

    def waiting(value):
        async def attempt():
            await both.wait()
            return value

        return attempt

    async def opener():
        both.set()

    disposed = []
    winner = await race([waiting("a"), waiting("b"), opener], stagger=0.001, dispose=disposed.append)
    assert {winner, *disposed} == {"a", "b"}


async def test_cancelling_the_race_cancels_all():
    """Nothing goes on in the dark."""
    cancelled = asyncio.Event()

    async def attempt():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await race([attempt], stagger=NEVER, dispose=print)
    assert cancelled.is_set()


async def test_nothing_is_lost_when_the_race_is_cancelled_at_its_end():
    """It has a winner, and waits for another that ends in its own time; nobody takes either."""
    cancelled, go_on, disposed = asyncio.Event(), asyncio.Event(), []

    async def stubborn():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        cancelled.set()
        with contextlib.suppress(asyncio.CancelledError):
            await go_on.wait()
        return "late"

    task = asyncio.ensure_future(race([stubborn, giving("b")], stagger=0.001, dispose=disposed.append))
    await cancelled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(disposed) == {"b", "late"}
