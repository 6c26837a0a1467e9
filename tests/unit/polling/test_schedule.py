"""When to ask again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.polling.poll_state import AT_ONCE, BACKOFF_CAP, JITTER, next_delay

MIDDLE = 0.5  # the chance that jitters not at all


def test_a_quiet_cluster_is_asked_once_an_interval() -> None:
    assert next_delay(60, failures=0, rolling=False, chance=MIDDLE) == 60


@pytest.mark.parametrize(("interval", "expected"), [(60, 6), (20, 2), (5, 1), (0.5, 0.5)])
def test_a_roll_is_asked_ten_times_as_often_down_to_a_second(interval: float, expected: float) -> None:
    """An interval that is shorter than a second is no reason to hammer, and none to slow down."""
    assert next_delay(interval, failures=0, rolling=True, chance=MIDDLE) == expected


def test_failures_double_the_wait_up_to_the_interval() -> None:
    """1, 2, 4 ... seconds, and never longer than an interval of a minute."""
    waits = [next_delay(60, failures=n, rolling=True, chance=MIDDLE) for n in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_short_interval_backs_off_beyond_itself() -> None:
    """A discoverer that polls each second polls less often while the cluster is away."""
    assert next_delay(1, failures=20, rolling=False, chance=MIDDLE) == BACKOFF_CAP


def test_days_of_failures_do_not_overflow() -> None:
    """The exponent is bounded."""
    assert next_delay(60, failures=10**9, rolling=False, chance=MIDDLE) == 60


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
