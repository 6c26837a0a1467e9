"""How often something may go wrong before a member gives up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from featuregate_confluent.member.failure_limits import (
    ABORTED_AT_MOST,
    LOST_AT_MOST,
    TAKEN_AT_MOST,
    TAKEN_SECONDS,
    UNRELEASED_SECONDS,
    FailureLimits,
)


def test_producers_lost_in_a_row_end_it() -> None:
    """The last one of them, and not where a commit came in between."""
    patience = FailureLimits()
    assert [patience.lost() for _ in range(LOST_AT_MOST)] == [False] * (LOST_AT_MOST - 1) + [True]
    patience = FailureLimits()
    for _ in range(3 * LOST_AT_MOST):
        assert not patience.lost()
        patience.committed()


def test_aborts_in_a_row_are_counted_anew_after_it() -> None:
    """The member joins again then, and may abort as often once more."""
    patience = FailureLimits()
    once = [False] * (ABORTED_AT_MOST - 1) + [True]
    assert [patience.aborted() for _ in range(2 * ABORTED_AT_MOST)] == once + once
    for _ in range(3 * ABORTED_AT_MOST):
        patience.committed()
        assert not patience.aborted()


def test_commits_do_not_excuse_ids_that_were_taken() -> None:
    """Two processes of one name each commit when it is their turn, and fence each other for ever."""
    patience = FailureLimits()
    answers = []
    for number in range(TAKEN_AT_MOST):
        patience.committed()
        patience.assigned()
        answers.append(patience.taken(number * 5.0))
    assert answers == [False] * (TAKEN_AT_MOST - 1) + [True]


@given(st.lists(st.floats(0.1, 1000.0), max_size=40))
def test_ids_that_were_taken_long_ago_do_not_count(gaps: list[float]) -> None:
    """It is enough where so many fell into the window that ends now, and only then."""
    patience, now, times = FailureLimits(), 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        recent = [then for then in times if now - then <= TAKEN_SECONDS]
        assert patience.taken(now) == (len(recent) >= TAKEN_AT_MOST)


def test_an_instance_id_may_be_anothers_for_a_while() -> None:
    """From the first refusal on; being assigned anything begins anew."""
    patience = FailureLimits()
    assert not patience.unreleased(1000.0)
    assert not patience.unreleased(1000.0 + UNRELEASED_SECONDS)
    assert patience.unreleased(1000.1 + UNRELEASED_SECONDS)
    patience.assigned()
    assert not patience.unreleased(2000.0)
