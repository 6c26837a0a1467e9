"""Batches that the driver writes itself, on a mock cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from shards import rows_of, values_in

from featuregate_spark.sink.kafka_sink import SmallBatchWriter
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shards import Batch, Shard

if TYPE_CHECKING:
    from mock_kafka import MockKafka

INIT_PRODUCER_ID, ADD_OFFSETS = 22, 25


def written(rows: int) -> CommittedShard:
    return CommittedShard(rows=rows, bytes=rows, skipped=False)


@pytest.fixture
def writer() -> Iterator[SmallBatchWriter]:
    with closing(SmallBatchWriter()) as writer:
        yield writer


def table(batch: Batch, *values: bytes) -> pa.Table:
    """Return rows of both shards in turn, in partitions of their own, as Spark gives them to the driver."""
    rows = [rows_of(Shard(batch, turn % 2), value, partition=turn % 2) for turn, value in enumerate(values)]
    return pa.Table.from_batches(rows, rows_of(Shard(batch, 0)).schema)


def values_of(batch: Batch) -> list[list[bytes]]:
    return [values_in(batch.connection, "output", partition) for partition in (0, 1)]


def test_each_shard_is_written_in_order_and_by_the_same_producer_in_the_next_batch(
    kafka: MockKafka, batch: Batch, writer: SmallBatchWriter
) -> None:
    """A shard without rows commits, too."""
    after = replace(batch, batch_id=batch.batch_id + 1)
    assert writer.write(table(batch, b"a", b"b", b"c"), batch) == [written(2), written(1)]
    kafka.wait_for(INIT_PRODUCER_ID)
    assert writer.write(table(after, b"d"), after) == [written(1), written(0)]
    assert kafka.count(INIT_PRODUCER_ID) == 0
    assert kafka.count(ADD_OFFSETS) > 0
    assert values_of(batch) == [[b"a", b"c", b"d"], [b"b"]]


def test_a_writer_that_was_closed_makes_new_clients(kafka: MockKafka, batch: Batch, writer: SmallBatchWriter) -> None:
    """A second close does nothing."""
    writer.write(table(batch, b"a"), batch)
    kafka.wait_for(INIT_PRODUCER_ID)
    writer.close()
    writer.close()
    after = replace(batch, batch_id=batch.batch_id + 1)
    writer.write(table(after, b"b"), after)
    assert kafka.count(INIT_PRODUCER_ID) > 0
    assert values_of(batch)[0] == [b"a", b"b"]
