"""Commits of several partitions side by side; and whether the topics exist that an app writes to."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from featuregate_confluent import Aborted, MustRejoin, Pipeline, RecordRefused, SwitchFatal, TransformFailed
from featuregate_confluent.producing.pipeline import ABSENT_SECONDS, OutputTopics
from featuregate_confluent.producing.transaction import Transaction

REJOIN, FATAL, FAILED = MustRejoin("fenced"), SwitchFatal("no rights"), TransformFailed("poison")
REFUSED, CALLBACK = RecordRefused((), "too large"), ValueError("of the app's callback")


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
    ("failures", "body", "raised"),
    [
        ([None, REJOIN, None], None, REJOIN),
        ([REJOIN, FATAL, MustRejoin("too")], None, FATAL),
        ([FATAL, REJOIN, None], None, FATAL),
        ([REJOIN, None, CALLBACK], None, CALLBACK),
        ([REJOIN, REFUSED, None], None, REFUSED),
        ([REFUSED, FATAL, None], None, FATAL),
        # the app's own error takes precedence
        ([REJOIN], FAILED, FAILED),
        ([FATAL], FAILED, FAILED),
        ([None], REJOIN, REJOIN),
        ([FATAL], REJOIN, FATAL),
        ([FATAL], REFUSED, FATAL),
    ],
)
def test_all_are_waited_for_and_the_gravest_error_is_raised(
    failures: list[Exception | None], body: Exception | None, raised: Exception
) -> None:
    """A fatal error takes precedence over one that makes the member join again, and over one of the block."""
    ends = Ends()

    def run() -> None:
        with Pipeline() as pipeline:
            for number, failure in enumerate(failures):
                pipeline.commit(ends.of(number, failure))
            if body is not None:
                raise body

    with pytest.raises(type(raised)) as caught:
        run()
    assert caught.value is raised
    assert ends.ended == list(range(len(failures)))


class Brokers:
    """Brokers with topics, as a client sees them; time passes in pauses only."""

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.error = KafkaError.UNKNOWN_TOPIC_OR_PART
        self.fails: KafkaException | None = None
        self.appears: tuple[str, int] | None = None
        self.asked: list[str] = []
        self.now = 0.0

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        self.asked.append(topic)
        if self.fails is not None:
            raise self.fails
        count = self.topics.get(topic)
        error = None if count is not None else KafkaError(self.error)
        found = type("Topic", (), {"error": error, "partitions": dict.fromkeys(range(count or 0))})
        return type("Metadata", (), {"topics": {topic: found}})

    def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.appears is not None and self.now > 1.0:
            self.topics.update([self.appears])

    @property
    def output(self) -> OutputTopics:
        return OutputTopics(lambda: self.now, self.pause)


def test_a_topic_is_asked_for_once() -> None:
    """Until something is aborted, or a partition is named that was not there."""
    brokers = Brokers(bills=2)
    output = brokers.output
    for partition in (-1, 0, 1, -1):
        output.check(brokers, "bills", partition)
    assert brokers.asked == ["bills"]
    brokers.topics["bills"] = 3
    output.check(brokers, "bills", 2)
    output.forget()
    output.check(brokers, "bills")
    assert brokers.asked == ["bills"] * 3


def test_a_partition_that_is_not_there_is_named() -> None:
    brokers = Brokers(bills=2)
    output = brokers.output
    with pytest.raises(ValueError, match="the topic 'bills' has no partition 99, but 2 from 0 on"):
        output.check(brokers, "bills", 99)
    output.check(brokers, "bills", 1)
    assert brokers.now == 0.0


def test_a_topic_that_is_not_there_is_waited_for_once() -> None:
    """A new topic takes a moment to be everywhere. Later records for the missing one do not wait."""
    brokers = Brokers()
    output = brokers.output
    with pytest.raises(ValueError, match="the topic 'nope' does not exist: create it"):
        output.check(brokers, "nope")
    assert ABSENT_SECONDS <= brokers.now < ABSENT_SECONDS + 1
    before = brokers.now
    with pytest.raises(ValueError, match="the topic 'nope' does not exist"):
        output.check(brokers, "nope")
    assert brokers.now == before
    brokers.topics["nope"] = 1
    output.check(brokers, "nope")


def test_a_topic_that_appears_in_time_is_taken() -> None:
    """Brokers that create topics by themselves do so when a producer asks."""
    brokers = Brokers()
    brokers.appears = ("bills", 1)
    brokers.output.check(brokers, "bills", 0)
    assert brokers.now < ABSENT_SECONDS


@pytest.mark.parametrize("error", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.LEADER_NOT_AVAILABLE])
def test_another_error_is_left_to_the_transaction(error: int) -> None:
    """A missing right is not a missing topic, and neither is a leader that is away."""
    brokers = Brokers()
    brokers.error = error
    brokers.output.check(brokers, "bills", 7)


def test_brokers_that_do_not_answer_say_nothing() -> None:
    """The transaction waits for them."""
    brokers = Brokers()
    brokers.fails = KafkaException(KafkaError(KafkaError._TRANSPORT))
    brokers.output.check(brokers, "bills", 7)
