"""How many messages a round may have, decided from measured seconds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate_confluent.producing.pace import FASTER, MARGIN, Pace

LIMIT = 10.0
BUDGET = LIMIT / MARGIN
MOST = 500


def at(seconds: float) -> Pace:
    """Return a pace that has measured so many seconds for a message."""
    pace = Pace(BUDGET)
    for _ in range(20):
        pace.measured(pace.size(), pace.size() * seconds)
    return pace


def test_the_first_round_has_one_message_and_the_next_ones_grow_eightfold() -> None:
    """The pace is unknown at first; a fast transform has its full batch in the fourth round."""
    pace, sizes = Pace(BUDGET), []
    for _ in range(4):
        sizes.append(min(MOST, pace.size()))
        pace.measured(sizes[-1], sizes[-1] * 10e-6)
    assert sizes == [1, FASTER, FASTER**2, MOST]


@pytest.mark.parametrize(("seconds", "size"), [(0.025, 20), (0.001, 500), (0.5, 1), (7.0, 1)])
def test_the_size_settles_at_what_the_budget_holds(seconds: float, size: int) -> None:
    """A round takes a twentieth of the limit; at least one message is tried."""
    assert at(seconds).size() == size


def test_a_slower_round_counts_at_once_and_a_faster_one_eightfold_at_most() -> None:
    """The pace changes by ten, up and down."""
    pace = at(0.001)
    pace.measured(500, 500 * 0.010)
    assert pace.size() == 50
    pace.measured(50, 50 * 0.001)
    assert pace.size() == 400
    pace.measured(400, 400 * 0.001)
    assert pace.size() == 500


def test_a_round_of_few_messages_makes_the_next_one_little_larger() -> None:
    """One fast message says little about the other forty."""
    pace = at(0.0125)
    assert pace.size() == 40
    pace.measured(1, 1e-6)
    assert pace.size() == 47


def test_what_was_lost_comes_in_halves_down_to_one_message() -> None:
    """The round is halved even where the measured seconds do not explain the loss."""
    pace, sizes = at(0.0001), []
    pace.lost(500, 0.05)
    for _ in range(9):
        sizes.append(pace.size())
        pace.lost(sizes[-1], 0.0001)
    assert sizes == [250, 125, 62, 31, 15, 7, 3, 1, 1]


@given(
    paces=st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.01, 1.0)), min_size=1, max_size=60),
    first=st.floats(1e-6, BUDGET),
)
def test_a_round_ends_within_half_of_the_limit_while_the_pace_changes_tenfold_at_most(
    paces: list[tuple[float, float]], first: float
) -> None:
    """The pace changes up to tenfold from round to round, and rounds may be full or not."""
    pace = Pace(BUDGET)
    pace.measured(1, first)
    seconds = first
    for factor, filled in paces:
        size = min(MOST, pace.size())
        messages = max(1, int(size * filled))
        seconds *= factor
        assert messages == 1 or messages * seconds <= LIMIT / 2 * (1 + 1e-6)
        pace.measured(messages, messages * seconds)


@example([(False, 0.0), (False, 1.5), (False, 0.0)])
@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 1000.0)), max_size=60))
def test_a_round_has_at_least_one_message_whatever_was_measured(rounds: list[tuple[bool, float]]) -> None:
    """After a loss it has at most half of the messages."""
    pace = Pace(BUDGET)
    for lost, seconds in rounds:
        size = pace.size()
        assert 1 <= size <= 1_000_000
        (pace.lost if lost else pace.measured)(size, seconds)
        assert pace.size() <= (max(1, size // 2) if lost else size * FASTER)


def test_a_transform_that_becomes_fast_again_has_whole_batches_within_few_rounds() -> None:
    """From one message in a round to 500 of them: four more rounds for each thousandfold."""
    pace, rounds = at(7.0), 0
    while pace.size() < MOST and rounds < 6:
        pace.measured(pace.size(), pace.size() * 0.0005)
        rounds += 1
    assert rounds <= 5
