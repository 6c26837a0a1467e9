"""Several attempts at the same time, of which the first success wins."""

import asyncio
import contextlib

import pytest

from featuregate.loops.asyncio_loop import ASYNCIO_LOOP

NEVER = 3600
race = ASYNCIO_LOOP.race


def giving(value):
    """Return an attempt that succeeds at once with a value."""

    async def attempt():
        return value

    return attempt


async def hang():
    """Never return."""
    await asyncio.Event().wait()


async def test_the_first_that_works_is_taken():
    """The race does not start the attempts after the winner."""
    started = []

    async def late():
        started.append("late")

    assert await race([giving(None), giving("a"), late], stagger=NEVER, dispose=started.append) == "a"
    assert started == []


async def test_all_that_fail_are_none():
    """The race returns None when each attempt has failed."""
    assert await race([giving(None)] * 3, stagger=NEVER, dispose=print) is None


async def test_none_to_try_is_none():
    """A race without attempts returns None at once."""
    assert await race([], stagger=NEVER, dispose=print) is None


async def test_an_attempt_that_hangs_does_not_hold_up_the_next():
    """The race cancels the attempt that hangs when the next one succeeds."""
    assert await race([hang, giving("b")], stagger=0.001, dispose=print) == "b"


async def test_a_result_that_comes_too_late_is_disposed_of():
    """The race must close a connection that loses."""

    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"

    disposed = []
    assert await race([stubborn, giving("b")], stagger=0.001, dispose=disposed.append) == "b"
    assert disposed == ["late"]


async def test_two_that_work_at_the_same_time_give_one():
    """The race returns one result and disposes of the other."""
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
    """No attempt continues after the race was cancelled."""
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
    """The race is cancelled while it waits for a late attempt, and disposes of both results."""
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
