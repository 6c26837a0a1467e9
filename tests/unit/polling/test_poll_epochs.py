"""Epochs that are the first of a cluster, and brokers that vanish one after the other."""

import pytest
from builders import broker, view

from featuregate.budgets import MOST_NODES
from featuregate.polling.poll_state import PollState
from featuregate.view.cluster_view import View


def make() -> PollState:
    return PollState(interval=10, stale_after=30, forget_after=100)


def succeed(polls: PollState, now: float, epoch: int, before: View | None = None) -> View:
    seen = view(broker(epoch=epoch), previous=before)
    polls.succeed(before, seen, now)
    return seen


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_begins_at_zero_runs_like_any_other(epoch: int) -> None:
    """It is one from its first value on, and stands still when that is not followed by another."""
    polls = make()
    seen = succeed(polls, 0, -1)
    assert polls.health(seen, 0, troubles=())["epoch_advancing"] is None
    polls.epoch_runs = True
    seen = succeed(polls, 10, epoch, seen)
    assert polls.health(seen, 40, troubles=())["epoch_advancing"] is True
    assert polls.health(seen, 41, troubles=())["epoch_advancing"] is False


@pytest.mark.parametrize(
    ("held", "reported", "says"),
    [(0, -1, "no broker has reported finalized levels for 31 s"), (1, 0, "an epoch below 1 for 31 s (0 at the most)")],
)
def test_levels_of_the_first_epoch_grow_old(held: int, reported: int, says: str) -> None:
    polls = make()
    seen = succeed(polls, 0, held)
    seen = succeed(polls, 31, reported, seen)
    assert says in str(polls.staleness(31).levels)


def test_levels_that_no_poll_has_seen_are_not_old() -> None:
    polls = make()
    polls.epoch, polls.succeeded_at = 5, 100.0
    assert polls.staleness(100).levels is None
    polls.levels_at, polls.succeeded_at = 0.0, None
    assert polls.staleness(100).levels is None


def test_content_begins_to_move_with_the_second_view() -> None:
    """The first one has moved from nothing, and its time stays that of the begin."""
    polls = make()
    seen = succeed(polls, 5, 10)
    assert (polls.began_at, polls.moved_at) == (5, None)
    after = view(broker(epoch=11, group_version=1), previous=seen)
    polls.succeed(seen, after, 7)
    assert (polls.began_at, polls.moved_at, polls.succeeded_at) == (5, 7, 7)
    polls.succeed(after, view(broker(epoch=12, group_version=1), previous=after), 9)
    assert (polls.began_at, polls.moved_at, polls.epoch_moved_at, polls.epoch_runs) == (5, 7, 9, True)


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_of_two_that_vanished_the_later_one_is_kept_where_there_is_room_for_one(order: tuple[int, int]) -> None:
    polls, before = make(), view(broker(1), broker(2), broker(3))
    last = order[1]
    polls.vanished(before, "c", {1, last}, now=0, registered=False)
    listed = {1, *range(4, MOST_NODES + 2)}
    assert [gone.node_id for gone in polls.vanished(before, "c", listed, now=5, registered=False)] == [last]
