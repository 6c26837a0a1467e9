"""Batches, rows and progress of the Spark sink, for tests of its shards without Spark."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from featuregate_spark.sink.progress_reader import KAFKA_CLIENTS, Clients
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Batch, Shard, Sharding

BOUND = 30.0
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COLUMNS = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "headers": HEADERS}


def batch_on(connection: Mapping[str, Any], query: str = "output", batch_id: int = 7, **more: Any) -> Batch:
    known: dict[str, Any] = {
        "query": query,
        "batch_id": batch_id,
        "sharding": Sharding(2),
        "progress_topic": query,
        "topic": query,
        "producer": {**connection, "linger.ms": 0},
        "connection": dict(connection),
        "stable_offsets": True,
        "timeout": BOUND,
    }
    return Batch(**{**known, **more})


def rows_of(shard: Shard, *values: bytes, partition: int | None = 0) -> pa.RecordBatch:
    return records_of(shard, *({"value": value, "partition": partition} for value in values))


def records_of(shard: Shard, *records: Mapping[str, Any]) -> pa.RecordBatch:
    columns = {name: pa.array([record.get(name) for record in records], kind) for name, kind in COLUMNS.items()}
    return pa.RecordBatch.from_pydict({"shard": pa.array([shard.number] * len(records), pa.int32()), **columns})


def write(shard: Shard, rows: Iterable[pa.RecordBatch], clients: Clients = KAFKA_CLIENTS) -> CommittedShard:
    with closing(KeptClients(clients)) as kept:
        return write_shards([shard], iter(rows), kept)[0]


def commit_progress(shard: Shard, next_batch: int, metadata: str | None = None) -> None:
    """Commit the progress of a shard, as another attempt does, but without a transaction."""
    batch = shard.batch
    offset = TopicPartition(
        batch.progress_topic, shard.number, next_batch, batch.metadata if metadata is None else metadata
    )
    with Consumer({**batch.connection, "group.id": batch.query, "enable.auto.commit": False}) as consumer:
        consumer.commit(offsets=[offset], asynchronous=False)


def values_in(connection: Mapping[str, Any], topic: str, partition: int = 0) -> list[bytes]:
    config = {"group.id": "values", "isolation.level": "read_committed", "enable.partition.eof": True}
    found: list[bytes] = []
    with Consumer({**connection, **config, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            (message,) = consumer.consume(1, BOUND)
            if message.error() is not None:
                return found
            found.append(message.value() or b"")


class FakeConsumer:
    def __init__(self, _config: dict[str, Any]) -> None:
        pass

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002 - Kafka's
        return wanted

    def consumer_group_metadata(self) -> None:
        pass

    def poll(self, _timeout: float) -> None:
        pass

    def close(self) -> None:
        pass


class FakeProducer:
    def __init__(self, _config: dict[str, Any]) -> None:
        self.queue: list[str] = []

    def __len__(self) -> int:
        return len(self.queue)

    def produce(self, topic: str, *_: object) -> None:
        self.queue.append(topic)

    def poll(self, _timeout: float) -> None:
        self.queue.clear()

    def accept(self, *_: object) -> None:
        pass

    init_transactions = begin_transaction = send_offsets_to_transaction = commit_transaction = accept
    abort_transaction = flush = close = list_topics = accept
