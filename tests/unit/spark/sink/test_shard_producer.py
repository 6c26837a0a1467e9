"""The sink's producer, with a broker that rejects its requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError

from featuregate_spark.sink.shard_producer import ProducerFenced, ShardProducer

if TYPE_CHECKING:
    from mock_kafka import MockKafka

    from featuregate_spark.sink.shards import Shard

PRODUCE, ADD_PARTITIONS = 0, 24
BOUND = 30.0


def poll_on(producer: ShardProducer) -> None:
    until = time.monotonic() + BOUND
    while time.monotonic() < until:
        producer.poll()


def test_a_producer_that_another_attempt_fenced_says_so_where_it_polls(kafka: MockKafka, shard: Shard) -> None:
    """confluent-kafka raises the fatal error from whichever call serves its callbacks first."""
    with ShardProducer(shard) as producer:
        producer.fence_previous()
        producer.begin()
        kafka.answer(ADD_PARTITIONS, [KafkaError.INVALID_PRODUCER_EPOCH])
        producer.send([("output", b"row", None, 0)])
        with pytest.raises(ProducerFenced, match="fenced"):
            poll_on(producer)


def test_a_producer_that_is_fenced_while_it_closes_closes_quietly(kafka: MockKafka, shard: Shard) -> None:
    """The last record is still on its way, and its delivery report is called within close()."""
    with ShardProducer(shard) as producer:
        producer.fence_previous()
        producer.begin()
        kafka.answer(PRODUCE, [KafkaError.INVALID_PRODUCER_EPOCH], after_ms=300)
        producer.send([("output", b"row", None, 0)])
        kafka.wait_for(PRODUCE)
