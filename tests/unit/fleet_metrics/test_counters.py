"""A counter's life from samples: never more than what happened, against a simulated broker that tells the truth."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate_fleet.metrics.targets import Growth, Point, growth

LONG_AGO = -1e6


def counted(points: list[Point], since: float = 0, absent_at: float | None = None) -> int:
    return sum(one.events for one in growth(points, since, absent_at))


@pytest.mark.parametrize(
    ("points", "absent_at", "count"),
    [
        ([(30, 5, LONG_AGO), (45, 5, LONG_AGO)], 15, 5),  # increase() reads 0
        ([(30, 1, LONG_AGO)], 15, 1),
        ([(30, 5, LONG_AGO)], None, 5),
        ([(30, 5, None)], None, 5),
        ([(30, 2, 1.0), (45, 2, 40.0)], 15, 4),
        ([(30, 10, 1.0), (45, 12, 40.0)], 15, 22),
        ([(30, 100, 1.0), (45, 2, 40.0)], 15, 102),
        ([(30, 100, None), (45, 2, None)], 15, 102),
        ([(30, 2, None), (45, 2, None)], 15, 2),
        ([(30, 7, None), (45, 7, LONG_AGO), (60, 8, None)], 15, 8),
        ([(0, 7, LONG_AGO), (15, 9, LONG_AGO)], None, 2),
    ],
    ids=[
        "born with five", "one sample", "the first sample of a life", "without a start",
        "a restart without a drop", "a restart with a rise", "a restart with a drop", "a drop without a start",
        "no drop without a start", "a start that is kept of late is not another one",
        "a sample of before is where counting begins",
    ],
)  # fmt: skip
def test_a_counter_counts(points: list[Point], absent_at: float | None, count: int) -> None:
    assert counted(points, absent_at=absent_at) == count


def test_growth_says_after_what_it_happened() -> None:
    """The sample before, or the start of the broker."""
    assert list(growth([(30, 5, LONG_AGO)], 0, 15)) == [Growth(15, 30, 5)]
    assert list(growth([(30, 5, LONG_AGO)], 0, None)) == [Growth(LONG_AGO, 30, 5)]
    assert list(growth([(30, 5, None)], 0, None)) == [Growth(None, 30, 5)]
    assert list(growth([(-15, 7, LONG_AGO), (15, 9, LONG_AGO)], 0, None)) == [Growth(-15, 15, 2)]


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
    points, absent_at = list[Point](), None
    for at in world.samples:
        start = max(each for each in world.starts if each < at)
        value = sum(1 for call in world.calls if start < call <= at)
        if value:
            points.append((at, value, start + world.skew if with_start else None))
        elif not points:
            absent_at = at
    return points, absent_at


@given(worlds(), st.sampled_from(["start", ""]))
def test_a_count_is_never_more_than_what_happened(world: World, known: str) -> None:
    """Whatever restarts, samples that are missing, and clocks that are apart by a minute."""
    points, absent_at = sampled(world, with_start=bool(known))
    found = list(growth(points, world.since, absent_at))
    assert sum(one.events for one in found) <= len(world.calls)
    for one in found:
        began = LONG_AGO if one.after is None else one.after - max(0, world.skew)
        assert one.events <= sum(1 for call in world.calls if began < call <= one.at)


@given(worlds())
def test_without_restarts_and_with_a_sample_at_the_end_nothing_is_missing(world: World) -> None:
    """All that happened after the first sample is counted, however few samples there are."""
    whole = world._replace(starts=[LONG_AGO], samples=[0.0, *world.samples, 1000.0], since=0)
    points, absent_at = sampled(whole, with_start=True)
    assert sum(one.events for one in growth(points, 0, absent_at)) == len(world.calls)


@given(worlds(), st.integers(2, 60))
def test_the_last_sample_of_each_hour_proves_no_more_than_all_samples(world: World, hour: int) -> None:
    """Hours in which the broker restarts have all of theirs."""
    points, absent_at = sampled(world, with_start=True)
    restarted = {int(start // hour) for start in world.starts}
    last = {int(point[0] // hour): point for point in points}
    thinned = [point for point in points if int(point[0] // hour) in restarted or last[int(point[0] // hour)] is point]
    assert counted(thinned, world.since, absent_at) <= len(world.calls)
