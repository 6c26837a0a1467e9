"""No replica takes a client of flags or events back: over random schedules of replicas, polls, restarts and asks."""

import asyncio

import hypothesis.strategies as st
import pytest
from apps_in_process import answered_after
from hypothesis import HealthCheck, find, given, settings
from relay_replicas import LEVEL, Replica, World, view
from schedules import ANY_EXAMPLE, carried_out
from waiting import BOUND

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster
from featuregate_relay.clusters import ServedCluster


def steps() -> st.SearchStrategy[tuple]:
    replicas = st.integers(0, 1)
    polls, asks = st.tuples(st.just("poll"), replicas, st.integers(0, 2)), st.tuples(st.just("ask"), replicas)
    moves = st.tuples(st.just("move"), st.sampled_from([-1, 0, 1]), st.sampled_from(["3.9", "4.2"]))
    return st.one_of(polls, asks, polls, asks, moves, st.tuples(st.just("restart"), replicas))


SCHEDULES = st.lists(steps(), min_size=8, max_size=40)
of_each_client = pytest.mark.parametrize("client", ["flags", "events"])


@of_each_client
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(schedule=SCHEDULES)
def test_invariant_10_no_replica_closes_a_gate_of_a_client_or_takes_its_levels_back(
    client: str, schedule: list[tuple]
) -> None:
    """Replicas may be far behind or newly started."""
    world = carried_out(World(client), schedule)
    assert world.closed == []
    assert world.falls == []


@of_each_client
@pytest.mark.parametrize("seen", ["closed", "falls"])
@pytest.mark.no_cover
def test_a_client_that_sends_no_token_is_taken_back(client: str, seen: str) -> None:
    """The property above would notice, and OFREP has no other place for a floor than an entity tag."""
    find(SCHEDULES, lambda schedule: getattr(carried_out(World(client, False), schedule), seen), settings=ANY_EXAMPLE)  # noqa: FBT003 - it keeps none


def test_a_replica_learns_from_the_client_what_another_one_has_latched() -> None:
    """And tells the client why; the answer to other clients stays as it was."""
    tag = Replica(view(2, 5)).flags().headers["etag"]
    late = Replica(view(1, 6))
    assert late.flags().values["groups"] is False
    held = late.flags(tag)
    assert (held.values["groups"], held.values[LEVEL]) == (True, 1)
    (flag,) = [flag for flag in held.body["flags"] if flag["key"] == "groups"]
    assert flag["variant"] == "open"
    assert "another relay has latched it" in flag["metadata"]["why"]
    assert late.flags(held.headers["etag"]).status == 304
    assert late.flags().values["groups"] is False


def test_replicas_with_the_same_flags_have_each_others_tags() -> None:
    """Epochs, times and words differ."""
    one, other = Replica(release_view("4.2", epoch=5)), Replica(release_view("4.2", epoch=900))
    assert one.flags(other.flags().headers["etag"]).status == 304
    assert other.flags(one.flags().headers["etag"]).status == 304


def test_a_replica_that_is_behind_or_has_no_view_says_so() -> None:
    behind = Replica(view(0, 8)).flags(Replica(view(1, 9)).flags().headers["etag"])
    assert (behind.status, behind.headers["retry-after"]) == (503, "1")
    assert "behind" in behind.body["errorDetails"]
    assert Replica().flags().status == 503


def test_a_replica_waits_until_it_is_not_behind_any_more() -> None:
    """The first view that comes may be behind the client, too."""
    lower, same, newest = view(0, 7), view(0, 8), view(1, 9)
    replica = Replica(lower, floor_seconds=BOUND)
    seen = Replica(newest).flags().headers["etag"]

    async def ask() -> int:
        waiting = asyncio.create_task(replica.answer(seen))
        await asyncio.sleep(0.2)
        replica.features.show(same)
        (answer,) = await answered_after(lambda: replica.features.show(newest), waiting, silent=0.2)
        return answer.status

    assert asyncio.run(ask()) == 304


def test_a_latch_of_one_cluster_is_none_of_another() -> None:
    """Nor of a gate with another requirement."""
    tag = Replica(view(2, 5, cluster_id="one")).flags().headers["etag"]
    answer = Replica(view(1, 1, cluster_id="two")).flags(tag)
    assert (answer.status, answer.values["groups"]) == (200, False)
    features = StaticFeatures()
    gates = [features.gate("a", "group.version>=1"), features.gate("b", "group.version>=1")]
    served = ServedCluster("a", PolledCluster(features, tuple(gates)))
    assert len({latch for cluster in ("one", None) for latch in served.latches(cluster).values()}) == 4


def test_a_replica_that_says_the_same_leaves_the_floor_of_the_client() -> None:
    """Flags can be as they were before: one, two, and one again. Who has seen the end must not see the middle."""
    moves = [("move", 1, "4.2"), ("move", -1, "4.2")]
    schedule = [*moves, ("poll", 0, 0), ("ask", 0), ("poll", 1, 2), ("ask", 1), ("poll", 1, 1), ("ask", 1)]
    world = carried_out(World("flags"), schedule)
    assert (world.falls, world.answered) == ([], 2)


def test_flags_that_are_as_before_are_a_floor_at_their_last_epoch() -> None:
    """The replica has missed what was between."""
    first, between, last = view(1, 1), view(2, 2), view(1, 3)
    replica = Replica(first)
    replica.flags()
    replica.features.show(last)
    assert Replica(between).flags(replica.flags().headers["etag"]).status == 503
