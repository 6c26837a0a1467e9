"""A counter's life from samples: never more than what happened, against a simulated broker that tells the truth."""

from bisect import bisect_left
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from featuregate_fleet.metrics.counters import SKEW, Growth, Point, growth

LONG_AGO = -1e6


def counted(points: list[tuple[float, int, float | None]], since: float = 0, absent_at: float | None = None) -> int:
    return sum(one.events for one in growth([Point(*each) for each in points], since, absent_at) if one.is_new)


def test_a_counter_that_is_born_with_five_counts_five() -> None:
    """``increase()`` reads 0. The broker was sampled before without it."""
    assert counted([(30, 5, LONG_AGO), (45, 5, LONG_AGO)], absent_at=15) == 5
    assert list(growth([Point(30, 5, LONG_AGO)], 0, 15)) == [Growth(15, 30, 5, is_new=True)]


def test_a_series_that_lives_for_one_sample_counts() -> None:
    """The broker ended after it."""
    assert counted([(30, 1, LONG_AGO)], absent_at=15) == 1


def test_a_first_sample_without_one_before_may_be_old() -> None:
    """Unless the broker has started since; a clock that is apart by a minute makes it no newer."""
    assert list(growth([Point(30, 5, LONG_AGO)], 0, None)) == [Growth(LONG_AGO, 30, 5, is_new=False)]
    assert counted([(3000, 5, 60.0)]) == 0
    assert counted([(3000, 5, SKEW)]) == 5
    assert counted([(30, 5, None)]) == 0


def test_a_restart_counts_the_new_life_whole() -> None:
    """Also where the value is no lower than before: two before and two after are four."""
    assert counted([(30, 2, 1.0), (45, 2, 40.0)], absent_at=15) == 4
    assert counted([(30, 10, 1.0), (45, 12, 40.0)], absent_at=15) == 22
    assert counted([(30, 100, 1.0), (45, 2, 40.0)], absent_at=15) == 102


def test_without_a_start_a_drop_alone_shows_a_restart() -> None:
    """What it does not show is left out."""
    assert counted([(30, 100, None), (45, 2, None)], absent_at=15) == 102
    assert counted([(30, 2, None), (45, 2, None)], absent_at=15) == 2


def test_a_start_that_was_not_kept_is_not_another_one() -> None:
    """What was there before it was kept happened before."""
    assert counted([(30, 7, None), (45, 7, LONG_AGO), (60, 8, None)], absent_at=15) == 8


def test_what_happened_before_was_not_asked_about() -> None:
    """A sample of before is where counting begins."""
    assert counted([(0, 7, LONG_AGO), (15, 9, LONG_AGO)]) == 2
    assert list(growth([Point(-15, 7, LONG_AGO), Point(15, 9, LONG_AGO)], 0, None)) == [
        Growth(-15, 15, 2, is_new=False)
    ]


class World(NamedTuple):
    """What really happened, and what was sampled."""

    calls: list[float]
    starts: list[float]
    samples: list[float]
    skew: float
    since: float


@st.composite
def worlds(draw: st.DrawFn) -> World:
    times = st.lists(st.integers(1, 400), max_size=12, unique=True)
    # At fractions of their own, so that nothing happens at the same moment.
    calls = sorted(at + 0.25 for at in draw(times))
    starts = [LONG_AGO, *sorted(at + 0.5 for at in draw(st.lists(st.integers(1, 400), max_size=3, unique=True)))]
    samples = sorted(float(at) for at in draw(times))
    return World(calls, starts, samples, draw(st.sampled_from([-60.0, 0.0, 60.0])), draw(st.integers(0, 300)))


def sampled(world: World, *, with_start: bool) -> tuple[list[Point], float | None]:
    points, absent_at = [], None
    for at in world.samples:
        start = max(each for each in world.starts if each < at)
        value = sum(1 for call in world.calls if start < call <= at)
        if value:
            points.append(Point(at, value, start + world.skew if with_start else None))
        elif not points:
            absent_at = at
    return points, absent_at


@given(worlds(), st.sampled_from(["start", ""]))
def test_a_count_is_never_more_than_what_happened(world: World, known: str) -> None:
    """Whatever restarts, samples that are missing, and clocks that are apart by a minute."""
    points, absent_at = sampled(world, with_start=bool(known))
    found = list(growth(points, world.since, absent_at))
    happened = sum(1 for call in world.calls if world.since < call)
    assert sum(one.events for one in found if one.is_new) <= happened
    assert sum(one.events for one in found) <= len(world.calls)


@given(worlds())
def test_without_restarts_and_with_a_sample_at_the_end_nothing_is_missing(world: World) -> None:
    """All that happened after the first sample is counted, however few samples there are."""
    whole = world._replace(starts=[LONG_AGO], samples=[0.0, *world.samples, 1000.0], since=0)
    points, absent_at = sampled(whole, with_start=True)
    assert sum(one.events for one in growth(points, 0, absent_at) if one.is_new) == len(world.calls)


@given(worlds(), st.integers(2, 60))
def test_the_last_sample_of_each_hour_proves_no_more_than_all_samples(world: World, hour: int) -> None:
    """Hours in which the broker restarts have all of theirs."""
    points, absent_at = sampled(world, with_start=True)
    restarted = {int(start // hour) for start in world.starts}
    last = {int(point.at // hour): point for point in points}
    thinned = [point for point in points if int(point.at // hour) in restarted or last[int(point.at // hour)] is point]
    few = sum(one.events for one in growth(thinned, world.since, absent_at) if one.is_new)
    assert few <= sum(one.events for one in growth(points, world.since, absent_at) if one.is_new)
    happened = world.calls[bisect_left(world.calls, world.since) :]
    assert few <= len(happened)
