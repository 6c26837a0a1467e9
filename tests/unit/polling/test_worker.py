"""What runs the poll loop: it can be rung, stopped and forgotten."""

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from featuregate.polling.worker import Worker

BOUND = 20.0


class Counting:
    """A poller that counts, and says when it polls."""

    def __init__(self, delay: float = 3600) -> None:
        self.delay = delay
        self.polls = 0
        self.polled = threading.Condition()
        self.beat = asyncio.Event()
        self.changed = None
        self.source = SimpleNamespace(timeout=1.0)

    def load(self) -> None:
        self.loaded_by = threading.current_thread()

    @property
    def next_number(self) -> int:
        return self.polls + 1

    async def poll(self, *, aside: bool = False) -> float:  # noqa: ARG002 - the signature of a poller
        with self.polled:
            self.polls += 1
            self.polled.notify_all()
        self.beat.set()
        return self.delay

    def news(self):
        return self.changed

    def wait_for(self, polls: int) -> bool:
        with self.polled:
            return self.polled.wait_for(lambda: self.polls >= polls, BOUND)


class Hanging(Counting):
    """A poller whose poll never ends by itself."""

    async def poll(self, *, aside: bool = False) -> float:  # noqa: ARG002 - the signature of a poller
        await super().poll()
        await asyncio.Event().wait()
        raise AssertionError("not reached")


def test_it_polls_at_once_and_when_it_is_rung() -> None:
    """An hour's delay does not keep a bell from being heard."""
    poller = Counting()
    worker = Worker.in_thread(poller)
    assert poller.wait_for(1)
    worker.wake(2)
    assert poller.wait_for(2)
    worker.stop()
    assert not worker.alive()


async def test_a_poll_that_has_begun_is_not_repeated() -> None:
    """One of two callers may come after the poll has begun, or before the loop has its turn."""
    poller = Counting()
    worker = Worker.in_task(poller)
    worker.wake(1)
    await poller.beat.wait()
    worker.wake(1)
    for number in (2, 2, 3):
        poller.beat.clear()
        worker.wake(number)
        if number > poller.polls:
            await poller.beat.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert poller.polls == number
    worker.stop()
    await worker.stopped()


def test_invariant_8_stopping_ends_a_poll_that_hangs(poll_threads: Callable[[], list[threading.Thread]]) -> None:
    """The thread has ended when stop returns, whatever it was waiting for."""
    poller = Hanging()
    worker = Worker.in_thread(poller)
    assert poller.wait_for(1)
    worker.stop()
    assert poll_threads() == []


def test_invariant_8_a_forgotten_poller_ends_its_thread() -> None:
    """The loop holds its poller only while it polls, so that a poller which its owner has dropped can be collected."""
    poller = Counting()
    gone = weakref.ref(poller)
    worker = Worker.in_thread(poller)
    assert poller.wait_for(1)
    del poller
    gc.collect()
    worker._thread.join(BOUND)
    assert gone() is None
    assert not worker.alive()


async def test_a_task_polls_in_the_callers_loop() -> None:
    """The task runs the same coroutine as the thread."""
    poller = Counting(delay=0.001)
    worker = Worker.in_task(poller)
    assert worker.is_here()  # also before the task has begun
    assert worker._task.get_name() == "featuregate-poll"
    for _ in range(3):
        await poller.beat.wait()
        poller.beat.clear()
    assert worker.is_here()
    worker.stop()
    await worker.stopped()
    assert not worker.alive()


async def test_a_task_that_is_stopped_before_it_ran_never_polls() -> None:
    """The loop is known from the start, so a stop cancels the task at once."""
    poller = Counting()
    worker = Worker.in_task(poller)
    worker.stop()
    await worker.stopped()
    assert (poller.polls, worker.alive()) == (0, False)


class Slow(Counting):
    """A poller that takes its time to end when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled, self.may_end = asyncio.Event(), asyncio.Event()

    async def poll(self, *, aside: bool = False) -> float:  # noqa: ARG002 - the signature of a poller
        await super().poll()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
            await self.may_end.wait()
        raise AssertionError("not reached")


async def test_who_waits_for_the_end_can_be_cancelled() -> None:
    """The cancellation of the task that polls must not swallow that of the caller."""
    poller = Slow()
    worker = Worker.in_task(poller)
    await poller.beat.wait()
    worker.stop()
    await poller.cancelled.wait()
    waiting = asyncio.create_task(worker.stopped())
    await asyncio.sleep(0)
    waiting.cancel()
    poller.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await worker.stopped()


def test_a_task_whose_loop_is_gone_does_not_poll() -> None:
    """Its loop was closed without a word to it."""
    poller, loop = Counting(), asyncio.new_event_loop()

    async def begin() -> Worker:
        worker = Worker.in_task(poller)
        await poller.beat.wait()
        return worker

    worker = loop.run_until_complete(begin())
    task = worker._task
    assert worker.alive()
    loop.call_soon(task.cancel)
    loop.call_soon(loop.stop)  # closed before the cancelled task has its turn
    loop.run_forever()
    loop.close()
    assert not worker.alive()
    task._log_destroy_pending = False  # it never ends, which is the point


def test_ringing_after_the_end_is_harmless() -> None:
    """The loop is closed by then."""
    worker = Worker.in_thread(Counting())
    worker.stop()
    worker.wake(1)


@pytest.mark.parametrize("round_", range(20))
def test_invariant_8_a_stop_is_never_lost(round_: int) -> None:
    """Stopping races the start of the thread; whichever wins, the thread ends."""
    worker = Worker.in_thread(Counting())
    if round_ % 2:
        worker._thread.join(0.0001)
    worker.stop()
    assert not worker.alive()


def test_news_wake_it() -> None:
    """An hour's delay does not matter."""
    poller = Counting()

    async def changed(within: float) -> None:
        assert within == 3600
        await asyncio.sleep(0 if poller.polls < 3 else within)

    poller.changed = changed
    worker = Worker.in_thread(poller)
    assert poller.wait_for(3)
    worker.stop()
    assert not worker.alive()
    assert poller.polls == 3


def test_news_that_fail_are_logged_and_the_next_poll_comes_in_its_time(caplog: pytest.LogCaptureFixture) -> None:
    """A source of the app's own may raise anything."""
    poller = Counting(delay=0.05)

    async def changed(_: float) -> None:
        raise OSError("lost")

    poller.changed = changed
    worker = Worker.in_thread(poller)
    assert poller.wait_for(3)
    worker.stop()
    said = {record.getMessage() for record in caplog.records if record.name == "featuregate"}
    assert said == {"a source failed to wait for news; the next poll comes in its time"}


async def test_a_task_leaves_nothing_that_waits_for_news() -> None:
    """Stopping the worker cancels the wait."""
    poller = Counting()
    began, waiting = asyncio.Event(), []

    async def changed(_: float) -> None:
        waiting.append(asyncio.current_task())
        began.set()
        await asyncio.Event().wait()

    poller.changed = changed
    worker = Worker.in_task(poller)
    async with asyncio.timeout(BOUND):
        await began.wait()
        worker.stop()
        await worker.stopped()
    assert waiting[0].cancelled()


class Holding:
    """A source that holds something open."""

    timeout = 1.0
    closed_by = None

    async def fetch(self) -> None:
        raise AssertionError("the poller of these tests fetches nothing")

    def close(self) -> None:
        self.closed_by = threading.current_thread()


def test_what_its_source_holds_is_closed_in_the_thread_that_polls() -> None:
    """Connections belong to the loop of that thread."""
    poller = Counting()
    poller.source = Holding()
    worker = Worker.in_thread(poller)
    assert poller.wait_for(1)
    thread = worker._thread
    worker.stop()
    assert poller.source.closed_by is thread


def test_modules_are_imported_in_the_callers_thread() -> None:
    """A fork while another thread imports would leave the child half a module."""
    poller = Counting()
    worker = Worker.in_thread(poller)
    assert poller.loaded_by is threading.current_thread()
    worker.stop()


class Broken(Counting):
    """A poller that a fork has left half-made."""

    def news(self) -> object:
        raise AttributeError("partially initialized module 'featuregate.net'")


def test_a_thread_that_ends_by_an_error_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """With the process, for a child among many."""
    poller = Broken()
    worker = Worker.in_thread(poller)
    worker._thread.join(BOUND)
    assert not worker.alive()
    assert f"the thread that polled in process {os.getpid()} has ended" in caplog.text
    assert "partially initialized" in caplog.text


def test_a_thread_that_makes_no_step_hangs() -> None:
    """While it begins, polls or rests, each has a time after which it does not count as polling."""
    now = [0.0]
    poller = Hanging()
    worker = Worker(poller, clock=lambda: now[0])
    now[0] = 15.0
    assert not worker.hangs()
    now[0] = 15.1
    assert worker.hangs()
    asyncio.run(_until_polled(worker, poller))
    assert not worker.hangs()
    now[0] += 2 * poller.source.timeout + 60.1
    assert worker.hangs()


async def _until_polled(worker: Worker, poller: Counting) -> None:
    task = asyncio.create_task(worker._run())
    await poller.beat.wait()
    task.cancel()
