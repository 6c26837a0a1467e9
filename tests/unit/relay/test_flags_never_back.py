"""No replica takes a client of flags back: over random schedules of replicas, polls, restarts and requests."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from apps_in_process import answered_after, call
from hypothesis import HealthCheck, find, given, settings
from schedules import ANY_EXAMPLE, carried_out
from waiting import BOUND

import featuregate as fg
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.clusters import ServedCluster

REPLICAS = 2
PATH = "/ofrep/v1/evaluate/flags"
GATES = {"groups": "group.version>=2", "produce": "Produce>=13"}
LEVEL = "level.group.version"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def values(self) -> dict[str, object]:
        return {flag["key"]: flag.get("value") for flag in self.body["flags"]}


class Replica:
    def __init__(self, view: fg.View | None = None, *, floor_seconds: float = 0.0) -> None:
        self.features = StaticFeatures(view)
        gates = tuple(self.features.gate(name, requirement) for name, requirement in GATES.items())
        self.app = make_app({"default": PolledCluster(self.features, gates)}, floor_seconds=floor_seconds)

    def ask(self, etag: str | None) -> Answer:
        return asyncio.run(self.answer(etag))

    async def answer(self, etag: str | None) -> Answer:
        headers = {} if etag is None else {"If-None-Match": etag}
        status, found, body = await call(self.app, PATH, headers, method="POST", body=b'{"context": {}}')
        return Answer(status, found, json.loads(body) if body else None)


class State(NamedTuple):
    epoch: int
    level: int
    release: str


@dataclass
class World:
    """A cluster, replicas behind a balancer, and one client that keeps the entity tag of its flags."""

    keeps_tag: bool = True
    closed: list[str] = field(default_factory=list)
    falls: list[tuple[State, State]] = field(default_factory=list)
    answered: int = 0

    def __post_init__(self) -> None:
        self.history = [State(epoch=1, level=1, release="3.9")]
        self.replicas = [Replica() for _ in range(REPLICAS)]
        self.polled: list[State | None] = [None] * REPLICAS
        self.etag: str | None = None
        self.values: dict[str, object] = {}
        self.got: State | None = None

    def upgrade(self) -> None:
        state = self.history[-1]
        self.history.append(State(state.epoch + 1, state.level + 1, "4.2"))

    def downgrade(self) -> None:
        state = self.history[-1]
        self.history.append(state._replace(epoch=state.epoch + 1, level=max(state.level - 1, 0)))

    def poll(self, replica: int, behind: int) -> None:
        state = self.history[max(0, len(self.history) - 1 - behind)]
        seen = self.polled[replica]
        if seen is not None and seen.epoch > state.epoch:
            state = seen  # a store keeps the levels of the higher epoch
        self.polled[replica] = state
        levels = {"group.version": state.level}
        view = release_view(self.history[-1].release, finalized=levels, epoch=state.epoch)
        self.replicas[replica].features.show(view)

    def restart(self, replica: int) -> None:
        self.replicas[replica], self.polled[replica] = Replica(), None

    def ask(self, replica: int) -> None:
        answer = self.replicas[replica].ask(self.etag)
        if answer.status == 503:
            return
        self.answered += 1
        if self.keeps_tag:
            self.etag = answer.headers["etag"]
        now = self.polled[replica]
        assert now is not None
        if answer.status == 200:
            self.closed += [gate for gate in GATES if self.values.get(gate) and not answer.values[gate]]
            moved = answer.values.get(LEVEL) != self.values.get(LEVEL)
            if self.got is not None and moved and now.epoch < self.got.epoch:
                self.falls.append((self.got, now))
            self.values = answer.values
        if self.got is None or answer.status == 200 or now.epoch > self.got.epoch:
            self.got = now  # a client that is told that nothing has changed knows it at this epoch


def steps() -> st.SearchStrategy[tuple]:
    replicas = st.integers(0, REPLICAS - 1)
    polls, asks = st.tuples(st.just("poll"), replicas, st.integers(0, 2)), st.tuples(st.just("ask"), replicas)
    moves = st.tuples(st.sampled_from(["upgrade", "downgrade"]))
    return st.one_of(polls, asks, polls, asks, moves, st.tuples(st.just("restart"), replicas))


SCHEDULES = st.lists(steps(), min_size=8, max_size=40)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEDULES)
def test_invariant_10_no_replica_closes_a_gate_of_a_client_or_takes_its_levels_back(schedule: list[tuple]) -> None:
    """Replicas may be far behind or newly started."""
    world = carried_out(World(keeps_tag=True), schedule)
    assert world.closed == []
    assert world.falls == []


@pytest.mark.parametrize("seen", ["closed", "falls"])
@pytest.mark.no_cover
def test_a_client_that_sends_no_tag_is_taken_back(seen: str) -> None:
    """The property above would notice, and OFREP has no other place for a floor."""
    find(SCHEDULES, lambda schedule: getattr(carried_out(World(keeps_tag=False), schedule), seen), settings=ANY_EXAMPLE)


def test_a_replica_learns_from_the_client_what_another_one_has_latched() -> None:
    """And tells the client why; the answer to other clients stays as it was."""
    upgraded = release_view("4.2", finalized={"group.version": 2}, epoch=5)
    downgraded = release_view("4.2", finalized={"group.version": 1}, epoch=6)
    tag = Replica(upgraded).ask(None).headers["etag"]
    late = Replica(downgraded)
    assert late.ask(None).values["groups"] is False
    held = late.ask(tag)
    assert (held.values["groups"], held.values[LEVEL]) == (True, 1)
    (flag,) = [flag for flag in held.body["flags"] if flag["key"] == "groups"]
    assert flag["variant"] == "open"
    assert "another relay has latched it" in flag["metadata"]["why"]
    assert late.ask(held.headers["etag"]).status == 304
    assert late.ask(None).values["groups"] is False


def test_replicas_with_the_same_flags_have_each_others_tags() -> None:
    """Epochs, times and words differ."""
    one, other = Replica(release_view("4.2", epoch=5)), Replica(release_view("4.2", epoch=900))
    assert one.ask(other.ask(None).headers["etag"]).status == 304
    assert other.ask(one.ask(None).headers["etag"]).status == 304


def test_a_replica_that_is_behind_or_has_no_view_says_so() -> None:
    newer = Replica(release_view("4.2", finalized={"group.version": 1}, epoch=9)).ask(None).headers["etag"]
    behind = Replica(release_view("4.2", finalized={"group.version": 0}, epoch=8)).ask(newer)
    assert (behind.status, behind.headers["retry-after"]) == (503, "1")
    assert "behind" in behind.body["errorDetails"]
    assert Replica().ask(None).status == 503


def test_a_replica_waits_until_it_is_not_behind_any_more() -> None:
    """The first view that comes may be behind the client, too."""
    lower, same, newest = (
        release_view("4.2", epoch=epoch, finalized={"group.version": level})
        for epoch, level in ((7, 0), (8, 0), (9, 1))
    )
    replica = Replica(lower, floor_seconds=BOUND)
    seen = Replica(newest).ask(None).headers["etag"]

    async def ask() -> int:
        waiting = asyncio.create_task(replica.answer(seen))
        await asyncio.sleep(0.2)
        replica.features.show(same)
        (answer,) = await answered_after(lambda: replica.features.show(newest), waiting, silent=0.2)
        return answer.status

    assert asyncio.run(ask()) == 304


def test_a_latch_of_one_cluster_is_none_of_another() -> None:
    """Nor of a gate with another requirement."""
    tag = Replica(release_view("4.2", cluster_id="one", epoch=5, finalized={"group.version": 2})).ask(None)
    other = Replica(release_view("4.2", cluster_id="two", epoch=1, finalized={"group.version": 1}))
    answer = other.ask(tag.headers["etag"])
    assert (answer.status, answer.values["groups"]) == (200, False)
    features = StaticFeatures()
    gates = [features.gate("a", "group.version>=1"), features.gate("b", "group.version>=1")]
    served = ServedCluster("a", PolledCluster(features, tuple(gates)))
    assert len({latch for cluster in ("one", None) for latch in served.latches(cluster).values()}) == 4


def test_a_replica_that_says_the_same_leaves_the_floor_of_the_client() -> None:
    """Flags can be as they were before: one, two, and one again. Who has seen the end must not see the middle."""
    schedule = [("upgrade",), ("downgrade",), ("poll", 0, 0), ("ask", 0), ("poll", 1, 2), ("ask", 1), ("poll", 1, 1)]
    world = carried_out(World(keeps_tag=True), [*schedule, ("ask", 1)])
    assert (world.falls, world.answered) == ([], 2)


def test_flags_that_are_as_before_are_a_floor_at_their_last_epoch() -> None:
    """The replica has missed what was between."""
    first, between, last = (
        release_view("4.2", finalized={"group.version": level}, epoch=epoch) for epoch, level in enumerate((1, 2, 1), 1)
    )
    replica = Replica(first)
    replica.ask(None)
    replica.features.show(last)
    assert Replica(between).ask(replica.ask(None).headers["etag"]).status == 503
