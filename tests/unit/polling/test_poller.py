"""One poll: what a failure says to hooks and to the log, and when the next poll is due."""

import logging
from itertools import count

import pytest

from featuregate.errors import FeatureGateError, RelayError
from featuregate.gating.events import Event, PollFailed
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate.sources.source import BrokerAnswers

MIDDLE = 0.5
"""A chance at which a delay has no jitter."""


class Failing:
    """A source that fails."""

    timeout = 1.0

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def fetch(self) -> BrokerAnswers:
        raise self.error


async def polled(error: Exception, times: int = 1) -> tuple[float, list[Event]]:
    """Poll with a clock that goes on by a second at each look; return the last delay, and the events."""
    events: list[Event] = []
    seconds = count()
    clock = lambda: float(next(seconds))  # noqa: E731
    store = Store(wall=lambda: 0.0)
    store.hooks.hook(events.append)
    state = PollState.checked(interval=60, stale_after=None, forget_after=9)
    poller = Poller(Failing(error), store, state, clock, chance=lambda: MIDDLE)
    for _ in range(times):
        delay = await poller.poll()
    return delay, events


@pytest.mark.parametrize(("rest", "least"), [(0.0, 0.0), (40.0, 40.0)])
async def test_a_relay_that_asks_for_a_rest_gets_it(rest: float, least: float) -> None:
    """Without one, the first failure is followed by a poll within seconds."""
    delay, _ = await polled(RelayError("http://relay", "busy", rest))
    assert least <= delay < least + 10


async def test_a_poll_that_failed_says_why_how_often_and_for_how_long() -> None:
    """Hooks count the failures in a row."""
    _, events = await polled(RelayError("http://relay", "busy"), times=2)
    found = [event for event in events if isinstance(event, PollFailed)]
    assert [(event.error, event.failures) for event in found] == [("http://relay: busy", 1), ("http://relay: busy", 2)]
    assert found[0].seconds == found[1].seconds > 0, "each counts from its own beginning"


@pytest.mark.parametrize(
    ("error", "records"),
    [
        (FeatureGateError("no broker"), [(logging.WARNING, "a poll failed: no broker")]),
        (ZeroDivisionError(), [(logging.ERROR, "a poll failed in a way that it should not")] * 2),
    ],
)
async def test_the_first_of_some_failures_is_logged_and_each_mistake(
    caplog: pytest.LogCaptureFixture, error: Exception, records: list[tuple[int, str]]
) -> None:
    """A cluster that is down for hours does not fill the log; a mistake of ours comes with its traceback."""
    await polled(error, times=2)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == records
    assert all((record.exc_info is not None) == (record.levelno == logging.ERROR) for record in caplog.records)


async def test_who_waits_for_a_poll_finds_its_events_told() -> None:
    """A count that an app reads after a refresh has this poll in it."""
    store, ended = Store(wall=lambda: 0.0), list[int]()
    state = PollState.checked(interval=60, stale_after=None, forget_after=9)
    store.hooks.hook(lambda _: ended.append(state.finished))
    await Poller(Failing(FeatureGateError("no broker")), store, state, lambda: 0.0).poll()
    assert (ended, state.finished) == ([0], 1)
