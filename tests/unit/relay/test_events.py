"""Streams of events: what a client hears of a cluster, from the connect to the end of the stream."""

import asyncio
import socket
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import requests
from apps_in_process import answered_after, call
from event_source import listening
from relay_on_socket import serving
from waiting import eventually

import featuregate as fg
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.states import CurrentState, revision_of
from featuregate_relay.views.event_stream import OpenStreams
from featuregate_relay.waiting import NextChange

BOUND = 60.0
PATH = "/v1/clusters/default/events"
STREAM = "featuregate_relay.views.event_stream"
VIEW = release_view("3.9", "4.2")
UPGRADED = replace(release_view("4.2", "4.2"), epoch=VIEW.epoch + 1)


def streams(url: str) -> int:
    line = next(line for line in requests.get(f"{url}/metrics", timeout=BOUND).text.splitlines() if "streams{" in line)
    return int(float(line.split()[-1]))


def test_a_stream_has_one_event_for_each_change_of_the_view() -> None:
    """It begins with the view of now. A poll that finds nothing new is no event."""
    features = StaticFeatures(VIEW)
    with serving({"default": features}) as url, listening(url + PATH) as events:
        first = next(events)
        assert (first.kind, first.data["revision"]) == ("view", revision_of(VIEW))
        assert first.data["cluster"] == "default"
        features.show(replace(VIEW, epoch=VIEW.epoch + 1, seen_at=VIEW.seen_at + 60))
        features.show(UPGRADED)
        second = next(events)
        assert (second.kind, second.data["revision"]) == ("view", revision_of(UPGRADED))


def test_a_client_that_comes_back_hears_whether_it_missed_a_change() -> None:
    """By Last-Event-ID. In either case there is an event, so that the client knows the state."""
    with serving({"default": StaticFeatures(VIEW)}) as url:
        with listening(url + PATH, **{"Last-Event-ID": revision_of(VIEW)}) as events:
            assert next(events).kind == "health"
        with listening(url + PATH, **{"Last-Event-ID": revision_of(UPGRADED)}) as events:
            assert next(events).kind == "view"


def test_a_gate_that_closes_without_a_change_of_the_view_is_an_event() -> None:
    features = StaticFeatures(VIEW)
    gate = features.gate("groups", "release>=3.9", policy="live")
    with serving({"default": features}, gate) as url, listening(url + PATH) as events:
        first = next(events)
        features.force_closed("groups")
        second = next(events)
    assert (second.kind, second.data["gates"]) == ("health", {"groups": False})
    assert second.data["revision"] == first.data["revision"]


def test_a_view_that_grows_stale_is_an_event() -> None:
    """The brokers send no answer then: time alone has passed."""
    now = [0.0]
    with (
        FakeCluster(1, release="4.2") as brokers,
        fg.Discoverer(brokers.bootstrap, interval=3600.0, stale_after=60, clock=lambda: now[0]) as features,
        serving({"default": features}) as url,
    ):
        features.refresh(BOUND)
        with listening(url + PATH) as events:
            first = next(events)
            assert first.data["status"] == "ok"
            now[0] = 61.0
            second = next(events)
    assert (second.kind, second.data["status"]) == ("health", "stale")
    assert second.data["revision"] == first.data["revision"]


def test_heartbeats_come_between_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the first view. A client learns of a connection that is half open."""
    monkeypatch.setattr(f"{STREAM}._HEARTBEAT_SECONDS", 0.02)
    features = StaticFeatures()
    with serving({"default": features}) as url, listening(url + PATH) as events:
        assert next(events)[::2] == ("heartbeat", {"status": "starting", "age_seconds": None})
        features.show(VIEW)
        assert next(event for event in events if event.kind != "heartbeat").kind == "view"


def test_a_stream_ends_with_age_and_the_client_comes_back_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a time that each stream chooses at random."""
    monkeypatch.setattr(f"{STREAM}._AGE_SECONDS", 0.05)
    with serving({"default": StaticFeatures(VIEW)}) as url:
        texts = [requests.get(url + PATH, timeout=BOUND).text for _ in range(4)]
    retries = {int(text.splitlines()[0].removeprefix("retry: ")) for text in texts}
    assert len(retries) > 1
    assert all(1000 <= retry <= 5000 for retry in retries)


@pytest.mark.parametrize(("drawn", "age"), [(0.0, 300.0), (1.0, 240.0)])
def test_streams_of_one_moment_end_at_different_ages(drawn: float, age: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """After four to five minutes: clients that came together would go on coming together."""
    waited = []

    async def no_news(change: NextChange[object], _seen: object, left: float) -> bool:
        waited.append(left)
        change.stop()
        return False

    monkeypatch.setattr(f"{STREAM}._RANDOM", SimpleNamespace(random=lambda: drawn, randint=min))
    monkeypatch.setattr(f"{STREAM}._HEARTBEAT_SECONDS", 1000.0)
    monkeypatch.setattr(NextChange, "after", no_news)
    assert asyncio.run(call(make_app({"default": PolledCluster(StaticFeatures(VIEW))}), PATH))[0] == 200
    assert waited == [pytest.approx(age, abs=5)]


def test_the_events_of_a_change_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that has drawn a later moment waits on while another one has the event."""
    features = StaticFeatures(VIEW)
    app = make_app({"default": PolledCluster(features)})

    async def listen() -> tuple[int, int]:
        async with asyncio.timeout(BOUND):
            heard: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in range(2)]
            streams = [asyncio.create_task(call(app, PATH, hear=each.put_nowait)) for each in heard]
            for each in heard:
                while b"event: view" not in await each.get():
                    continue
            monkeypatch.setattr(f"{STREAM}._SPREAD_SECONDS", BOUND)
            monkeypatch.setattr(f"{STREAM}._RANDOM", SimpleNamespace(random=iter([0.0, 1.0]).__next__))
            features.show(UPGRADED)
            told = [asyncio.create_task(each.get()) for each in heard]
            await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
            done, late = await asyncio.wait(told, timeout=0.1)
            for task in (*late, *streams):
                task.cancel()
            return len(done), len(late)

    assert asyncio.run(listen()) == (1, 1)


def test_streams_end_when_the_server_stops() -> None:
    """Cleanly, so that the client asks another replica."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})
    ((status, _, body),) = asyncio.run(answered_after(app.state.stop_waiting, call(app, PATH)))
    assert status == 200
    assert body.count(b"event: view\n") == 1
    assert b"heartbeat" not in body


def test_a_stream_whose_client_has_gone_is_not_kept() -> None:
    """The relay sees the end of the connection, not only the next event."""
    with serving({"default": StaticFeatures(VIEW)}) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=BOUND) as client:
            client.sendall(f"GET {PATH} HTTP/1.1\r\nHost: relay\r\n\r\n".encode())
            eventually(lambda: streams(url) == 1)
        eventually(lambda: streams(url) == 0)


def test_a_head_request_opens_no_stream() -> None:
    """It would never end."""
    with serving({"default": StaticFeatures(VIEW)}) as url:
        answer = requests.head(url + PATH, timeout=BOUND)
        assert (answer.status_code, answer.headers["X-Accel-Buffering"]) == (200, "no")
        assert requests.get(f"{url}/v1/clusters/other/events", timeout=BOUND).status_code == 404


def test_streams_are_limited_for_each_client_and_for_all() -> None:
    """A client without a name counts for the total only."""
    open_streams = OpenStreams(most=3, most_of_a_client=1)
    with open_streams.one_more("a"), open_streams.one_more(None):
        assert "a has 1 open streams" in str(open_streams.problem("a"))
        assert open_streams.problem("b") is None
        with open_streams.one_more(None):
            assert "3 streams are open" in str(open_streams.problem("b"))
    assert (open_streams.total, open_streams.problem("a")) == (0, None)


def test_a_relay_with_too_many_streams_opens_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many of all are not the fault of this client."""
    monkeypatch.setattr(f"{STREAM}.OpenStreams.has_room", False)
    with serving({"default": StaticFeatures(VIEW)}) as url:
        assert requests.get(url + PATH, timeout=BOUND).status_code == 503


def test_a_revision_names_what_the_brokers_say() -> None:
    """Each replica computes the same one, whenever it asked."""
    later = replace(VIEW, epoch=VIEW.epoch + 7, seen_at=VIEW.seen_at + 7, controller_id=2)
    later = replace(later, brokers=tuple(replace(broker, answered_at=9.0) for broker in later.brokers))
    assert revision_of(later) == revision_of(VIEW)
    silent = release_view("3.9", "4.2", silent=[2])
    others = [UPGRADED, silent, replace(VIEW, epoch=-1), replace(VIEW, cluster_id="other"), VIEW]
    assert len({revision_of(view) for view in others}) == len(others)
    assert all(not one.same_content(other) for one, other in pairwise(others))


def test_a_state_stays_the_same_object_until_it_is_another_one() -> None:
    """What waits for a change compares objects."""
    features = StaticFeatures()
    current = CurrentState(features, ())
    assert current() is None
    features.show(VIEW)
    first = current()
    features.show(replace(VIEW, seen_at=VIEW.seen_at + 1))
    assert current() is first
    features.show(UPGRADED)
    assert current() is not first


def test_a_revision_is_that_of_the_view_also_where_a_poll_ends_meanwhile() -> None:
    """Another thread may look at the same time, and see the next view first."""

    class Slow:
        name, polled = "groups", False

        @property
        def decision(self) -> SimpleNamespace:
            if not self.polled:
                self.polled = True
                features.show(UPGRADED)
                current()
            return SimpleNamespace(open=False)

    features = StaticFeatures(VIEW)
    current = CurrentState(features, [Slow()])
    for view in (VIEW, UPGRADED):
        state = current()
        assert state.revision == revision_of(state.view) == revision_of(view)
