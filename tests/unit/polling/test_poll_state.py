"""What the polls so far have shown, and when to ask again."""

import json
from dataclasses import replace
from typing import Any

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import ConfigError, DiscoveryError
from featuregate.gating.decisions import FRESH, Staleness
from featuregate.polling.poll_state import AT_ONCE, BACKOFF_CAP, JITTER, PollState, next_delay
from featuregate.view.answers import unlisted
from featuregate.view.cluster_view import View


def make() -> PollState:
    return PollState(interval=10, stale_after=30, forget_after=100)


def succeed(polls: PollState, seen: View, now: float, before: View | None = None) -> View:
    polls.succeed(before, seen, now)
    return seen


def health(polls: PollState, seen: View | None, now: float, *, troubles: tuple[str, ...] = ()) -> dict[str, Any]:
    found = polls.health(seen, now, troubles=troubles)
    json.dumps(found)
    return found


NOTHING = {
    "status": "ok",
    "reasons": [],
    "cluster_id": None,
    "epoch": -1,
    "epoch_advancing": None,
    "age_seconds": None,
    "brokers_known": 0,
    "brokers_answered": 0,
    "polls": 0,
    "failures": 0,
    "last_error": None,
}


def test_before_the_first_poll_it_is_starting() -> None:
    assert health(make(), None, 0) == {**NOTHING, "status": "starting"}


def test_failures_before_the_first_view_are_failing() -> None:
    polls = make()
    polls.fail(OSError("refused"))
    polls.fail(OSError("no route"))
    assert health(polls, None, 0) == {
        **NOTHING,
        "status": "failing",
        "reasons": ["the last 2 polls failed: no route"],
        "failures": 2,
        "last_error": "no route",
    }


def test_all_answered_is_ok() -> None:
    polls = make()
    assert [polls.begin(), polls.begin()] == [1, 2]
    polls.end(2)
    seen = succeed(polls, view(broker(1), broker(2)), 5)
    counts = {"polls": 2, "brokers_known": 2, "brokers_answered": 2}
    assert health(polls, seen, 7) == {**NOTHING, **counts, "cluster_id": "c", "epoch": 10, "age_seconds": 2}
    # The first view is not there yet while its latches are written.
    assert health(polls, None, 7) == {**NOTHING, "polls": 2, "status": "starting"}


def test_a_deaf_broker_degrades_and_is_named() -> None:
    polls = make()
    bare = replace(deaf(3), node_id=None)
    found = health(polls, succeed(polls, view(broker(1), deaf(2), bare), 0), 0)
    assert (found["status"], found["brokers_known"], found["brokers_answered"]) == ("degraded", 3, 1)
    assert found["reasons"] == ["2 of 3 brokers did not answer: 2 (b2:9092), b3:9092"]


def test_a_failure_after_a_view_degrades_and_then_grows_stale() -> None:
    """The view stays until its age makes it stale."""
    polls = make()
    seen = succeed(polls, view(broker()), 0)
    polls.fail(DiscoveryError([]))
    assert polls.fresh_for(20) == 10
    assert health(polls, seen, 20)["status"] == "degraded"
    assert health(polls, seen, 30)["status"] == "degraded"
    assert (polls.stale(30), polls.fresh_for(30), polls.staleness(30)) == (False, 0, FRESH)
    found = health(polls, seen, 31)
    assert (found["status"], found["reasons"][0]) == ("stale", "no broker has answered for 31 s (stale after 30 s)")
    assert (polls.stale(31), polls.fresh_for(31)) == (True, None)
    assert polls.staleness(31) == Staleness(view="no broker has answered for 31 s")


def test_before_the_first_answer_nothing_is_stale() -> None:
    assert (make().age(99), make().stale(99), make().fresh_for(99), make().staleness(99)) == (None, False, None, FRESH)


def test_a_shelf_error_degrades() -> None:
    polls = make()
    seen = succeed(polls, view(broker()), 0)
    assert health(polls, seen, 0, troubles=("disk full",))["reasons"] == ["disk full"]


SECONDS = ("interval", "stale_after", "forget_after")


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", [0, -1.0, True, "9", float("nan"), float("-inf")])
def test_what_is_no_number_of_seconds_is_refused(name: str, value: object) -> None:
    given: dict[str, Any] = {"interval": 10, "stale_after": None, "forget_after": 100, name: value}
    with pytest.raises(ConfigError) as raised:
        PollState.checked(**given)
    assert str(raised.value) == f"{name}: must be a number of seconds above 0, not {value!r}"


def test_a_view_may_never_grow_stale() -> None:
    endless = float("inf")
    polls = PollState.checked(interval=0.5, stale_after=endless, forget_after=endless)
    assert (polls.interval, polls.stale_after, polls.forget_after) == (0.5, endless, endless)
    assert PollState.checked(interval=10, stale_after=None, forget_after=1).stale_after == 30
    assert PollState.checked(interval=10, stale_after=7, forget_after=1).stale_after == 7
    with pytest.raises(ConfigError, match=r"^interval: must be a number of seconds above 0, not inf$"):
        PollState.checked(interval=endless, stale_after=None, forget_after=1)


def test_closed_is_closed() -> None:
    polls = make()
    polls.closed = True
    assert health(polls, None, 0)["status"] == "closed"
    assert polls.staleness(0) == Staleness(view="this discoverer has been closed")


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
    assert health(polls, seen, 40)["epoch_advancing"] is True
    found = health(polls, seen, 41)
    assert (found["status"], found["epoch_advancing"]) == ("degraded", False)
    assert found["reasons"] == [
        "the epoch has stopped rising: brokers answer, but hear nothing new from their controller"
    ]


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


def test_invariant_3_a_broker_that_is_no_longer_listed_stays_known_and_deaf() -> None:
    """It may be down for an upgrade, and come back with the old software."""
    polls = make()
    before = view(broker(1), broker(2))
    (gone,) = polls.vanished(before, "c", {1}, now=0, registered=False)
    assert (gone.node_id, gone.answered) == (2, False)
    after = view(broker(1), gone, previous=before)
    assert [missing.node_id for missing in after.missing] == [2]
    (still,) = polls.vanished(after, "c", {1}, now=99, registered=False)
    assert still == unlisted(broker(2), seconds=99)
    assert polls.vanished_since == {("c", 2): 0}


BOTH = view(broker(1), broker(2))
WITHOUT_ID = view(replace(broker(1), node_id=None))


@pytest.mark.parametrize(
    "polled",
    [
        [(WITHOUT_ID, "c", {2}, 0, False, 0)],
        [(BOTH, "c", {1}, 0, False, 1), (BOTH, "c", {1}, 100, False, 0), (view(broker(1)), "c", {1}, 101, False, 0)],
        [(BOTH, "c", {1}, 0, False, 1), (BOTH, "c", {1, 2}, 90, False, 0), (BOTH, "c", {1}, 120, False, 1)],
        [(BOTH, "c", {1}, 0, False, 1), (BOTH, "c", {1, 2}, 10, True, 0), (BOTH, "c", {1}, 200, False, 1)],
        [(BOTH, "d", {1}, 0, False, 0), (None, "c", {1}, 0, False, 0)],
        [(BOTH, "c", {1}, 0, True, 0)],
    ],
    ids=[
        "the list of an app names it by its address",
        "what stays away is forgotten once, and does not come back by itself",
        "the next time that it vanishes, its time begins anew",
        "it is back in either kind of list",
        "it is of another cluster",
        "the full list does not name it",
    ],
)
def test_invariant_3_how_many_brokers_have_vanished(
    polled: list[tuple[View | None, str, set[int], float, bool, int]],
) -> None:
    polls = make()
    for before, cluster_id, listed, now, registered, gone in polled:
        assert len(polls.vanished(before, cluster_id, listed, now=now, registered=registered)) == gone


OFF = (
    "no broker has reported finalized levels for 31 s (epoch -1): the feature system is switched off, or every broker "
    "is older than Kafka 2.7"
)
BACK = (
    "every broker has reported an epoch below 10 for 31 s (9 at the most): the cluster was restored, or rebuilt with "
    "the same id"
)


@pytest.mark.parametrize(("epoch", "says"), [(-1, OFF), (9, BACK)], ids=["off", "back"])
def test_invariant_9_levels_that_no_broker_reports_any_more_grow_old(epoch: int, says: str) -> None:
    """Brokers answer, and the feature system is off, or the epoch went back: health says which, and for how long."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=10)), 0)
    for now in (10, 20, 30):
        seen = succeed(polls, view(broker(epoch=epoch), previous=seen), now, seen)
        assert seen.epoch == 10
        assert polls.staleness(now).levels is None
    seen = succeed(polls, view(broker(epoch=epoch), previous=seen), 31, seen)
    assert polls.staleness(31) == Staleness(levels=says)
    found = health(polls, seen, 31)
    assert (found["status"], found["reasons"]) == ("degraded", [says])
    assert polls.staleness(62) == Staleness(view="no broker has answered for 31 s", levels=says)
    polls.closed = True
    assert polls.staleness(31) == Staleness(view="this discoverer has been closed", levels=says)
    polls.closed = False
    succeed(polls, view(broker(epoch=11), previous=seen), 32, seen)
    assert polls.staleness(32).levels is None


def test_a_cluster_without_an_epoch_has_no_levels_to_grow_old() -> None:
    """Kafka before 2.7 has no epoch."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=-1)), 0)
    succeed(polls, view(broker(epoch=-1), previous=seen), 1000, seen)
    assert polls.staleness(1000).levels is None
    assert health(polls, seen, 1000)["status"] == "ok"


def test_levels_of_another_cluster_begin_to_age_when_it_is_first_seen() -> None:
    """A source may hand in levels that its brokers do not report any more."""
    polls = make()
    seen = succeed(polls, view(broker(epoch=10)), 0)
    before = view(broker(epoch=5), cluster_id="d")
    other = succeed(polls, view(broker(epoch=-1), previous=before, cluster_id="d"), 1000, seen)
    assert other.epoch == 5
    assert polls.staleness(1000) == FRESH
    succeed(polls, other, 1031, other)
    assert polls.staleness(1031).levels


MIDDLE = 0.5  # the chance that jitters not at all


@pytest.mark.parametrize(
    ("interval", "failures", "rolling", "expected"),
    [
        (60, 0, False, 60),
        *((60, 0, True, 6), (20, 0, True, 2), (5, 0, True, 1), (0.5, 0, True, 0.5)),  # no less than a second
        *((60, at, True, wait) for at, wait in enumerate([1, 2, 4, 8, 16, 32, 60, 60], 1)),
        (1, 20, False, BACKOFF_CAP),  # longer than its interval, while the cluster is away
        (60, 10**9, False, 60),  # days of failures do not overflow
    ],
)
def test_the_next_poll_comes_sooner_in_a_roll_and_later_after_failures(
    *, interval: float, failures: int, rolling: bool, expected: float
) -> None:
    """Once an interval, ten times as often in a roll, and after twice the time with each failure."""
    assert next_delay(interval, failures=failures, rolling=rolling, chance=MIDDLE) == expected


@given(
    interval=st.floats(0.01, 3600),
    failures=st.integers(0, 100),
    rolling=st.booleans(),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_jitter_is_a_tenth_either_way(*, interval: float, failures: int, rolling: bool, chance: float) -> None:
    plain = next_delay(interval, failures=failures, rolling=rolling, chance=MIDDLE)
    delay = next_delay(interval, failures=failures, rolling=rolling, chance=chance)
    assert 0 < plain * (1 - JITTER) <= delay + 1e-9
    assert delay <= plain * (1 + JITTER) + 1e-9


@pytest.mark.parametrize(("failures", "expected"), [(0, 5), (9, 10.05)])
def test_invariant_9_the_next_poll_comes_before_the_view_is_stale(failures: int, expected: float) -> None:
    """Or at that moment, where no broker answers: gates learn of it then, however long the interval is."""
    assert next_delay(3600, failures=failures, rolling=False, chance=MIDDLE, fresh_for=10) == expected
    assert next_delay(1, failures=0, rolling=False, chance=MIDDLE, fresh_for=100) == 1


@pytest.mark.parametrize(("rest", "expected"), [(0.5, 1), (2, 2 + AT_ONCE), (300, 10 + AT_ONCE)])
def test_no_poll_comes_while_its_source_rests(rest: float, expected: float) -> None:
    """The poll would ask no relay, and double the wait. Gates still learn in time that the view is stale."""
    assert next_delay(60, failures=1, rolling=False, chance=MIDDLE, rest=rest, fresh_for=10) == expected


def test_polls_do_not_follow_each_other_without_a_pause() -> None:
    """Not even where a view is stale after a millisecond."""
    assert next_delay(3600, failures=0, rolling=False, chance=MIDDLE, fresh_for=0.001) == AT_ONCE
