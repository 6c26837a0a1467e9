"""The listener: what it reports beside Spark's progress, and that it raises nothing into Spark."""

import json
import uuid
from inspect import signature

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

from featuregate.errors import ClosedError
from featuregate.gating.events import Event
from featuregate.testing import StaticFeatures, release_view
from featuregate_spark import FeatureListener, Snapshot
from featuregate_spark.events import EventEmitter, Pinned, SparkEvent, StreamEnded, StreamProgressed

ID = uuid.UUID(int=7)
NEW = release_view("4.2")


def now() -> Snapshot:
    gate = StaticFeatures(NEW).gate("tv2", "transaction.version>=2")
    return Snapshot.of(NEW, {"tv2": gate.decision})


def began(name: str | None = "orders") -> QueryStartedEvent:
    of_the_job = [set()] if "jobTags" in signature(QueryStartedEvent).parameters else []  # from Spark 4.1 on
    return QueryStartedEvent(ID, ID, name, "2026-01-01T00:00:00.000Z", *of_the_job)


def progressed(batch_id: int, name: str | None = "orders") -> QueryProgressEvent:
    progress = {
        "id": str(ID),
        "runId": str(ID),
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch_id,
        "batchDuration": 1500,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "s", "numOutputRows": -1, "metrics": {}},
        "numInputRows": 30,
        "inputRowsPerSecond": 10.0,
        "processedRowsPerSecond": 20.0,
        "observedMetrics": {},
    }
    return QueryProgressEvent.fromJson(json.loads(json.dumps({"progress": progress})))


def ended(error: str | None) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(ID, ID, error, None)


def emitted_for(*events: object, pins: tuple[Pinned, ...] = ()) -> list[Event | SparkEvent]:
    """Return the events that a listener emits for these events of Spark."""
    told: list[Event | SparkEvent] = []
    emit = EventEmitter(told.append)
    for pin in pins:
        emit(pin)
    listener = FeatureListener(now, emit=emit)
    for event in events:
        match event:
            case QueryStartedEvent():
                listener.onQueryStarted(event)
            case QueryProgressEvent():
                listener.onQueryProgress(event)
            case QueryTerminatedEvent():
                listener.onQueryTerminated(event)
    return told[len(pins) :]


def test_a_batch_is_reported_with_the_gates_of_its_pin() -> None:
    """The gates of now may differ, because the cluster may have changed."""
    pin = Pinned(
        query_id=str(ID),
        batch_id=3,
        replayed=True,
        gates={"tv2": False, "old": True},
        held=("old",),
        epoch=5,
        seconds=0.1,
    )
    (told,) = emitted_for(progressed(3), pins=(pin,))
    assert told == StreamProgressed(
        query_id=str(ID),
        name="orders",
        batch_id=3,
        rows=30,
        rows_per_second=20.0,
        seconds=1.5,
        gates={"tv2": False, "old": True},
        held=("old",),
        pinned=True,
        epoch=5,
    )


def test_a_batch_without_a_pin_is_reported_with_the_gates_of_now() -> None:
    """The event has pinned=False, as for a query without foreach_batch or on Spark Connect."""
    (told,) = emitted_for(progressed(3))
    assert isinstance(told, StreamProgressed)
    assert (told.gates, told.pinned, told.epoch) == ({"tv2": True}, False, NEW.epoch)


def test_the_end_is_reported_with_the_name_that_spark_omits() -> None:
    """The name comes from the start or the progress of the query."""
    assert emitted_for(began(), ended(None)) == [StreamEnded(query_id=str(ID), name="orders", error=None)]
    assert emitted_for(progressed(1), ended("boom"))[1:] == [StreamEnded(query_id=str(ID), name="orders", error="boom")]
    assert emitted_for(ended(None)) == [StreamEnded(query_id=str(ID), name=None, error=None)]


def test_a_closed_session_has_no_gates() -> None:
    """The listener still reports the progress."""

    def closed() -> Snapshot:
        raise ClosedError("it is over")

    told: list[Event | SparkEvent] = []
    FeatureListener(closed, emit=EventEmitter(told.append)).onQueryProgress(progressed(3))
    (progress,) = told
    assert isinstance(progress, StreamProgressed)
    assert (progress.gates, progress.rows) == ({}, 30)


def test_nothing_is_raised_into_spark(caplog: pytest.LogCaptureFixture) -> None:

    def broken() -> Snapshot:
        raise RuntimeError("out of order")

    listener = FeatureListener(broken, emit=EventEmitter(None))
    listener.onQueryProgress(progressed(3))
    for method in (listener.onQueryStarted, listener.onQueryProgress, listener.onQueryTerminated):
        method(None)  # type: ignore[arg-type]
    assert caplog.text.count("could not be reported; the query continues") == 4
    assert "out of order" in caplog.text
