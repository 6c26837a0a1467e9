"""Long polls and encodings of a view: when a request is answered, and in how many bytes."""

import asyncio
import gzip
from dataclasses import replace
from types import SimpleNamespace

import pytest
from apps_in_process import answered_after, call
from starlette.types import Message

from featuregate.sources.seen import Seen, cluster_of
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.views.view_body import accepts_gzip

PATH = "/v1/clusters/default/view"
ANSWERS = "featuregate_relay.views.view_answers"
VIEW = release_view("4.2")
NEWER = replace(release_view("4.3"), epoch=VIEW.epoch + 1)
BOUND = 60.0
NAMED = {"featuregate-revision", "featuregate-epoch", "featuregate-seen-at"}


@pytest.mark.parametrize("first", [None, VIEW])
def test_a_long_poll_is_answered_with_the_next_view(first) -> None:
    """Many requests wait at a time. A relay without a view has them wait for its first one."""
    features = StaticFeatures(first)
    app = make_app({"default": PolledCluster(features)})

    tag = asyncio.run(call(app, PATH))[1].get("etag", "")
    requests = (call(app, f"{PATH}?wait=30", {"If-None-Match": tag} if tag else {}) for _ in range(20))
    answers = asyncio.run(answered_after(lambda: features.show(NEWER), *requests))
    assert {(status, body) for status, _, body in answers} == {(200, NEWER.to_json().encode())}


def test_the_answers_to_a_change_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that has drawn a later moment waits on while another one is answered."""
    features = StaticFeatures(VIEW)
    app = make_app({"default": PolledCluster(features)})

    async def poll() -> tuple[int, int]:
        async with asyncio.timeout(BOUND):
            tag = (await call(app, PATH))[1]["etag"]
            waiting = [asyncio.create_task(call(app, f"{PATH}?wait=30", {"If-None-Match": tag})) for _ in range(2)]
            done, _ = await asyncio.wait(waiting, timeout=0.01)
            assert not done
            monkeypatch.setattr(f"{ANSWERS}._SPREAD_SECONDS", BOUND)
            monkeypatch.setattr(f"{ANSWERS}._RANDOM", SimpleNamespace(random=iter([0.0, 1.0]).__next__))
            features.show(NEWER)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done, late = await asyncio.wait(waiting, timeout=0.1)
            for task in late:
                task.cancel()
            return len(done), len(late)

    assert asyncio.run(poll()) == (1, 1)


def test_a_long_poll_ends_without_news() -> None:
    """With the age of now; a request that has no view is answered at once."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})

    async def poll() -> tuple[int, int]:
        async with asyncio.timeout(BOUND):
            status, headers, _ = await call(app, f"{PATH}?wait=30")
            again, _, _ = await call(app, f"{PATH}?wait=1", {"If-None-Match": headers["etag"]})
            return status, again

    assert asyncio.run(poll()) == (200, 304)


def test_a_long_poll_has_an_end_however_long_it_wants_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would cut it off."""
    monkeypatch.setattr(f"{ANSWERS}._LONGEST_WAIT", 0.1)
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})

    async def poll() -> int:
        async with asyncio.timeout(BOUND):
            return (await call(app, f"{PATH}?wait=99999999999", {"If-None-Match": "*"}))[0]

    assert asyncio.run(poll()) == 304


@pytest.mark.parametrize(("drawn", "seconds"), [(0.0, 30.0), (1.0, 27.0)])
def test_long_polls_of_one_moment_end_at_different_times(
    drawn: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a tenth sooner than they ask for: otherwise clients that came together would go on coming together."""
    waited = []

    async def no_news(_self: object, _seen: object, left: float) -> bool:
        waited.append(left)
        return False

    monkeypatch.setattr(f"{ANSWERS}._RANDOM", SimpleNamespace(random=lambda: drawn))
    monkeypatch.setattr("featuregate_relay.waiting.NextChange.after", no_news)
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})
    assert asyncio.run(call(app, f"{PATH}?wait=30", {"If-None-Match": "*"}))[0] == 304
    assert waited == [pytest.approx(seconds, abs=1)]


def test_a_long_poll_ends_when_the_server_stops() -> None:
    """The client asks another replica."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})
    request = call(app, f"{PATH}?wait={BOUND:g}", {"If-None-Match": "*"})
    ((status, *_),) = asyncio.run(asyncio.wait_for(answered_after(app.state.stop_waiting, request), BOUND / 3))
    assert status == 304


SEEN = Seen(cluster=cluster_of(VIEW.cluster_id), epoch=1).text


@pytest.mark.parametrize(
    "target",
    [
        *(f"{PATH}?wait={seconds}" for seconds in ("", "-1", "1.5", "long", "1e3")),
        *(f"{PATH}?seen={SEEN}&notOlderThan={age}" for age in ("old", "-1", "nan", "inf")),
        *(f"{PATH}?seen={token}" for token in ("x", "")),
        *(f"/readyz?max-age={age}" for age in ("", "-1", "old", "1.5")),
    ],
)
def test_what_is_no_number_or_token_in_a_query_is_refused(target: str) -> None:
    """Also for a client that has the view. A probe that is written wrongly must not be green."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})
    status, _, body = asyncio.run(call(app, target, {"If-None-Match": "*"}))
    assert (status, b"must be" in body) == (400, True)


def test_a_client_that_accepts_gzip_gets_it() -> None:
    """Both bodies have the same weak tag, also where a proxy has marked it; it may be one of several."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})
    _, plain, body = asyncio.run(call(app, PATH))
    _, small, compressed = asyncio.run(call(app, PATH, {"Accept-Encoding": "gzip, deflate"}))
    assert gzip.decompress(compressed) == body
    assert len(compressed) < len(body) / 2
    assert (small["content-encoding"], small["vary"]) == ("gzip", "Accept-Encoding")
    assert plain["etag"] == small["etag"]
    tag = small["etag"]
    for known in (tag, f'{tag[:-1]}-gzip"', tag.removeprefix("W/"), f'"other", {tag}', "*"):
        assert asyncio.run(call(app, PATH, {"If-None-Match": known}))[0] == 304
    assert asyncio.run(call(app, PATH, {"If-None-Match": '"other"'}))[0] == 200


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("*", True),
        ("identity", False),
    ],
)
def test_gzip_is_accepted_where_the_header_says_so(header: str, *, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


@pytest.mark.parametrize("query", ["", f"notOlderThan=60&seen={SEEN}"])
def test_a_client_that_has_the_view_gets_an_empty_answer(query: str) -> None:
    """With the headers of the view: a cache keeps them."""
    app = make_app({"default": PolledCluster(StaticFeatures(VIEW))})
    _, full, _ = asyncio.run(call(app, PATH))
    answer, headers, body = asyncio.run(call(app, f"{PATH}?{query}", {"If-None-Match": full["etag"]}))
    kept = {"etag", "cache-control", "vary"} | NAMED
    assert {name: headers[name] for name in kept} == {name: full[name] for name in kept}
    assert float(headers["featuregate-age"]) >= 0
    assert (answer, body) == (304, b"")


def test_a_long_poll_ends_with_its_connection() -> None:
    """Clients that come back would leave one behind each time; the next change wakes those that wait."""
    features = StaticFeatures(VIEW)
    app = make_app({"default": PolledCluster(features)})
    messages = [{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        assert message.get("status", 503) == 503

    async def poll() -> int:
        async with asyncio.timeout(BOUND):
            tag = (await call(app, PATH))[1]["etag"]
            scope = {"type": "http", "method": "GET", "path": PATH, "query_string": b"wait=30", "root_path": ""}
            await app(scope | {"headers": [(b"if-none-match", tag.encode())]}, receive, send)
            return len([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])

    assert asyncio.run(poll()) <= 1  # the one that looks for changes ends by itself
