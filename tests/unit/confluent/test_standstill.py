"""Calls that may stand still."""

from __future__ import annotations

import signal
import threading

import pytest

from featuregate_confluent.standstill import Caller, within


class Interrupted(BaseException):
    """What is no `Exception`."""


def test_what_a_call_gives_is_given() -> None:
    """Its value, or what it raises, of any kind."""
    assert within(10, lambda: 5) == 5
    for failure in (ValueError("no"), Interrupted()):
        with pytest.raises(type(failure)) as raised:
            within(10, lambda failure=failure: _raise(failure))
        assert raised.value is failure


def _raise(failure: BaseException) -> None:
    raise failure


def test_what_stands_still_is_left_behind() -> None:
    """Nobody waits for it, not even the end of the process; it may come back later, unheard."""
    free, gone = threading.Event(), threading.Event()

    def stand_still() -> None:
        assert threading.current_thread().daemon
        free.wait(30)
        gone.set()

    with pytest.raises(TimeoutError):
        within(0.05, stand_still)
    assert not gone.is_set()
    free.set()
    assert gone.wait(30)


def test_a_thread_is_kept_until_it_stands_still_and_ends_with_its_caller() -> None:
    """One for all calls; another one after a call that does not come back; none at the end."""
    caller, free = Caller(), threading.Event()
    first = caller.within(10, threading.current_thread)
    assert caller.within(10, threading.current_thread) is first
    with pytest.raises(TimeoutError):
        caller.within(0.05, lambda: free.wait(30))
    second = caller.within(10, threading.current_thread)
    assert second is not first
    free.set()
    first.join(30)
    assert not first.is_alive(), "who was left behind ends once its call has come back"
    caller.close()
    assert not second.is_alive()


def test_a_timeout_of_the_call_itself_is_no_standstill() -> None:
    """It came back, with an error that has the same name."""
    caller = Caller()
    thread = caller.within(10, threading.current_thread)
    with pytest.raises(TimeoutError, match="the call's own"):
        caller.within(10, lambda: _raise(TimeoutError("the call's own")))
    assert caller.within(10, threading.current_thread) is thread
    caller.close()


def test_nothing_waits_behind_a_call_whose_wait_was_interrupted() -> None:
    """Ctrl-C ends the wait, not the call: the next one has a thread of its own, and is never made late."""
    caller, begun, free, main = Caller(), threading.Event(), threading.Event(), threading.get_ident()

    def stand_still() -> None:
        begun.set()
        free.wait(30)

    def interrupt() -> None:
        begun.wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        caller.within(30, stand_still)
    assert caller.within(5, lambda: 5) == 5
    free.set()
    caller.close()
