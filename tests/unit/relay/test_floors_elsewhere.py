"""Checks, pages and events have the floor of a view: no answer of any replica takes a client back."""

import asyncio
from dataclasses import replace
from urllib.parse import quote, urlencode

import hypothesis.strategies as st
import pytest
from apps_in_process import answered_after, call
from bs4 import BeautifulSoup, Tag
from hypothesis import given
from relay_replicas import EVENTS, Replica, view
from waiting import BOUND

from featuregate.sources.seen import BELIEF_SECONDS, Floor, Seen, cluster_of

BASE = "/v1/clusters/default"
UPGRADED, DOWNGRADED = view(2, 5, seen_at=50.0), view(1, 6, seen_at=60.0)
AHEAD = Floor.of(cluster_id=UPGRADED.cluster_id, epoch=6, age=1.0, seen_at=60.0)
PATHS = [f"{BASE}/check?require=kip848", "/clusters/default", "/", EVENTS]


@pytest.mark.parametrize("path", PATHS)
def test_a_relay_that_is_behind_says_so_on_each_path(path: str) -> None:
    """And when to come back; a client without a floor gets an answer, and one with no number is told."""
    status, headers, body = Replica(UPGRADED).get(path, AHEAD)
    assert (status, headers["retry-after"]) == (503, "1")
    assert b"this relay is behind: its epoch is 5" in body
    assert Replica().get(path, AHEAD)[0] == 503
    assert Replica(UPGRADED).get(f"{path}{'&' if '?' in path else '?'}seen=old")[0] == 400


@pytest.mark.parametrize("path", PATHS[:3])
def test_a_request_waits_for_the_next_poll_on_each_path(path: str) -> None:
    replica = Replica(UPGRADED, floor_seconds=BOUND)
    target = f"{path}{'&' if '?' in path else '?'}{urlencode(AHEAD.to_query())}"
    answers = asyncio.run(answered_after(lambda: replica.features.show(DOWNGRADED), call(replica.app, target)))
    assert [status for status, *_ in answers] == [200]


def test_a_check_says_what_the_floor_of_the_next_one_is() -> None:
    status, headers, _ = Replica(UPGRADED).get(PATHS[0])
    (seen,) = Seen.read(headers["featuregate-seen"])
    floor = Floor(seen=seen, age=float(headers["featuregate-age"]))
    assert (status, floor) == (200, Floor.of(cluster_id=UPGRADED.cluster_id, epoch=5, age=0.0, seen_at=50.0))
    assert Replica(UPGRADED).get(PATHS[0], floor)[0] == 200
    assert Replica(view(1, 4)).get(PATHS[0], floor)[0] == 503


def test_the_page_has_the_floor_of_the_next_one() -> None:
    """With the gates that it has shown open, which stay open on it at another replica."""

    def main_of(page: bytes) -> Tag:
        return BeautifulSoup(page, "html.parser").select_one("main")

    first = main_of(Replica(UPGRADED).get("/clusters/default")[2])
    assert "groups: \u2713 open" in first.get_text(" ", strip=True)
    floor = f"seen={first['data-seen']}&notOlderThan={first['data-answered']}"
    assert Replica(view(1, 4)).get(f"/clusters/default?{floor}")[0] == 503
    status, _, page = Replica(DOWNGRADED).get(f"/clusters/default?seen={first['data-seen']}&notOlderThan=9")
    second = main_of(page)
    assert (status, "groups: ! held" in second.get_text(" ", strip=True)) == (200, True)
    assert "another relay has latched it" in second.get_text(" ", strip=True)
    third = main_of(Replica(DOWNGRADED).get(f"/clusters/default?seen={second['data-seen']}&notOlderThan=9")[2])
    assert "groups: ! held" in third.get_text(" ", strip=True)
    assert "held" not in main_of(Replica(DOWNGRADED).get("/clusters/default")[2]).get_text()


# ---------------------------------------------------------------- events


def test_a_client_that_comes_back_hears_nothing_of_a_relay_that_is_behind() -> None:
    """The stream ends, and the browser comes back by itself, which it would not after an error."""
    ident, _ = Replica(DOWNGRADED).listen()
    assert Replica(UPGRADED).listen(ident) is None
    assert Replica().listen(ident) is None
    assert Replica(view(2, 7, seen_at=70.0)).listen(ident) is not None


def test_a_stream_begins_when_the_relay_is_not_behind_any_more() -> None:
    ident, _ = Replica(DOWNGRADED).listen()
    late = Replica(UPGRADED, floor_seconds=BOUND)
    newer = view(1, 7, seen_at=70.0)
    (event,) = asyncio.run(answered_after(lambda: late.features.show(newer), late.first_event(ident)))
    assert event is not None
    _, data = event
    assert data["gates"]["produce"] is True


def test_a_gate_that_a_client_has_seen_latched_is_open_for_it() -> None:
    """At a replica that has latched nothing, and from there at a third one. Other clients hear what it has latched."""
    ident, data = Replica(UPGRADED).listen()
    assert data["gates"] == {"groups": True, "produce": True, "live": True}
    for _ in range(2):
        ident, data = Replica(DOWNGRADED).listen(ident)
        assert data["gates"] == {"groups": True, "produce": True, "live": True}
    assert Replica(DOWNGRADED).listen()[1]["gates"] == {"groups": False, "produce": True, "live": True}
    assert Replica(replace(DOWNGRADED, cluster_id="other")).listen(ident)[1]["gates"]["groups"] is False


def test_ranges_change_without_an_epoch() -> None:
    """There the time at which brokers answered decides, by the clocks of replicas."""
    ident, _ = Replica(view(1, 5, release="4.2", seen_at=50.0)).listen()
    assert Replica(view(1, 5, release="3.9", seen_at=49.0)).listen(ident) is None
    assert Replica(view(1, 5, release="3.9", seen_at=51.0)).listen(ident) is not None


def test_the_same_content_is_not_behind() -> None:
    """Whenever brokers said it. The client keeps the highest epoch, so that it hears of nothing between."""
    ident, _ = Replica(view(1, 9, seen_at=90.0)).listen()
    again, _ = Replica(view(1, 5, seen_at=50.0)).listen(ident)
    assert again == ident
    assert Replica(view(2, 7, seen_at=70.0)).listen(again) is None


def test_a_heartbeat_says_how_far_the_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch moves, and nothing is an event: the floor of the client rises nevertheless."""
    monkeypatch.setattr("featuregate_relay.views.event_stream._HEARTBEAT_SECONDS", 0.02)
    replica = Replica(view(1, 5, seen_at=50.0))

    async def listen() -> str:
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        stream = asyncio.create_task(call(replica.app, EVENTS, hear=heard.put_nowait))
        async with asyncio.timeout(BOUND):
            while b"event: view" not in await heard.get():
                continue
            replica.features.show(view(1, 9, seen_at=90.0))
            while b".9.90.000." not in (piece := await heard.get()):
                continue
        stream.cancel()
        return piece.decode()

    assert "event: heartbeat" in asyncio.run(listen())


SEEN = Seen(content="a" * 32, cluster=cluster_of("one"), epoch=900, seen_at=1000.0)


def test_a_time_to_come_is_one_of_another_clock() -> None:
    """Only the epoch is compared then. Otherwise a replica whose clock is behind would refuse for as long."""
    now = replace(SEEN, content="b" * 32, seen_at=400.0)
    assert now.is_below(SEEN, 1000.0)
    assert not now.is_below(SEEN, 999.0)
    assert not now.is_below(SEEN)  # flags are compared by their epoch alone
    assert replace(now, epoch=899).is_below(SEEN, 999.0)


def test_a_cluster_that_was_restored_is_not_behind_for_ever() -> None:
    """As for flags: a lower epoch is believed after a while."""
    now = replace(SEEN, content="b" * 32, epoch=3)
    assert replace(now, seen_at=1000.0 + BELIEF_SECONDS - 1).is_below(SEEN, 9999.0)
    assert not replace(now, seen_at=1000.0 + BELIEF_SECONDS).is_below(SEEN, 9999.0)


TOKENS = st.builds(
    Seen,
    content=st.text("0123456789abcdef", min_size=32, max_size=32),
    cluster=st.sampled_from([cluster_of("one"), cluster_of(None)]),
    epoch=st.integers(-1, 2**63),
    seen_at=st.integers(-(10**9), 10**12).map(lambda number: number / 1000),
    latched=st.frozensets(st.text("0123456789abcdef", min_size=12, max_size=12)),
)


@given(TOKENS, TOKENS)
def test_a_token_is_read_as_it_was_written(token: Seen, other: Seen) -> None:
    """As an id, which has no line break and no blank; as entity tags, weak, and after a proxy has marked one."""
    assert Seen.read(token.text) == (token,)
    assert token.text == quote(token.text)
    assert Seen.read(f'"x", W/"{token.text}", "{other.text}-gzip"') == (token, other)


@pytest.mark.parametrize(
    "text",
    [None, "", "*", '"x"', "a" * 32, "a" * 32 + ".x.1.1.", f"{SEEN.text}x", f"x{SEEN.text}", "\u0661" * 100, '"' * 999],
)
def test_another_text_says_nothing(text: str | None) -> None:
    assert Seen.read(text) == ()


@given(TOKENS, st.lists(TOKENS, max_size=3))
def test_a_joined_token_is_not_below_any_of_its_own(token: Seen, seen: list[Seen]) -> None:
    """A latch of the cluster stays, and what is the same content is known at its last time."""
    joined = token.joined(*seen)
    assert joined.is_same(token)
    assert joined.latched == token.latched.union(*(each.latched for each in seen if each.cluster == token.cluster))
    assert all(joined.epoch >= each.epoch for each in seen if each.is_same(token))
