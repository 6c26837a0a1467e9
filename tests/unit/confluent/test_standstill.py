"""Calls that may stand still."""

from __future__ import annotations

import threading

import pytest

from featuregate_confluent.standstill import within


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
