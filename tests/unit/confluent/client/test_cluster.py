"""Which cluster a consumer is connected to, by its own metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from featuregate_confluent.client.pending import GroupUnreadable, read_cluster_id

if TYPE_CHECKING:
    from mock_kafka import MockKafka


class Scripted:
    """A consumer that gives these answers in turn, and records what it was asked for."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[str | None] = []

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> object:
        assert timeout > 0
        self.asked.append(topic)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def read(consumer: Any, *topics: str, timeout: float = 5.0) -> str | None:
    return read_cluster_id(consumer, topics, timeout)


@pytest.mark.parametrize("topic", ["orders", "^orders.*"])
def test_a_consumer_knows_the_id_of_its_cluster(kafka: MockKafka, topic: str) -> None:
    kafka.create_topic("orders")
    with Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g", "log_level": 0}) as consumer:
        assert read(consumer, topic) == kafka.cluster_id


def test_one_topic_is_asked_for_where_one_has_a_name() -> None:
    """The metadata of all topics of a large cluster are megabytes."""
    consumer = Scripted(*[SimpleNamespace(cluster_id=None)] * 2)
    assert (read(consumer, "^a", "b"), read(consumer, "^a")) == (None, None)
    assert consumer.asked == ["b", None]


def test_a_broker_that_goes_away_is_asked_again() -> None:
    """The next attempt may reach another broker."""
    lost = KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert read(Scripted(lost, SimpleNamespace(cluster_id="c")), "t") == "c"


def test_a_cluster_that_does_not_answer_is_not_known() -> None:
    refused = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(GroupUnreadable, match="cluster id: TOPIC_AUTHORIZATION_FAILED"):
        read(Scripted(refused), "t")
