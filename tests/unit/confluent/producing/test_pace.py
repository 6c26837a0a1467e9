"""How many messages a round may have, decided from measured seconds."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from featuregate_confluent.producing.pace import FASTER, MARGIN, TRY_LATE, Pace

LIMIT = 10.0
BUDGET = LIMIT / MARGIN
MOST = 500
ROUNDS_AT_MOST = 1000


def at(seconds: float) -> Pace:
    pace = Pace(BUDGET, LIMIT)
    for _ in range(20):
        pace.measured(pace.size(), pace.size() * seconds)
    return pace


def test_the_first_round_has_one_message_and_the_next_ones_grow_eightfold() -> None:
    """The pace is unknown at first; a fast transform has its full batch in the fourth round."""
    pace, sizes = Pace(BUDGET, LIMIT), []
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
    slower=st.floats(1.0, 10.0),
    filled=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=60),
    each=st.floats(1e-6, BUDGET / 2),
)
def test_a_round_ends_within_half_of_the_limit_where_messages_become_tenfold_slower_at_most(
    slower: float, filled: list[float], each: float
) -> None:
    """Rounds may be full or not. The first messages of a member are tried where nothing is known."""
    pace = Pace(BUDGET, LIMIT)
    for part in filled:
        messages = max(1, int(min(MOST, pace.size()) * part))
        pace.measured(messages, messages * each)
    messages = min(MOST, pace.size())
    assert messages <= 2 or messages * each * slower <= LIMIT / 2 * (1 + 1e-6)


class World:
    """Rounds that take some fixed seconds and seconds for each message, on a producer with a quota or without.

    A quota (messages a second) is a bucket as brokers have it: what was not used in the last ten seconds may be sent at
    once, and what exceeds it waits.
    """

    def __init__(self, fixed: float, each: float, quota: float | None, limit: float) -> None:
        self.fixed, self.each, self.quota, self.limit = fixed, each, quota, limit
        self.pace = Pace(limit / MARGIN, limit)
        self.now, self.left = 0.0, 10.0
        self.done = 0
        self.lost: list[float] = []

    def round(self) -> None:
        messages = min(MOST, self.pace.size())
        seconds = self.fixed + self.each * messages
        if self.quota:
            needed = messages / self.quota
            seconds = max(seconds, needed - self.left)
            self.left = min(10.0, self.left + seconds - needed)
        self.now += min(seconds, self.limit)
        if seconds > self.limit:
            self.pace.lost(messages, self.limit)
            self.lost.append(self.now)
        else:
            self.pace.measured(messages, seconds)
            self.done += messages

    def run(self, seconds: float) -> float:
        began, before = self.now, self.done
        for _ in range(ROUNDS_AT_MOST):
            self.round()
            if self.now >= began + seconds:
                break
        return (self.done - before) / (self.now - began)

    @property
    def best(self) -> float:
        sizes = [
            (size, max(self.fixed + self.each * size, size / (self.quota or float("inf"))))
            for size in range(1, MOST + 1)
        ]
        return max((size / seconds for size, seconds in sizes if seconds <= self.limit), default=0.0)


WORLDS = pytest.mark.parametrize(
    ("fixed", "each", "quota"),
    [
        (0.0, 1e-5, None),
        (0.0, 0.025, None),
        (0.0, 1.0, None),
        (0.3, 0.002, None),
        (0.315, 0.0019, None),
        (2.0, 0.001, None),
        (2.0, 0.1, None),
        (3.0, 0.0, None),
        (3.0, 0.015, None),
        (5.0, 0.01, None),
        (0.02, 1e-4, 37.5),
        (0.02, 1e-4, 7.5),
        (0.02, 1e-4, 1.0),
        (1.0, 0.01, 7.5),
        (5.0, 0.002, 1.75),
    ],
)


@WORLDS
def test_the_throughput_is_near_that_of_the_best_size(fixed: float, each: float, quota: float | None) -> None:
    """Fixed seconds are shared by many messages, and a quota is used up; few rounds are lost for that."""
    world = World(fixed, each, quota, LIMIT)
    world.run(300)
    assert world.run(600) >= 0.65 * world.best
    assert len(world.lost) <= 4
    assert not world.lost or world.lost[-1] < 600


@settings(max_examples=50)
@given(
    fixed=st.one_of(st.just(0.0), st.floats(0.0, 6.0)),
    each=st.floats(1e-5, 1.0),
    quota=st.one_of(st.none(), st.floats(0.2, 1000.0)),
)
def test_whatever_rounds_cost_messages_are_done_and_rounds_are_not_lost_for_ever(
    fixed: float, each: float, quota: float | None
) -> None:
    """In each world in which one message fits, nearly half of what is possible is done."""
    world = World(fixed, each, quota, LIMIT)
    world.run(600)
    before = len(world.lost)
    assert world.run(1200) >= 0.45 * world.best
    assert len(world.lost) - before <= 3


def test_a_size_that_was_lost_is_a_ceiling_that_rises_slowly() -> None:
    """Fast rounds follow, because the quota has credit again: they do not lead to the same size at once."""
    pace = at(0.0001)
    pace.lost(500, LIMIT)
    sizes = []
    for _ in range(40):
        sizes.append(pace.size())
        pace.measured(sizes[-1], sizes[-1] * 0.0001)
    assert sizes[:4] == [25, 200, 250, 265]
    assert sizes == sorted(sizes)
    assert max(sizes[:12]) < 500 <= sizes[-1]


def test_a_record_that_is_never_delivered_is_alone_after_two_more_rounds() -> None:
    """Each attempt takes as long as the limit: a round is not halved nine times."""
    pace, sizes = at(0.0001), []
    for _ in range(4):
        sizes.append(min(MOST, pace.size()))
        pace.lost(sizes[-1], LIMIT)
    assert sizes == [500, 25, 1, 1]


def test_a_larger_size_that_might_not_end_in_time_is_tried_late() -> None:
    """Six of ten seconds may be fixed, or those of one message."""
    pace, sizes = Pace(BUDGET, LIMIT), []
    for _ in range(TRY_LATE + 2):
        sizes.append(pace.size())
        pace.measured(sizes[-1], 6.0)
    assert sizes == [1] * TRY_LATE + [2, 4]
    pace = Pace(BUDGET, LIMIT)
    for _ in range(3 * TRY_LATE):
        size = pace.size()
        (pace.measured if size == 1 else pace.lost)(size, 6.0 * size)
    assert pace.size() == 1


@example([(False, 0.0), (False, 1.5), (False, 0.0)])
@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 1000.0)), max_size=60))
def test_a_round_has_at_least_one_message_whatever_was_measured(rounds: list[tuple[bool, float]]) -> None:
    """After a loss it has at most half of the messages."""
    pace = Pace(BUDGET, LIMIT)
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
