"""Signals that ask a job to stop, at the Python driver and at a stand-in for the JVM."""

import signal
from types import SimpleNamespace

import pytest

from featuregate_spark import StopSignals
from featuregate_spark.stop_signals import _JavaHandler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_recorded_and_the_process_continues(number: signal.Signals) -> None:
    """The first signal counts, and then the earlier handlers are back."""
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with StopSignals() as stop:
        assert stop.received is None
        signal.raise_signal(number)
        assert stop.received == number
        signal.raise_signal(signal.SIGTERM)
        assert stop.received == number
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_signal_of_the_jvm_is_recorded_too() -> None:
    """Py4J calls the handler in another thread."""
    with StopSignals() as stop:
        _JavaHandler(stop._receive).handle(SimpleNamespace(getNumber=lambda: 15))
        assert stop.received == signal.SIGTERM
