"""Checks, pages and events have the floor of a view: no answer of any replica takes a client back."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import hypothesis.strategies as st
import pytest
from apps_in_process import answered_after, call
from bs4 import BeautifulSoup, Tag
from hypothesis import HealthCheck, find, given, settings
from schedules import ANY_EXAMPLE, carried_out
from waiting import BOUND

import featuregate as fg
from featuregate.sources.seen import BELIEF_SECONDS, Floor, Seen, cluster_of
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app

BASE = "/v1/clusters/default"
EVENTS = f"{BASE}/events"
GATES = {"groups": ("group.version>=2", "sticky"), "produce": ("Produce>=13", "live")}
LEVEL_1, LEVEL_2 = ({"group.version": level} for level in (1, 2))


class Replica:
    def __init__(self, view: fg.View | None = None, *, floor_seconds: float = 0.0) -> None:
        self.features = StaticFeatures(view)
        gates = tuple(self.features.gate(name, text, policy=policy) for name, (text, policy) in GATES.items())
        self.app = make_app({"default": PolledCluster(self.features, gates)}, floor_seconds=floor_seconds)

    def get(self, path: str, floor: Floor | None = None) -> tuple[int, dict[str, str], bytes]:
        query = {} if floor is None else floor.to_query()
        return asyncio.run(call(self.app, f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"))

    def listen(self, last_event_id: str = "") -> tuple[str, dict[str, Any]] | None:
        """Return the id and the data of the first event that a client hears; None: the stream ends without one."""
        return asyncio.run(self._listen(last_event_id))

    async def _listen(self, last_event_id: str) -> tuple[str, dict[str, Any]] | None:
        heard = bytearray()
        event = asyncio.Event()

        def hear(piece: bytes) -> None:
            heard.extend(piece)
            if b"data: " in heard:
                event.set()

        stream = asyncio.create_task(call(self.app, EVENTS, {"Last-Event-ID": last_event_id}, hear=hear))
        first = asyncio.create_task(event.wait())
        async with asyncio.timeout(BOUND):
            await asyncio.wait([stream, first], return_when=asyncio.FIRST_COMPLETED)
        for task in (stream, first):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await stream
        fields = dict(line.split(": ", 1) for line in heard.decode().splitlines() if ": " in line)
        return (fields["id"], json.loads(fields["data"])) if "data" in fields else None


def view(level: dict[str, int], epoch: int, *, release: str = "4.2", seen_at: float = 0.0) -> fg.View:
    return replace(release_view(release, finalized=level, epoch=epoch), seen_at=seen_at)


UPGRADED, DOWNGRADED = view(LEVEL_2, 5, seen_at=50.0), view(LEVEL_1, 6, seen_at=60.0)
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
    assert Replica(view(LEVEL_1, 4)).get(PATHS[0], floor)[0] == 503


def test_the_page_has_the_floor_of_the_next_one() -> None:
    """With the gates that it has shown open, which stay open on it at another replica."""

    def main_of(page: bytes) -> Tag:
        return BeautifulSoup(page, "html.parser").select_one("main")

    first = main_of(Replica(UPGRADED).get("/clusters/default")[2])
    assert "groups: \u2713 open" in first.get_text(" ", strip=True)
    floor = f"seen={first['data-seen']}&notOlderThan={first['data-answered']}"
    assert Replica(view(LEVEL_1, 4)).get(f"/clusters/default?{floor}")[0] == 503
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
    assert Replica(view(LEVEL_2, 7, seen_at=70.0)).listen(ident) is not None


def test_a_stream_begins_when_the_relay_is_not_behind_any_more() -> None:
    ident, _ = Replica(DOWNGRADED).listen()
    late = Replica(UPGRADED, floor_seconds=BOUND)
    newer = view(LEVEL_1, 7, seen_at=70.0)
    (event,) = asyncio.run(answered_after(lambda: late.features.show(newer), late._listen(ident)))
    assert event is not None
    _, data = event
    assert data["gates"]["produce"] is True


def test_a_gate_that_a_client_has_seen_latched_is_open_for_it() -> None:
    """At a replica that has latched nothing, and from there at a third one. Other clients hear what it has latched."""
    ident, data = Replica(UPGRADED).listen()
    assert data["gates"] == {"groups": True, "produce": True}
    for _ in range(2):
        ident, data = Replica(DOWNGRADED).listen(ident)
        assert data["gates"] == {"groups": True, "produce": True}
    assert Replica(DOWNGRADED).listen()[1]["gates"] == {"groups": False, "produce": True}
    assert Replica(replace(DOWNGRADED, cluster_id="other")).listen(ident)[1]["gates"]["groups"] is False


def test_ranges_change_without_an_epoch() -> None:
    """There the time at which brokers answered decides, by the clocks of replicas."""
    ident, _ = Replica(view(LEVEL_1, 5, release="4.2", seen_at=50.0)).listen()
    assert Replica(view(LEVEL_1, 5, release="3.9", seen_at=49.0)).listen(ident) is None
    assert Replica(view(LEVEL_1, 5, release="3.9", seen_at=51.0)).listen(ident) is not None


def test_the_same_content_is_not_behind() -> None:
    """Whenever brokers said it. The client keeps the highest epoch, so that it hears of nothing between."""
    ident, _ = Replica(view(LEVEL_1, 9, seen_at=90.0)).listen()
    again, _ = Replica(view(LEVEL_1, 5, seen_at=50.0)).listen(ident)
    assert again == ident
    assert Replica(view(LEVEL_2, 7, seen_at=70.0)).listen(again) is None


def test_a_heartbeat_says_how_far_the_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch moves, and nothing is an event: the floor of the client rises nevertheless."""
    monkeypatch.setattr("featuregate_relay.views.event_stream._HEARTBEAT_SECONDS", 0.02)
    replica = Replica(view(LEVEL_1, 5, seen_at=50.0))

    async def listen() -> str:
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        stream = asyncio.create_task(call(replica.app, EVENTS, hear=heard.put_nowait))
        async with asyncio.timeout(BOUND):
            while b"event: view" not in await heard.get():
                continue
            replica.features.show(view(LEVEL_1, 9, seen_at=90.0))
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


class State(NamedTuple):
    epoch: int
    level: int
    release: str


@dataclass
class World:
    """A cluster, replicas behind a balancer, and a client of their events that comes back again and again."""

    sends_id: bool = True
    now: float = 1000.0
    closed: list[str] = field(default_factory=list)
    falls: list[tuple[float, float]] = field(default_factory=list)
    heard: int = 0

    def __post_init__(self) -> None:
        self.history = [State(epoch=1, level=1, release="3.9")]
        self.replicas = [Replica() for _ in range(2)]
        self.ident = ""
        self.gates: dict[str, bool] = {}
        self.revision: str | None = None
        self.asked_at: dict[str, float] = {}
        """When brokers last said what has this revision, by any replica."""
        self.got_at = 0.0

    def move(self, by: int, release: str) -> None:
        state = self.history[-1]
        self.history.append(State(state.epoch + 1, max(state.level + by, 0), release))

    def poll(self, replica: int, behind: int) -> None:
        self.now += 1
        state = self.history[max(0, len(self.history) - 1 - behind)]
        levels = {"group.version": state.level}
        found = view(levels, state.epoch, release=self.history[-1].release, seen_at=self.now)
        self.replicas[replica].features.show(found)

    def restart(self, replica: int) -> None:
        self.replicas[replica] = Replica()

    def come_back(self, replica: int) -> None:
        """Open a stream at the replica that the balancer picks, and end it after its first event."""
        if self.replicas[replica].features.view is None and not self.ident:
            return
        event = self.replicas[replica].listen(self.ident)
        if event is None:
            return
        self.heard += 1
        shown = self.replicas[replica].features.view
        ident, data = event
        self.closed += [gate for gate in ("groups",) if self.gates.get(gate) and not data["gates"][gate]]
        if data["revision"] != self.revision and (shown.epoch, shown.seen_at) < self.floor:
            self.falls.append((self.got_at, shown.seen_at))
        self.floor = max(self.floor, (shown.epoch, shown.seen_at)) if self.sends_id else (shown.epoch, shown.seen_at)
        self.ident, self.gates = ident if self.sends_id else "", data["gates"]
        self.revision = data["revision"]

    floor: tuple[int, float] = (-1, 0.0)


def steps() -> st.SearchStrategy[tuple]:
    replicas = st.integers(0, 1)
    polls = st.tuples(st.just("poll"), replicas, st.integers(0, 2))
    listens = st.tuples(st.just("come_back"), replicas)
    moves = st.tuples(st.just("move"), st.sampled_from([-1, 0, 1]), st.sampled_from(["3.9", "4.2"]))
    return st.one_of(polls, listens, polls, listens, moves, st.tuples(st.just("restart"), replicas))


SCHEDULES = st.lists(steps(), min_size=8, max_size=40)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEDULES)
def test_invariant_10_no_replica_takes_a_client_of_events_back(schedule: list[tuple]) -> None:
    """Replicas may be far behind or newly started."""
    world = carried_out(World(sends_id=True), schedule)
    assert world.closed == []
    assert world.falls == []


@pytest.mark.parametrize("seen", ["closed", "falls"])
@pytest.mark.no_cover
def test_a_client_that_sends_no_id_is_taken_back(seen: str) -> None:
    """The property above would notice."""
    find(SCHEDULES, lambda schedule: getattr(carried_out(World(sends_id=False), schedule), seen), settings=ANY_EXAMPLE)
