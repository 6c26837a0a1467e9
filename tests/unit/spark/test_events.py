"""The events of the PySpark side: in the log, to the hook, and as pins for the listener."""

import logging
import pickle
import threading

import pytest

from featuregate.gating.events import Event
from featuregate_spark.events import PINS, EventEmitter, Pinned, SparkEvent


def pinned(batch_id: int, query_id: str | None = "q") -> Pinned:
    return Pinned(
        query_id=query_id, batch_id=batch_id, replayed=False, gates={"g": True}, held=(), epoch=7, seconds=0.1
    )


def test_an_event_goes_to_the_log_and_to_the_hook(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event | SparkEvent] = []
    with caplog.at_level(logging.INFO, logger="featuregate.spark"):
        EventEmitter(told.append)(pinned(3))
    assert told == [pinned(3)]
    (record,) = caplog.records
    assert record.getMessage() == (
        "Pinned query_id=q batch_id=3 replayed=False gates={'g': True} held=() epoch=7 seconds=0.1"
    )


def test_a_hook_that_raises_is_logged_and_the_query_continues(caplog: pytest.LogCaptureFixture) -> None:
    """A metrics library must not stop a query."""

    def hook(_event: object) -> None:
        raise RuntimeError("the counter is full")

    EventEmitter(hook)(pinned(3))
    assert "the metrics hook failed; the query continues" in caplog.text
    assert "the counter is full" in caplog.text


def test_a_pickled_emitter_has_no_hook() -> None:
    """The counters of a hook cannot be pickled, and belong to the driver."""
    lock = threading.Lock()

    def hook(_event: object) -> None:
        with lock:
            raise AssertionError

    sent = pickle.loads(pickle.dumps(EventEmitter(hook)))
    sent(pinned(3))
    assert sent.pin_of("q", 3) == pinned(3)


def test_the_newest_pins_are_kept() -> None:
    """The emitter keeps a limited number of pins, so that memory does not grow without a listener."""
    emit = EventEmitter(None)
    for batch_id in range(PINS + 1):
        emit(pinned(batch_id))
    assert emit.pin_of("q", 0) is None
    assert emit.pin_of("q", PINS) == pinned(PINS)
    assert emit.pin_of("another", PINS) is None
