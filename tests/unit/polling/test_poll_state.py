"""What the polls have shown about themselves."""

import json

import pytest
from builders import broker, deaf, view

from featuregate.errors import DiscoveryError
from featuregate.gating.decisions import FRESH
from featuregate.polling.poll_state import PollState
from featuregate.view.cluster_view import View


def make() -> PollState:
    return PollState(interval=10, stale_after=30, forget_after=100)


def succeed(polls: PollState, seen: View, now: float, before: View | None = None) -> View:
    polls.succeed(before, seen, now)
    return seen


def health(polls: PollState, seen: View | None, now: float, *, troubles: tuple[str, ...] = ()) -> dict[str, object]:
    found = polls.health(seen, now, troubles=troubles)
    json.dumps(found)
    return found


def test_before_the_first_poll_it_is_starting() -> None:
    """The health is neither good nor bad."""
    assert health(make(), None, 0)["status"] == "starting"


def test_failures_before_the_first_view_are_failing() -> None:
    """The health has the text of the last error."""
    polls = make()
    polls.fail(DiscoveryError([("b:9092", OSError("refused"))]))
    found = health(polls, None, 0)
    assert (found["status"], found["failures"]) == ("failing", 1)
    assert "refused" in str(found["last_error"])


def test_all_answered_is_ok() -> None:
    """Counts, age, epoch and cluster id are there."""
    polls = make()
    seen = succeed(polls, view(broker(1), broker(2)), 5)
    found = health(polls, seen, 7)
    assert (found["status"], found["reasons"]) == ("ok", [])
    assert (found["cluster_id"], found["epoch"], found["age_seconds"]) == ("c", 10, 2)
    assert (found["brokers_known"], found["brokers_answered"]) == (2, 2)


def test_a_deaf_broker_degrades_and_is_named() -> None:
    """The health has its id and its address."""
    polls = make()
    found = health(polls, succeed(polls, view(broker(1), deaf(2)), 0), 0)
    assert found["status"] == "degraded"
    assert "2 (b2:9092)" in str(found["reasons"])


def test_a_failure_after_a_view_degrades_and_then_grows_stale() -> None:
    """The view stays until its age makes it stale."""
    polls = make()
    seen = succeed(polls, view(broker()), 0)
    polls.fail(DiscoveryError([]))
    assert health(polls, seen, 20)["status"] == "degraded"
    assert health(polls, seen, 31)["status"] == "stale"
    assert polls.stale(31)


def test_a_success_ends_the_failures() -> None:
    """The health shows no earlier failure."""
    polls = make()
    seen = succeed(polls, view(broker()), 0)
    polls.fail(DiscoveryError([]))
    succeed(polls, seen, 1, seen)
    assert health(polls, seen, 1)["status"] == "ok"


def test_a_shelf_error_degrades() -> None:
    """Latches that are not durable are a matter of health."""
    polls = make()
    seen = succeed(polls, view(broker()), 0)
    assert health(polls, seen, 0, troubles=("disk full",))["reasons"] == ["disk full"]


def test_closed_is_closed() -> None:
    """The state before does not matter."""
    polls = make()
    polls.closed = True
    assert health(polls, None, 0)["status"] == "closed"
    assert polls.staleness(0).view == "this discoverer has been closed"


def test_invariant_2_a_clock_that_jumps_back_gives_no_negative_age() -> None:
    """Some monotonic clocks do jump back."""
    polls = make()
    succeed(polls, view(broker()), 100)
    assert polls.age(50) == 0
    assert not polls.stale(50)


def test_invariant_4_an_epoch_that_used_to_run_and_stops_is_staleness() -> None:
    """Brokers answer, and hear nothing new from their controller."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=10)), 0)
    seen = succeed(polls, view(broker(epoch=20)), 10, seen)
    assert health(polls, seen, 10)["epoch_advancing"] is True
    for now in (20, 30, 41):
        seen = succeed(polls, view(broker(epoch=20)), now, seen)
    found = health(polls, seen, 41)
    assert (found["status"], found["epoch_advancing"]) == ("degraded", False)
    assert "controller" in str(found["reasons"])


def test_invariant_4_an_epoch_that_never_ran_is_no_staleness() -> None:
    """ZooKeeper's epoch moves only when content does; some clusters have none at all."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=1, a=1)), 0)
    seen = succeed(polls, view(broker(epoch=2, a=2)), 10, seen)
    for now in (20, 200, 2000):
        seen = succeed(polls, view(broker(epoch=2, a=2)), now, seen)
    found = health(polls, seen, 2000)
    assert (found["status"], found["epoch_advancing"]) == ("ok", None)


def test_another_cluster_begins_its_own_count() -> None:
    """Its epoch is lower and not stuck."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=10)), 0)
    seen = succeed(polls, view(broker(epoch=20)), 10, seen)
    seen = succeed(polls, view(broker(epoch=1), cluster_id="d"), 100, seen)
    assert health(polls, seen, 100)["epoch_advancing"] is None


def test_brokers_that_differ_are_a_roll() -> None:
    """Until nothing has moved for an hour of intervals: then somebody has left a node behind."""
    polls = make()
    differ, same = view(broker(1, txn=2), broker(2, txn=3)), view(broker(1), broker(2))
    assert not polls.rolling(None, 0)
    succeed(polls, differ, 0)
    assert polls.rolling(differ, 599)
    assert not polls.rolling(differ, 600)
    assert not polls.rolling(same, 1)
    succeed(polls, differ, 1000, same)
    assert polls.rolling(differ, 1599)


def test_a_level_that_was_just_raised_is_a_roll_until_it_settles() -> None:
    """The roll lasts for five intervals."""
    polls = make()
    before = succeed(polls, view(broker(a=1)), 0)
    after = succeed(polls, view(broker(epoch=11, a=2)), 10, before)
    assert polls.rolling(after, 59)
    assert not polls.rolling(after, 60)


def test_the_first_view_is_no_roll() -> None:
    """The view has not changed yet."""
    polls = make()
    assert not polls.rolling(succeed(polls, view(broker()), 0), 1)


def test_invariant_3_a_broker_that_is_no_longer_listed_stays_known_and_deaf() -> None:
    """It may be down for an upgrade, and come back with the old software."""
    polls = make()
    before = view(broker(1), broker(2))
    (gone,) = polls.vanished(before, "c", {1}, now=0, registered=False)
    assert (gone.node_id, gone.answered) == (2, False)
    after = view(broker(1), gone, previous=before)
    assert [missing.node_id for missing in after.missing] == [2]
    (still,) = polls.vanished(after, "c", {1}, now=99, registered=False)
    assert still.node_id == 2


def test_a_broker_that_stays_away_is_forgotten() -> None:
    """Removed brokers are dropped, once, and do not come back by themselves."""
    polls = make()
    before = view(broker(1), broker(2))
    polls.vanished(before, "c", {1}, now=0, registered=False)
    assert polls.vanished(before, "c", {1}, now=100, registered=False) == ()
    assert polls.vanished(view(broker(1)), "c", {1}, now=101, registered=False) == ()


def test_a_broker_that_comes_back_is_forgiven() -> None:
    """The next time that it vanishes, its time begins anew."""
    polls = make()
    before = view(broker(1), broker(2))
    polls.vanished(before, "c", {1}, now=0, registered=False)
    assert polls.vanished(before, "c", {1, 2}, now=90, registered=False) == ()
    assert len(polls.vanished(before, "c", {1}, now=120, registered=False)) == 1


def test_brokers_of_another_cluster_have_not_vanished() -> None:
    """They never belonged to this cluster."""
    assert make().vanished(view(broker(1), broker(2)), "d", {1}, now=0, registered=False) == ()
    assert make().vanished(None, "c", {1}, now=0, registered=False) == ()


def test_invariant_3_a_broker_that_is_seen_in_either_kind_of_list_is_back() -> None:
    """Lists come now from a broker that names those that are down, and now from an older one, which does not."""
    polls = make()
    before = view(broker(1), broker(2))
    assert len(polls.vanished(before, "c", {1}, now=0, registered=False)) == 1
    assert polls.vanished(before, "c", {1, 2}, now=10, registered=True) == ()
    assert len(polls.vanished(before, "c", {1}, now=200, registered=False)) == 1


def test_a_broker_that_the_full_list_does_not_name_is_gone() -> None:
    """An operator has removed it."""
    assert make().vanished(view(broker(1), broker(2)), "c", {1}, now=0, registered=True) == ()


@pytest.mark.parametrize(("epoch", "says"), [(-1, "switched off"), (9, "restored, or rebuilt")])
def test_invariant_9_levels_that_no_broker_reports_any_more_grow_old(epoch: int, says: str) -> None:
    """Brokers answer, and the feature system is off, or the epoch went back: health says which, and for how long."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=10)), 0)
    for now in (10, 20, 30):
        seen = succeed(polls, view(broker(epoch=epoch), previous=seen), now, seen)
        assert seen.epoch == 10
        assert polls.staleness(now).levels is None
    seen = succeed(polls, view(broker(epoch=epoch), previous=seen), 31, seen)
    assert says in str(polls.staleness(31).levels)
    assert polls.staleness(31).view is None
    found = health(polls, seen, 31)
    assert found["status"] == "degraded"
    assert says in str(found["reasons"])
    succeed(polls, view(broker(epoch=11), previous=seen), 32, seen)
    assert polls.staleness(32).levels is None


def test_a_cluster_without_an_epoch_has_no_levels_to_grow_old() -> None:
    """Kafka before 2.7 has no epoch."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=-1)), 0)
    succeed(polls, view(broker(epoch=-1), previous=seen), 1000, seen)
    assert polls.staleness(1000).levels is None
    assert health(polls, seen, 1000)["status"] == "ok"


def test_another_cluster_brings_its_own_levels() -> None:
    """Its epoch is lower, and nothing is wrong with it."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=10)), 0)
    succeed(polls, view(broker(epoch=1), cluster_id="d"), 1000, seen)
    assert polls.staleness(1000) == FRESH


def test_a_restored_state_ages_from_the_times_of_the_process_before() -> None:
    """A restart proves neither a view nor its levels anew, and forgets a broker when it was to be forgotten."""
    polls, seen = make(), view(broker(1), broker(2))
    polls.restore(seen, answered_at=-10, levels_at=-60, unlisted_since={2: -95})
    assert polls.age(0) == 10
    assert polls.staleness(0).levels
    assert polls.unlisted_since("c") == {2: -95}
    assert [gone.node_id for gone in polls.vanished(seen, "c", {1}, 0, registered=False)] == [2]
    assert polls.vanished(seen, "c", {1}, 6, registered=False) == ()
