"""The loop for one question: waits, limits, races, blocking calls, and what it leaves behind."""

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import threading
from functools import partial

import pytest

from featuregate.loops.short_loop import ShortLoop, running_loop, running_short_loop

NEVER = 3600.0


def run(work):
    """Run a coroutine in a new loop."""
    return ShortLoop().run(work)


async def hang():
    """Wait for bytes that nobody sends."""
    here, there = socket.socketpair()
    with here, there:
        await running_short_loop().ready(here, selectors.EVENT_READ)


async def giving(value):
    """Return a value."""
    return value


def noted(into, work):
    """Return a coroutine that notes how it ended."""

    async def noting():
        try:
            return await work
        finally:
            into.append(work.__name__)

    return noting()


def test_the_result_and_the_error_of_the_coroutine_are_those_of_the_call():
    """The loop hands on both."""
    assert run(giving(7)) == 7

    async def failing():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(failing())


def test_the_loop_runs_where_an_asyncio_loop_runs():
    """As in a notebook; the coroutine waits in the short loop, and the one before is back at the end."""

    async def in_asyncio():
        seen = run(which())
        return seen, running_short_loop()

    async def which():
        return type(running_loop()).__name__

    assert asyncio.run(in_asyncio()) == ("ShortLoop", None)


def test_a_block_that_takes_too_long_is_a_timeout():
    """The error is raised at the end of the block, and what is in the block cleans up."""
    ended = []

    async def slow():
        async with running_loop().timeout(0.01):
            await noted(ended, hang())

    with pytest.raises(TimeoutError):
        run(slow())
    assert ended == ["hang"]


def test_code_in_a_block_cannot_take_its_timeout_for_its_own():
    """Only the block whose time is over raises TimeoutError."""

    async def inner():
        with contextlib.suppress(TimeoutError):
            async with running_loop().timeout(NEVER):
                await hang()
        return "inner"

    async def outer():
        async with running_loop().timeout(0.01):
            return await inner()

    with pytest.raises(TimeoutError):
        run(outer())


@pytest.mark.parametrize("order", [1, -1])
def test_two_blocks_whose_time_ends_at_once_both_end(order):
    """None of the two is lost, whichever comes first."""

    async def nested():
        loop = running_loop()
        now = loop.time()
        outer, inner = sorted([now, now - 1e-9])[::order]
        async with loop.timeout_at(outer):
            with contextlib.suppress(TimeoutError):
                async with loop.timeout_at(inner):
                    await hang()
            await hang()

    with pytest.raises(TimeoutError):
        run(nested())


def test_a_block_without_a_limit_has_none():
    """None is no limit."""

    async def unlimited():
        async with running_loop().timeout(None):
            return await running_loop().in_thread(lambda: 7)

    assert run(unlimited()) == 7


def test_the_first_attempt_that_succeeds_wins_and_the_others_are_cancelled():
    """An attempt that hangs does not hold up the next."""
    ended = []
    attempts = [partial(noted, ended, hang()), partial(giving, "b")]
    assert run(running_race(attempts, stagger=0.001)) == "b"
    assert ended == ["hang"]


async def running_race(attempts, *, stagger=NEVER, dispose=print):
    """Race in the loop that runs."""
    return await running_loop().race(attempts, stagger=stagger, dispose=dispose)


def test_attempts_that_fail_are_none():
    """Also where there is none."""
    assert run(running_race([partial(giving, None)] * 3)) is None
    assert run(running_race([])) is None


def test_of_two_that_succeed_at_once_one_is_disposed_of():
    """A connection that loses is closed."""
    gate, opener = socket.socketpair()
    twin = gate.dup()

    async def waiting(on, value):
        await running_short_loop().ready(on, selectors.EVENT_READ)
        return value

    async def opening():
        opener.close()

    disposed = []
    with gate, twin:
        attempts = [partial(waiting, gate, "a"), partial(waiting, twin, "b"), opening]
        winner = run(running_race(attempts, stagger=0.001, dispose=disposed.append))
    assert {winner, *disposed} == {"a", "b"}


def test_works_run_together_until_the_deadline():
    """What has not ended by then is cancelled, and nothing is raised."""
    ended = []

    async def all_of_it():
        loop = running_loop()
        await loop.together([noted(ended, giving(1)), noted(ended, hang())], loop.time() + 0.01)

    run(all_of_it())
    assert ended == ["giving", "hang"]


def test_the_error_of_one_work_ends_the_others():
    """They do not go on when the caller has its error."""
    ended = []

    async def failing():
        raise ZeroDivisionError

    async def all_of_it():
        loop = running_loop()
        await loop.together([failing(), noted(ended, hang())], loop.time() + NEVER)

    with pytest.raises(ZeroDivisionError):
        run(all_of_it())
    assert ended == ["hang"]


def test_the_outcome_of_a_blocking_call_is_that_of_the_await():
    """Its result, or its error."""

    async def calling(call):
        return await running_loop().in_thread(call)

    assert run(calling(lambda: None)) is None
    with pytest.raises(ZeroDivisionError):
        run(calling(lambda: 1 / 0))


def test_invariant_7_a_call_that_never_ends_does_not_hold_up_the_loop():
    """A name server may take a minute."""
    never = threading.Event()

    async def calling():
        async with running_loop().timeout(0.01):
            await running_loop().in_thread(never.wait)

    with pytest.raises(TimeoutError):
        run(calling())
    never.set()


def test_ctrl_c_ends_all_that_runs():
    """The coroutine cleans up, and the caller gets KeyboardInterrupt."""
    ended = []

    async def interrupted():
        attempts = [partial(noted, ended, hang()), interrupting]
        await running_race(attempts, stagger=0.001)

    async def interrupting():
        os.kill(os.getpid(), signal.SIGINT)
        await hang()

    with pytest.raises(KeyboardInterrupt):
        run(interrupted())
    assert ended == ["hang"]
    assert running_short_loop() is None
