"""The floor of a request: no view below it is sent, and a request waits a while for a newer one."""

import asyncio
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from apps_in_process import answered_after, call
from waiting import in_loop

import featuregate as fg
from featuregate import View
from featuregate.sources.seen import Floor, Seen, cluster_of
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.access.authentication import Access
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.clusters import ServedCluster
from featuregate_relay.waiting import NextChange

PATH = "/v1/clusters/default/view"
VIEW = release_view("4.2")
NEWER = replace(VIEW, epoch=VIEW.epoch + 1)
FLOOR = Floor.of(cluster_id=VIEW.cluster_id, epoch=NEWER.epoch, age=10.0)
BOUND = 60.0


def asked(floor: Floor = FLOOR) -> str:
    return f"{PATH}?{urlencode(floor.to_query())}"


@pytest.mark.parametrize(
    "floor",
    [
        Floor.of(cluster_id=None, epoch=-1, age=0.0),
        Floor.of(cluster_id="a&b=c", epoch=7, age=1.5, seen_at=1795396691.57635),
    ],
)
def test_a_floor_is_read_as_it_was_sent(floor: Floor) -> None:
    assert Floor.from_query(floor.to_query()) == floor
    assert Floor.from_query({}) is None


def test_answers_at_the_floor_are_not_above_it() -> None:
    """Only older ones are, or a lower epoch of the same cluster."""
    floor = Floor.of(cluster_id=VIEW.cluster_id, epoch=VIEW.epoch, age=10.0)
    assert floor.above(VIEW, 10.0) is None
    assert floor.above(NEWER, 10.0) is None
    assert "0.5 s older" in str(floor.above(VIEW, 10.5))
    assert "epoch" in str(FLOOR.above(VIEW, 0.0))
    assert replace(floor, seen=Seen.of(VIEW)).above(VIEW, 10.5) is None
    assert replace(FLOOR, seen=replace(FLOOR.seen, cluster=cluster_of("other"))).above(VIEW, 99.0) is None


def test_a_view_that_came_while_a_request_travelled_is_not_older() -> None:
    """A relay knows the views that it has sent itself. Of other views the age decides, which is less exact."""
    now = [0.0]
    with FakeCluster(1) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0, clock=lambda: now[0]) as features:
        features.refresh(BOUND)
        app = make_app({"default": PolledCluster(features)}, floor_seconds=0)
        first = View.from_json(asyncio.run(call(app, PATH))[2].decode())
        now[0] = 0.01
        features.refresh(BOUND)
        now[0] = 0.05

        def status(seen_at: float) -> int:
            floor = Floor.of(cluster_id=first.cluster_id, epoch=first.epoch, age=0.03, seen_at=seen_at)
            return asyncio.run(call(app, asked(floor)))[0]

        assert status(first.seen_at) == 200
        assert status(first.seen_at - 1) == 503


def test_a_relay_below_the_floor_sends_no_view() -> None:
    """It says what is newer, and when to come back; not even the client's own entity tag changes that."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))}, floor_seconds=0)
    _, headers, _ = asyncio.run(call(app, PATH))
    status, headers, body = asyncio.run(call(app, asked(), {"If-None-Match": headers["etag"]}))
    assert (status, headers["retry-after"]) == (503, "1")
    assert b"this relay is behind: its epoch is" in body


def test_a_request_waits_for_a_view_that_is_not_below_its_floor() -> None:
    """With the relay's next poll it has one."""
    features = StaticFeatures(VIEW)
    app = make_app({"default": PolledCluster(features)}, floor_seconds=BOUND)
    answers = asyncio.run(answered_after(lambda: features.show(NEWER), *(call(app, asked()) for _ in range(3))))
    assert {status for status, *_ in answers} == {200}


def test_a_relay_that_is_behind_asks_its_brokers_at_once() -> None:
    """Its next poll may be a minute away, while another replica has polled meanwhile."""
    with FakeCluster(1, release="4.2") as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0) as features:
        before = features.refresh(BOUND)
        app = make_app({"default": PolledCluster(features)}, floor_seconds=BOUND)
        brokers.finalize({"group.version": 1})
        floor = Floor.of(cluster_id=before.cluster_id, epoch=before.epoch + 1, age=3600.0)
        status, _, body = asyncio.run(call(app, asked(floor)))
    assert (status, View.from_json(body.decode()).finalized["group.version"]) == (200, 1)


class Observed(StaticFeatures):
    asked = 0

    def poll_soon(self) -> None:
        self.asked += 1


@pytest.mark.parametrize(("seconds", "asked"), [(BOUND, 1), (0.01, 2)])
def test_clients_make_a_relay_ask_its_brokers_once_in_a_while(
    seconds: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many they are. Those that come meanwhile make it ask once more, later."""
    monkeypatch.setattr("featuregate_relay.clusters._POLL_SECONDS", seconds)
    features = Observed(VIEW)
    cluster = ServedCluster("default", PolledCluster(features))

    async def come() -> None:
        for _ in range(20):
            cluster.poll_soon()
        await in_loop(lambda: features.asked >= 1)
        for _ in range(20):
            cluster.poll_soon()
        await in_loop(lambda: features.asked >= asked)
        assert features.asked < 2 * asked  # on a busy machine the first clients may have made it ask twice

    asyncio.run(come())


def test_a_client_that_is_refused_makes_a_relay_ask_nothing() -> None:
    """Wrong credentials cost the brokers nothing."""
    features = Observed(VIEW)
    app = make_app({"default": PolledCluster(features)}, access=Access(), floor_seconds=0.01)
    assert asyncio.run(call(app, asked()))[0] == 401
    assert features.asked == 0


def test_a_request_that_waits_is_answered_when_the_server_stops() -> None:
    """Else it would take the time in which others finish."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))}, floor_seconds=BOUND)

    async def ask() -> int:
        await answered_after(app.state.stop_waiting, call(app, asked()))
        async with asyncio.timeout(BOUND / 2):
            return (await call(app, asked()))[0]

    assert asyncio.run(ask()) == 503


def test_only_so_many_requests_wait() -> None:
    """A further one is answered at once. When those that wait are gone, no task looks on."""
    features = StaticFeatures(VIEW)
    next_view = NextChange(lambda: features.view, most=2)

    async def wait() -> list[bool]:
        about_this = asyncio.all_tasks()
        waiting = [asyncio.create_task(next_view.after(VIEW, BOUND)) for _ in range(2)]
        await asyncio.sleep(0)
        async with asyncio.timeout(BOUND / 2):
            assert not await next_view.after(features.view, BOUND)
        features.show(NEWER)
        changed = await asyncio.gather(*waiting)
        assert not await next_view.after(features.view, 0.01)
        await asyncio.gather(*asyncio.all_tasks() - about_this)
        return changed

    async def bounded() -> list[bool]:
        async with asyncio.timeout(BOUND):
            return await wait()

    assert asyncio.run(bounded()) == [True, True]


def test_many_that_wait_look_once() -> None:
    """A look at the state of a cluster costs more than a wait, and 5,000 streams would each have some at a change."""
    looks = 0

    def look() -> object:
        nonlocal looks
        looks += 1
        return features.view

    features = StaticFeatures(VIEW)
    next_view = NextChange(look)

    async def wait() -> list[bool]:
        waiting = [asyncio.create_task(next_view.after(VIEW, BOUND)) for _ in range(1000)]
        await asyncio.sleep(0)
        features.show(NEWER)
        async with asyncio.timeout(BOUND):
            return await asyncio.gather(*waiting)

    assert asyncio.run(wait()) == [True] * 1000
    assert looks < 10


def test_what_was_found_last_does_not_hold_back_a_newer_object() -> None:
    """A request has looked by itself since. One that has an older object than was found is answered at once."""
    features = StaticFeatures(VIEW)
    next_view = NextChange(lambda: features.view)

    async def wait() -> tuple[bool, bool, bool]:
        async with asyncio.timeout(BOUND):
            first = asyncio.create_task(next_view.after(VIEW, BOUND))
            await asyncio.sleep(0)
            features.show(NEWER)
            same = asyncio.create_task(next_view.after(NEWER, 0.5))
            return await first, await same, await next_view.after(VIEW, BOUND)

    assert asyncio.run(wait()) == (True, False, True)
