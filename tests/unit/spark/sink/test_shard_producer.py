"""The sink's producer, with a broker that rejects its requests."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from featuregate_spark import WriteFailed
from featuregate_spark.sink.shard_producer import ProducerFenced, ShardProducer
from featuregate_spark.sink.shards import Shard

if TYPE_CHECKING:
    from mock_kafka import MockKafka

PRODUCE, ADD_PARTITIONS = 0, 24
BOUND = 30.0


def poll_on(producer: ShardProducer) -> None:
    until = time.monotonic() + BOUND
    while time.monotonic() < until:
        producer.poll()


def test_a_producer_that_another_attempt_fenced_says_so_where_it_polls(kafka: MockKafka, shard: Shard) -> None:
    """confluent-kafka raises the fatal error from whichever call serves its callbacks first."""
    with closing(ShardProducer(shard)) as producer:
        producer.fence_previous()
        producer.begin()
        kafka.answer(ADD_PARTITIONS, [KafkaError.INVALID_PRODUCER_EPOCH])
        producer.send([("output", b"row", None, 0)])
        with pytest.raises(ProducerFenced, match="fenced"):
            poll_on(producer)


def test_a_producer_that_is_fenced_while_it_closes_closes_quietly(kafka: MockKafka, shard: Shard) -> None:
    """The last record is still on its way, and its delivery report is called within close()."""
    with closing(ShardProducer(shard)) as producer:
        producer.fence_previous()
        producer.begin()
        kafka.answer(PRODUCE, [KafkaError.INVALID_PRODUCER_EPOCH], after_ms=300)
        producer.send([("output", b"row", None, 0)])
        kafka.wait_for(PRODUCE)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            ("output", b"row", b"k", 99, None),
            r"a record of 4 bytes for topic 'output', partition 99 was not accepted: _UNK",
        ),
        (("output", b"row", None, -5, None), r"for topic 'output', partition -5 was not accepted: _UNKNOWN_PARTITION"),
        (
            ("output", b"r" * 2_000_000, None, 1, None),
            r"2,000,000 bytes for topic 'output', partition 1 .* MSG_SIZE_TOO",
        ),
        (("output", b"r" * 2_000_000, None, -1, None), r"2,000,000 bytes for topic 'output' was not .* MSG_SIZE_TOO"),
        (("output", b"row", None, -1, [None]), r"3 bytes for topic 'output' was not accepted: .NoneType. object"),
    ],
)
def test_a_record_that_is_refused_is_named_by_its_topic_and_partition(
    shard: Shard, record: tuple[Any, ...], said: str
) -> None:
    """The records before it are purged by the abort, which is not the cause."""
    with closing(ShardProducer(shard)) as producer:
        producer.fence_previous()
        producer.begin()
        producer.send([("output", b"row", None, 0)])
        with pytest.raises(WriteFailed, match=rf"^shard 0 of 2 of query 'output', batch 7: .*{said}") as refused:
            producer.send_with_headers([record])
        assert producer.abort(refused.value) is refused.value
