"""A command is asked to end by a signal, wherever the main thread is just then."""

import signal
import sys
from types import FrameType

import pytest

from featuregate_fleet.commands.stop_signals import stop_signals


@pytest.mark.timeout(20)
def test_a_signal_may_come_at_each_line_of_a_wait():
    """A lock that the wait holds in Python, as that of an event does, would never be had by the handler."""
    before = sys.gettrace()

    def at_each_line(_frame: FrameType, _event: str, _value: object) -> object:
        signal.raise_signal(signal.SIGTERM)
        return at_each_line

    with stop_signals() as stop:
        assert not stop.wait(0.001)
        sys.settrace(at_each_line)  # type: ignore[arg-type]
        try:
            assert stop.wait(60)
        finally:
            sys.settrace(before)
        assert stop.is_set()
        assert stop.wait(60), "asked once, it is asked for good"


def test_the_handlers_of_the_caller_are_there_again():
    """A program may call a command."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stop_signals():
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
