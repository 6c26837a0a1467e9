"""A client behind a relay learns of a change at once, whatever its interval is: between polls a request waits."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import responses
from apps_in_process import answered_after, call
from relay_on_socket import serving
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.errors import ConfigError
from featuregate.gating.events import Changed, Polled
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate.sources.seen import Seen
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app

HOUR = 3600.0
SOON = 20.0
"""Seconds; a request that waits does so for 27 at the least."""
OLD, NEW = release_view("3.9", epoch=5), release_view("4.2", epoch=9)
URL = "http://relay:8080"
PATH = f"{URL}/v1/clusters/default/view"
ROUNDS = 20
"""Rounds of the loop in which no request is under way: whatever is ready has run."""
HEADERS = {"ETag": '"one"', "Featuregate-Age": "0", "Featuregate-Revision": "r1"}


def test_a_change_opens_a_gate_long_before_the_next_poll() -> None:
    """An epoch that moves alone makes no poll."""
    relay = StaticFeatures(OLD)
    events: list[object] = []
    with serving({"default": relay}) as url, fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features:
        features.on_event(events.append)
        gate = features.gate("groups", fg.presets.kip848)
        assert features.wait(BOUND)
        eventually(lambda: is_waiting(relay, url))
        relay.show(replace(OLD, epoch=6, seen_at=OLD.seen_at + 1))
        relay.show(NEW)
        assert gate.wait(BOUND)
        eventually(lambda: count(events, Polled) >= 2)
        assert (count(events, Polled), count(events, Changed)) == (2, 2)


def count(events: list[object], kind: type) -> int:
    """Say how many events of one kind there are; they come after the gate has opened."""
    return sum(isinstance(event, kind) for event in events)


def is_waiting(_: StaticFeatures, url: str) -> bool:
    import requests  # noqa: PLC0415

    metrics = requests.get(f"{url}/metrics", timeout=BOUND).text
    return 'featuregate_relay_requests_waiting{cluster="default"} 1.0' in metrics


def test_invariant_8_a_request_that_waits_ends_with_its_discoverer() -> None:
    """Closing is prompt, and no thread stays behind in the socket."""
    with serving({"default": StaticFeatures(OLD)}) as url:
        features = fg.Discoverer(source=fg.HttpSource(url), interval=HOUR).start()
        features.wait(BOUND)
        eventually(lambda: is_waiting(StaticFeatures(), url))
        waiting = blocking_calls()
        features.close()
        for thread in waiting:
            thread.join(SOON)
        assert [thread for thread in waiting if thread.is_alive()] == []


def blocking_calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "featuregate-blocking-call"]


def test_a_refresh_does_not_wait_for_the_request_that_waits() -> None:
    with (
        serving({"default": StaticFeatures(OLD)}) as url,
        fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features,
    ):
        features.wait(BOUND)
        eventually(lambda: is_waiting(StaticFeatures(), url))
        assert features.refresh(SOON).cluster_id == OLD.cluster_id


# ---------------------------------------------------------------- the source alone


@pytest.fixture
def relay() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock() as mock:
        mock.get(PATH, body=OLD.to_json(), headers=HEADERS)
        yield mock


def never_returns(source: fg.HttpSource, *, within: float = 60.0) -> bool:
    """Poll once, and say whether the source then waits for ever, once its requests have ended."""

    async def wait() -> bool:
        await source.fetch()
        waiting = asyncio.create_task(source.changed(within))
        idle = 0
        while not waiting.done() and idle < ROUNDS:
            await asyncio.sleep(0)
            idle = 0 if blocking_calls() else idle + 1
        ended = waiting.done()
        waiting.cancel()
        return not ended

    return asyncio.run(wait())


def test_other_content_is_news(relay: responses.RequestsMock) -> None:
    """The request says what the client has, and has no body to send twice."""
    relay.head(PATH, headers=HEADERS | {"Featuregate-Revision": "r2"})
    assert not never_returns(fg.HttpSource(URL))
    query = parse_qs(urlsplit(relay.calls[1].request.url).query)
    assert query["revision"] == ["r1"]
    assert query["wait"] == ["30"]
    assert Seen.read(query["seen"][0])[0].epoch == 5


@pytest.mark.parametrize(
    "answer",
    [
        {"headers": HEADERS},
        {"status": 304, "headers": HEADERS},
        {"status": 429, "headers": {"Retry-After": "60"}},
        {"status": 503, "headers": {"Featuregate-Revision": "r2"}},
        {"status": 405},
        {"status": 200},
        {"body": ConnectionError("gone")},
    ],
)
def test_a_relay_that_does_not_let_a_request_wait_is_not_asked_again(relay, answer) -> None:
    """Not before the next poll: nothing spins."""
    relay.head(PATH, **answer)
    assert never_returns(fg.HttpSource(URL))
    assert len(relay.calls) == 2


def test_a_request_waits_no_longer_than_until_the_next_poll(relay) -> None:
    """Its connection is the one that the poll uses, so it ends before."""
    relay.head(PATH, headers=HEADERS)
    assert never_returns(fg.HttpSource(URL), within=10)
    assert parse_qs(urlsplit(relay.calls[1].request.url).query)["wait"] in (["8"], ["9"])


@pytest.mark.parametrize(("wait", "within"), [(0, 60), (30, 1.5)])
def test_no_request_waits_where_none_is_wanted(relay, wait, within) -> None:
    """By the app, or because the next poll is due."""
    assert never_returns(fg.HttpSource(URL, wait=wait), within=within)
    assert len(relay.calls) == 1


def test_a_relay_without_revisions_is_not_asked_to_wait() -> None:
    with responses.RequestsMock() as mock:
        mock.get(PATH, body=OLD.to_json(), headers={"ETag": '"one"', "Featuregate-Age": "0"})
        assert never_returns(fg.HttpSource(URL))


@pytest.mark.parametrize("wait", [-1, float("inf"), True, "30"])
def test_a_wait_that_cannot_be_used_is_refused_at_once(wait) -> None:
    with pytest.raises(ConfigError, match="wait: must be a number of seconds"):
        fg.HttpSource(URL, wait=wait)


# ---------------------------------------------------------------- the schedule


class News:
    timeout = 1.0

    def __init__(self) -> None:
        self.fails = False

    async def fetch(self):
        raise fg.DiscoveryError([])

    async def changed(self, within: float) -> None:
        assert within == 60.0


def poller(source: object) -> tuple[Poller, PollState]:
    state = PollState(interval=0.2, stale_after=60, forget_after=60)
    return Poller(source, Store(wall=lambda: 0.0), state, lambda: 0.0), state


async def test_news_come_no_faster_than_a_second_after_a_poll() -> None:
    """A relay that changes all the time makes no client spin."""
    loop = asyncio.get_running_loop()
    polling, _ = poller(News())
    began = loop.time()
    await polling.news()(60.0)
    assert loop.time() - began >= 0.2


async def test_after_a_failure_nothing_shortens_the_wait() -> None:
    """The back-off would be in vain."""
    polling, state = poller(News())
    assert polling.news() is not None
    await polling.poll()
    assert state.failures == 1
    assert polling.news() is None


def test_a_source_without_news_has_none() -> None:
    """A broker does not report a change by itself."""

    class Plain:
        timeout = 1.0

        async def fetch(self):
            raise AssertionError

    assert poller(Plain())[0].news() is None


# ---------------------------------------------------------------- the relay


def test_a_relay_answers_a_revision_with_another_one() -> None:
    """Not when only times and epochs have moved."""
    features = StaticFeatures(OLD)
    app = make_app({"default": PolledCluster(features)})
    path = "/v1/clusters/default/view"

    async def ask() -> tuple[str, str]:
        before = (await call(app, path))[1]["featuregate-revision"]
        waiting = asyncio.create_task(call(app, f"{path}?wait=30&revision={before}"))
        features.show(replace(OLD, epoch=6, seen_at=OLD.seen_at + 1))
        assert (await call(app, path))[1]["featuregate-revision"] == before
        ((_, headers, _),) = await answered_after(lambda: features.show(NEW), waiting, silent=0.3)
        return before, headers["featuregate-revision"]

    before, after = asyncio.run(ask())
    assert before != after
