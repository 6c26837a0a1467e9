"""How often something may go wrong before a member gives up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate_confluent.member.failure_limits import (
    ABORTED_AT_MOST,
    LOST_AT_MOST,
    REPEATED,
    TAKEN_AT_MOST,
    TAKEN_SECONDS,
    UNEXPLAINED_AT_MOST,
    UNRELEASED_SECONDS,
    Failures,
)


def test_too_many_losses_in_a_row_reach_the_limit() -> None:
    """A commit resets the count."""
    failures, answers = Failures(), []
    for _ in range(LOST_AT_MOST):
        failures = failures.after_loss()
        answers.append(failures.too_many_lost)
    assert answers == [False] * (LOST_AT_MOST - 1) + [True]
    for _ in range(3 * LOST_AT_MOST):
        failures = failures.committed().after_loss()
        assert not failures.too_many_lost


def test_the_count_of_aborts_begins_anew_after_the_limit() -> None:
    """The member joins again at the limit, and may abort as often once more. A commit resets the count, too."""
    failures, answers = Failures(), []
    for _ in range(2 * ABORTED_AT_MOST):
        failures = failures.after_abort()
        answers.append(failures.too_many_aborted)
    assert answers == ([False] * (ABORTED_AT_MOST - 1) + [True]) * 2
    for _ in range(3 * ABORTED_AT_MOST):
        failures = failures.committed().after_abort()
        assert not failures.too_many_aborted


def test_commits_do_not_excuse_ids_that_were_taken() -> None:
    """Two processes with one name each commit when it is their turn, and fence each other for ever."""
    failures, answers = Failures(), []
    for number in range(TAKEN_AT_MOST):
        failures = failures.committed().assigned().after_taken(number * 5.0)
        answers.append(failures.too_many_taken)
    assert answers == [False] * (TAKEN_AT_MOST - 1) + [True]


@given(st.lists(st.floats(0.1, 1000.0), max_size=40))
def test_ids_that_were_taken_long_ago_do_not_count(gaps: list[float]) -> None:
    """The limit is reached exactly where enough of them fall into the window that ends now."""
    failures, now, times = Failures(), 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        recent = [then for then in times if now - then <= TAKEN_SECONDS]
        failures = failures.after_taken(now)
        assert failures.too_many_taken == (len(recent) >= TAKEN_AT_MOST)


def test_another_member_may_have_the_instance_id_for_a_while() -> None:
    """The time counts from the first refusal; an assignment resets it."""
    failures = Failures().unreleased(1000.0)
    assert not failures.unreleased_for_too_long(1000.0)
    failures = failures.unreleased(1000.0 + UNRELEASED_SECONDS)
    assert not failures.unreleased_for_too_long(1000.0 + UNRELEASED_SECONDS)
    assert failures.unreleased_for_too_long(1000.1 + UNRELEASED_SECONDS)
    assert not failures.assigned().unreleased(2000.0).unreleased_for_too_long(2000.0)


@pytest.mark.parametrize("kind", ["after_abort", "after_loss"])
def test_failures_that_repeat_without_a_commit_are_seen_before_any_limit_is_reached(kind: str) -> None:
    """A single one is usual: a rebalance, for example."""
    failures = Failures()
    for number in range(1, REPEATED + 1):
        failures = getattr(failures, kind)()
        assert failures.repeated is (number == REPEATED)
    assert not failures.committed().repeated


def test_errors_of_which_nothing_is_known_are_few() -> None:
    """Aborts with a known reason in between do not reset the count, and a commit does."""
    failures = Failures()
    for _ in range(UNEXPLAINED_AT_MOST):
        assert not failures.too_many_unexplained
        failures = failures.after_abort(unexplained=True).after_abort()
    assert failures.too_many_unexplained
    assert not failures.committed().too_many_unexplained
