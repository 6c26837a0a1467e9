"""The Kafka clients that a worker of Spark keeps from batch to batch.

A new producer takes 60 ms to initialize its transactional id, and a new consumer 60 ms to find the coordinator of the
group: more than the rest of a small batch. Spark reuses its Python workers, and a worker that has written a shard may
write it again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from featuregate_spark.sink.progress_reader import KAFKA_CLIENTS, Clients, ProgressReader
from featuregate_spark.sink.shard_producer import ShardProducer

if TYPE_CHECKING:
    from featuregate_spark.sink.shards import Batch, Shard

_QUERIES: Final = 4
"""Queries whose clients a worker keeps: an app may run some at the same time, and others one after the other."""


class KeptClients:
    """A reader for each of the last queries, and the producers that have committed a shard of their last batches.

    One thread at a time, except for :meth:`new_producer` and :meth:`keep_producer`: a worker runs one task at a time,
    which writes its shards side by side.
    """

    def __init__(self, clients: Clients = KAFKA_CLIENTS) -> None:
        self._clients = clients
        self._queries: OrderedDict[str, _Query] = OrderedDict()

    def reader(self, batch: Batch) -> ProgressReader:
        """Return the reader of the progress of the batch's query."""
        return self._query(batch).reader

    def new_producer(self, shard: Shard) -> ShardProducer:
        """Return a producer that has not taken its transactional id yet. The caller keeps it, or closes it."""
        return ShardProducer(shard, self._clients)

    def take_producer(self, shard: Shard) -> ShardProducer | None:
        """Return the producer that has committed this shard of the previous batch; None where none here has.

        If no other producer has fenced it, no other attempt has committed anything since: the shard's progress is known
        (P7). The caller keeps the producer again, or closes it.
        """
        return self._query(shard.batch).take(shard)

    def keep_producer(self, shard: Shard, producer: ShardProducer) -> None:
        """Keep a producer that has committed the shard."""
        self._query(shard.batch).producers[shard.number] = producer

    def close(self, query: str | None = None) -> None:
        """Close the clients of a query, or of all queries. Each is made again when a task needs it."""
        for name in list(self._queries) if query is None else [query]:
            if (found := self._queries.pop(name, None)) is not None:
                found.close()

    def _query(self, batch: Batch) -> _Query:
        found = self._queries.get(batch.query)
        if found is not None and found.options != _options(batch):
            self.close(batch.query)
            found = None
        if found is None:
            found = self._queries[batch.query] = _Query(batch, self._clients)
        self._queries.move_to_end(batch.query)
        while len(self._queries) > _QUERIES:
            self.close(next(iter(self._queries)))
        return found


class _Query:
    """What a worker keeps for one query."""

    def __init__(self, batch: Batch, clients: Clients) -> None:
        self.options = _options(batch)
        self.reader = ProgressReader(batch, clients)
        self.producers: dict[int, ShardProducer] = {}

    def take(self, shard: Shard) -> ShardProducer | None:
        """Take the producer of a shard out; close those that another worker's producer must have fenced by now."""
        previous = shard.batch.batch_id - 1
        for number, producer in list(self.producers.items()):
            if producer.committed not in {previous, previous + 1}:
                self.producers.pop(number).close()
        found = self.producers.pop(shard.number, None)
        if found is not None and not found.continue_with(shard):
            found.close()
            return None
        return found

    def close(self) -> None:
        for producer in self.producers.values():
            producer.close()
        self.producers.clear()
        self.reader.close()


def _options(batch: Batch) -> tuple[Any, ...]:
    """Return what the clients of a batch were made with."""
    return batch.producer, batch.connection, batch.progress_topic, batch.sharding, batch.timeout, batch.checkpoint
