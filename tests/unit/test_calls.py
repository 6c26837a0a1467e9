"""Calls that may stand still."""

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from waiting import eventually

from featuregate.calls import Call, Callers, Within, call_within


class Interrupted(BaseException):
    """What is no `Exception`."""


def one(seconds: float, call: Callable[[], Any]) -> Callable[[Within], Any]:
    return lambda within: within(seconds, call)


def test_what_a_call_gives_is_given() -> None:
    """Its value, or what it raises, of any kind."""
    assert call_within(10, lambda: 5) == 5
    for failure in (ValueError("no"), Interrupted()):
        with pytest.raises(type(failure)) as raised:
            call_within(10, lambda failure=failure: _raise(failure))
        assert raised.value is failure


def _raise(failure: BaseException) -> None:
    raise failure


def test_what_stands_still_is_left_behind() -> None:
    """Neither the caller nor the end of the process waits for the call; its result is dropped if it returns later."""
    free, gone = threading.Event(), threading.Event()

    def stand_still() -> None:
        assert threading.current_thread().daemon
        free.wait(30)
        gone.set()

    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        call_within(0.05, stand_still)
    assert not gone.is_set()
    free.set()
    assert gone.wait(30)


def test_calls_run_before_their_results_are_awaited() -> None:
    """Some calls are under way at once, each in a thread of its own, and each has its own answer."""
    together = threading.Barrier(3)
    with closing(Callers()) as callers:
        calls = [callers.start(lambda _, number=number: (together.wait(30), number)[1]) for number in range(3)]
        assert [call.result() for call in calls] == [0, 1, 2]


def test_each_call_of_some_work_has_a_bound_of_its_own() -> None:
    """Together the calls may take longer than the bound of any of them, and no call follows one that was given up."""
    free, made, threads = threading.Event(), [], []

    def work(within: Within) -> int:
        threads.append(threading.current_thread())
        for _ in range(4):
            within(2.0, lambda: threading.Event().wait(0.6))
        within(0.05, lambda: free.wait(30))
        return within(30, lambda: made.append("after it"))  # type: ignore[return-value, func-returns-value]

    with closing(Callers()) as callers:
        call = callers.start(work)
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            call.result()
        free.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not made


def test_a_thread_is_kept_from_call_to_call_and_ends_with_its_callers() -> None:
    """Another one is there while a call does not come back; none at the end."""
    free = threading.Event()
    with closing(Callers()) as callers:
        first = callers.start(one(10, threading.current_thread)).result()
        assert callers.start(one(10, threading.current_thread)).result() is first
        with pytest.raises(TimeoutError):
            callers.start(one(0.05, lambda: free.wait(30))).result()
        second = callers.start(one(10, threading.current_thread)).result()
        assert second is not first
    assert not second.is_alive()
    assert first.is_alive()
    free.set()
    first.join(30)
    assert not first.is_alive(), "who was left behind ends once its call has come back"


def test_a_timeout_error_of_the_call_itself_is_raised() -> None:
    """It came back, with an error that has the same name."""
    with closing(Callers()) as callers:
        thread = callers.start(one(10, threading.current_thread)).result()
        with pytest.raises(TimeoutError, match="the call's own"):
            callers.start(one(10, lambda: _raise(TimeoutError("the call's own")))).result()
        assert callers.start(one(10, threading.current_thread)).result() is thread


def test_nothing_waits_behind_a_call_whose_wait_was_interrupted() -> None:
    """Ctrl-C ends the wait, not the call: the next one has a thread of its own, and is never made late."""
    begun, free, main = threading.Event(), threading.Event(), threading.get_ident()

    def stand_still() -> None:
        begun.set()
        free.wait(30)

    def interrupt() -> None:
        begun.wait(30)
        # Not before the main thread waits: Python ignores what a signal raises in a callback of the garbage collector.
        eventually(lambda: sys._current_frames()[main].f_code is Call._answer.__code__, "the main thread waits")
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with closing(Callers()) as callers:
        with pytest.raises(KeyboardInterrupt):
            callers.start(one(30, stand_still)).result()
        assert callers.start(one(30, lambda: 5)).result() == 5
        free.set()
