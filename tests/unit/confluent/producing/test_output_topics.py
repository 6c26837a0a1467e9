"""Whether the topics exist that an app writes to."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from featuregate_confluent.producing.output_topics import ABSENT_SECONDS, OutputTopics


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
