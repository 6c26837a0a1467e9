"""A mock cluster with a topic, and a batch that is written to it."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from mock_kafka import MockKafka
from shards import batch_on

from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shards import Batch, Shard


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        kafka.create_topic("output", partitions=4)
        yield kafka


@pytest.fixture
def batch(kafka: MockKafka) -> Batch:
    return batch_on({"bootstrap.servers": kafka.bootstrap})


@pytest.fixture
def kept() -> Iterator[KeptClients]:
    with closing(KeptClients()) as kept:
        yield kept


@pytest.fixture
def shard(batch: Batch) -> Shard:
    return Shard(batch, 0)
