"""Commits side by side."""

import pytest

from featuregate_confluent import Aborted, MustRejoin, Pipeline, RecordRefused, SwitchFatal, TransformFailed
from featuregate_confluent.producing.transaction import Transaction

REJOIN, FATAL, FAILED = MustRejoin("fenced"), SwitchFatal("no rights"), TransformFailed("poison")
REFUSED = RecordRefused((), "too large")


class Ending:
    """A fake transaction whose commit ends as given, and which records that in a list."""

    def __init__(self, ended: list[int], number: int, failure: Exception | None) -> None:
        self.ended = ended
        self.number = number
        self.failure = failure
        self.started = False

    def start_commit(self) -> None:
        self.started = True

    def finish_commit(self) -> None:
        assert self.started
        self.ended.append(self.number)
        if self.failure is not None:
            raise self.failure


class Ends:
    """Transactions, and the order in which their commits ended."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def of(self, number: int, failure: Exception | None = None) -> Transaction:
        return Ending(self.ended, number, failure)  # type: ignore[return-value]


def test_only_so_many_are_under_way_and_none_is_left_at_the_end() -> None:
    """The pipeline waits for the oldest commit first."""
    ends = Ends()
    with Pipeline(at_once=2) as pipeline:
        for number in range(4):
            pipeline.commit(ends.of(number))
            assert ends.ended == list(range(number - 1))
    assert ends.ended == [0, 1, 2, 3]


def test_what_was_aborted_is_no_error() -> None:
    """The messages of an aborted transaction come again."""
    ends = Ends()
    with Pipeline(at_once=1) as pipeline:
        for number in range(3):
            pipeline.commit(ends.of(number, Aborted("a rebalance")))
    assert ends.ended == [0, 1, 2]


@pytest.mark.parametrize(
    ("failures", "raised"),
    [
        ([None, REJOIN, None], REJOIN),
        ([REJOIN, FATAL, MustRejoin("too")], FATAL),
        ([FATAL, REJOIN, None], FATAL),
        ([REJOIN, None, ValueError("of the app's callback")], ValueError),
        ([REJOIN, REFUSED, None], REFUSED),
        ([REFUSED, FATAL, None], FATAL),
    ],
)
def test_all_are_waited_for_and_the_gravest_error_is_raised(failures: list[Exception | None], raised: object) -> None:
    """A fatal error takes precedence over one that makes the member join again."""
    ends = Ends()

    def run() -> None:
        with Pipeline() as pipeline:
            for number, failure in enumerate(failures):
                pipeline.commit(ends.of(number, failure))

    with pytest.raises((MustRejoin, SwitchFatal, ValueError)) as caught:
        run()
    assert caught.value is raised or type(caught.value) is raised
    assert ends.ended == [0, 1, 2]


@pytest.mark.parametrize(
    ("body", "end", "raised"),
    [
        (FAILED, REJOIN, FAILED),
        (FAILED, FATAL, FAILED),
        (REJOIN, None, REJOIN),
        (REJOIN, FATAL, FATAL),
        (REFUSED, FATAL, FATAL),
    ],
)
def test_an_error_of_the_block_is_raised_once_all_have_ended(
    body: Exception, end: Exception | None, raised: Exception
) -> None:
    """The app's own error takes precedence, then a fatal error, then the need to join again."""
    ends = Ends()

    def run() -> None:
        with Pipeline() as pipeline:
            pipeline.commit(ends.of(0, end))
            raise body

    with pytest.raises(type(raised)) as caught:
        run()
    assert caught.value is raised
    assert ends.ended == [0]
