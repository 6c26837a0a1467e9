"""The events of the switch: a log line and a call of the hook for each."""

import logging
import shlex
from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate_confluent import events
from featuregate_confluent.events import (
    DeadLettered,
    ModelChanged,
    Stopped,
    SwitchEvent,
    TransactionAborted,
    TransactionCommitted,
    event_emitter,
)
from featuregate_confluent.models import Model

CHANGED = ModelChanged(before=None, after=Model.V2, why="every broker checks", generation=4)


def test_an_event_is_one_line_of_pairs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "featuregate.confluent")
    event_emitter(None)(CHANGED)
    assert caplog.messages == ["ModelChanged before=None after=v2 why='every broker checks' generation=4"]


@given(st.text())
@example("\\")
def test_no_text_breaks_the_line(text: str) -> None:
    """The text of an exception or a topic breaks neither the line nor its pairs."""
    line = events._line(DeadLettered(topic=text, partition=0, offset=7, error=text))
    assert line.isprintable()
    assert line == f"DeadLettered topic={events._word(text)} partition=0 offset=7 error={events._word(text)}"
    assert events._word(text) in {text, repr(text)}
    assert events._word(text) == repr(text) or len(shlex.split(text)) == 1


def test_commits_are_for_debugging_and_losses_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Commits do not fill a log at INFO, and failures are shown at WARNING."""
    caplog.set_level(logging.DEBUG, "featuregate.confluent")
    emit = event_emitter(None)
    emit(TransactionCommitted(model=Model.V2, messages=5, seconds=0.25, generation=1))
    emit(TransactionAborted(model=Model.V2, messages=5, why="rebalance"))
    emit(Stopped(committed=1, aborted=1))
    assert [(record.levelname, record.message.split()[0]) for record in caplog.records] == [
        ("DEBUG", "TransactionCommitted"),
        ("WARNING", "TransactionAborted"),
        ("INFO", "Stopped"),
    ]
    assert "seconds=0.250" in caplog.messages[0]


def test_a_hook_that_raises_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """The loop that called the hook goes on."""
    told: list[SwitchEvent] = []

    def hook(event: SwitchEvent) -> None:
        told.append(event)
        raise RuntimeError("the metrics server is away")

    emit = event_emitter(hook)
    emit(CHANGED)
    emit(CHANGED)
    assert told == [CHANGED, CHANGED]
    failures = [record for record in caplog.records if record.exc_info is not None]
    assert len(failures) == 2
    with pytest.raises(RuntimeError):
        hook(CHANGED)  # which is what the loop would have met


def test_events_are_values() -> None:
    """They are frozen and hold only plain values, so that a hook may keep or send them."""
    for kind in SwitchEvent.__args__:
        assert kind.__dataclass_params__.frozen, kind
        assert all(field.kw_only for field in fields(kind)), kind
