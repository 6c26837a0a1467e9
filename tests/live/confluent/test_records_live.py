"""The records that a transform may return, and how they arrive."""

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from eos.processors import Running

from featuregate.testing import LocalKafka
from featuregate_confluent import Record

pytestmark = [pytest.mark.live, pytest.mark.slow]


def outputs(pipe: Pipe, count: int) -> list[tuple[Any, ...]]:
    """Read so many committed records of the sink: partition, value, key, timestamp if it was set, headers."""
    config = {**pipe.client, "group.id": "outputs", "isolation.level": "read_committed", "enable.auto.commit": False}
    with Consumer(config) as consumer:
        consumer.assign([TopicPartition(pipe.sink, each, 0) for each in range(pipe.partitions)])
        found = consumer.consume(count, BOUND)
        assert not consumer.consume(1, 0.5), "there are more"
    return [
        (each.partition(), each.value(), each.key(), each.timestamp()[1], each.headers())
        for each in sorted(found, key=lambda each: each.value() or b"")
    ]


def test_all_that_a_record_says_arrives(kafka: LocalKafka) -> None:
    """A Record and a plain tuple of the same order arrive alike."""
    pipe = Pipe.on(kafka, "records", partitions=2)
    given = [
        (pipe.sink, b"a", b"key", 1),
        (pipe.sink, "b", None, 0),
        Record(pipe.sink, b"c", "key", partition=1, timestamp=1_234, headers=[("from", b"here"), ("to", None)]),
        Record(pipe.sink, b"d", partition=0, headers={"from": "there"}),
    ]
    with Ledger(pipe) as ledger:
        ledger.feed_now(1)
        with Running(pipe, transform=lambda _messages: given):
            a, b, c, d = outputs(pipe, 4)
    assert (a[:3], b[:3], a[4], b[4]) == ((1, b"a", b"key"), (0, b"b", None), None, None)
    assert c == (1, b"c", b"key", 1_234, [("from", b"here"), ("to", None)])
    assert (d[:3], d[4]) == ((0, b"d", None), [("from", b"there")])
    assert a[3] > 1_234, "where nothing is said of it, the time is now"
