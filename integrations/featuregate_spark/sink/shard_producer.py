"""The producer of one shard, which writes the rows of a batch in one transaction, and the clients that a worker keeps.

Every call returns within a bound. A new producer takes 60 ms to initialize its transactional id, and a new consumer
60 ms to find the coordinator of the group: more than the rest of a small batch. Spark reuses its Python workers, and a
worker that has written a shard may write it again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from featuregate.logs import get_logger
from featuregate_librdkafka.error_codes import description_of
from featuregate_librdkafka.transaction_calls import CallFailed, ConnectionWatch, TransactionalProducer, close_producer
from featuregate_spark.errors import TransactionTimedOut, WriteFailed
from featuregate_spark.sink.progress_reader import KAFKA_CLIENTS, QUICK, QUIET, Clients, ProgressReader

if TYPE_CHECKING:
    from featuregate_spark.sink.shards import Batch, Shard

_log = get_logger("featuregate.spark.sink")

_CLOSE_SECONDS: Final = 3.0
_PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - librdkafka's names begin so

ShardRecord: TypeAlias = tuple[str, bytes | None, bytes | None, int]
"""The topic of a record, its value, key and partition (-1: the client chooses one)."""
Headers: TypeAlias = "Sequence[Mapping[str, Any]] | None"


class ProducerFenced(Exception):
    """Another attempt at the shard has fenced this producer, whatever error the client reported for it."""


class ShardProducer:
    """Writes a shard, each batch in one transaction. Each call takes up to the batch's timeout."""

    def __init__(self, shard: Shard, clients: Clients = KAFKA_CLIENTS) -> None:
        self._shard = shard
        self._delivery_error: str | None = None
        self._began: float | None = None
        self.committed: int | None = None
        """The last batch of which this producer has committed the shard."""
        own = {
            "transactional.id": shard.transactional_id,
            "on_delivery": self._on_delivery,
            "delivery.report.only.error": True,
        }
        self._watch = ConnectionWatch(_log)
        self._client = clients.producer(self._watch.config({**QUIET, **QUICK, **shard.batch.producer, **own}))
        self._producer = TransactionalProducer(self._client)

    def close(self) -> None:
        """Close the producer; an open transaction is aborted. Where that fails, log it, and leave the producer."""
        try:
            close_producer(self._client, _CLOSE_SECONDS)
        except (KafkaException, TimeoutError) as error:  # it has failed, or is left behind with its threads
            _log.info("%s: its producer was not closed: %r", self._shard, error)

    def fence_previous(self) -> None:
        """Call init_transactions(): it fences the previous producer of the shard and aborts its open transaction."""
        self._connect()
        with self._failing("its transactional id could not be initialized"):
            self._producer.initialize(self._shard.batch.timeout)

    def continue_with(self, shard: Shard) -> bool:
        """Write the next batch of the same shard; return False where another producer has to.

        Its last transaction was not that of the previous batch, or may have sent a request twice: see
        :class:`~featuregate_librdkafka.transaction_calls.ConnectionWatch`.
        """
        with suppress(KafkaException):  # of a producer that has failed, as its next call says
            self._client.poll(0)
        if self._watch.doubt is not None:
            _log.info("%s: a new producer writes it: %s", shard, self._watch.doubt)
        if self.committed != shard.batch.batch_id - 1 or self._watch.doubt is not None:
            return False
        self._shard, self._delivery_error, self._began = shard, None, None
        return True

    def _connect(self) -> None:
        """Wait until a broker is connected: where none is, the client looks for the coordinator half a second later.

        A bootstrap server may answer the first request, and the client then closes that connection, because it knows
        the brokers. Where no broker answers, `init_transactions()` says so.
        """
        batch = self._shard.batch
        with suppress(KafkaException):
            for _ in ("bootstrap server", "broker"):
                self._client.list_topics(batch.topic or batch.progress_topic, batch.timeout)

    def begin(self) -> None:
        """Begin the transaction."""
        self._began = time.monotonic()
        with self._failing("its transaction could not begin"):
            self._producer.begin()

    def send(self, records: Iterable[ShardRecord]) -> None:
        """Add records to the transaction; wait while the producer's queue is full."""
        self._send(self._client.produce, records)

    def send_with_headers(self, records: Iterable[tuple[*ShardRecord, Headers]]) -> None:
        """Add records that may have headers; wait while the producer's queue is full."""

        def produce(topic: str, value: bytes | None, key: bytes | None, partition: int, headers: Headers) -> None:
            pairs = [(each["key"], each["value"]) for each in headers or ()]
            self._client.produce(topic, value, key, partition, headers=pairs)

        self._send(produce, records)

    def _send(self, produce: Callable[..., object], records: Iterable[tuple[Any, ...]]) -> None:
        for record in records:  # the tuple as it is: keywords, even none in a dict, take a fifth more
            try:
                produce(*record)
            except BufferError:
                with self._failing(f"{_named(record)} was not accepted"):
                    self._producer.send_when_room(partial(produce, *record), self._shard.batch.timeout)
            except KafkaException as failure:
                raise self._error(f"{_named(record)} was not accepted", CallFailed.of(failure)) from failure
            except (TypeError, ValueError) as error:  # a header that is null
                raise WriteFailed(f"{self._shard}: {_named(record)} was not accepted: {error}") from error

    def poll(self) -> None:
        """Poll for delivery errors without blocking."""
        with self._failing("its producer has failed"):
            self._producer.poll(0)

    def commit_progress(self, group: Any) -> None:
        """Add the shard's progress to the transaction."""
        batch = self._shard.batch
        offset = TopicPartition(batch.progress_topic, self._shard.number, batch.batch_id + 1, batch.metadata)
        with self._failing("its progress could not be sent"):
            self._producer.send_offsets([offset], lambda: group, batch.timeout)

    def commit(self) -> None:
        """Commit the transaction: when this returns, all of its rows count."""
        began = time.monotonic()
        with self._failing("its transaction could not be committed"):
            self._producer.commit(self._shard.batch.timeout)
        self._watch.took(time.monotonic() - began)
        self.committed = self._shard.batch.batch_id

    def abort(self, error: BaseException) -> BaseException:
        """Abort the transaction after an error, and return the error that names its cause, or the error itself.

        Readers then need not wait until the transaction times out. A fenced producer has no transaction to abort, and
        may learn only here that it was fenced: an earlier call failed with a fatal error that does not say so.
        """
        if not isinstance(error, ProducerFenced):
            try:
                self._producer.abort(self._shard.batch.timeout)
            except CallFailed as failed:
                if failed.is_fenced and isinstance(error, WriteFailed):
                    error = ProducerFenced(f"{error}: {failed}")
                else:
                    _log.warning(
                        "%s: the transaction was not aborted, and ends by its timeout: %s", self._shard, failed
                    )
        if isinstance(error, ProducerFenced):
            return self._timed_out(error) or error
        if self._delivery_error is not None and isinstance(error, WriteFailed):
            return WriteFailed(f"{error}; {self._delivery_error}")
        return error

    def _timed_out(self, fenced: ProducerFenced) -> TransactionTimedOut | None:
        """Return the error of a transaction that is older than its timeout, for which the coordinator fences, too."""
        limit = self._shard.batch.transaction_timeout
        seconds = 0.0 if self._began is None else time.monotonic() - self._began
        if seconds < limit:
            return None
        return TransactionTimedOut(
            f"{self._shard}: its transaction was open for {seconds:.1f} s, longer than "
            f"transaction.timeout.ms={limit * 1000:.0f}, so Kafka aborted it and fenced its producer; none of its rows "
            "count. Set a longer one in kafka_sink(producer={...}), up to the brokers' transaction.max.timeout.ms, or "
            "let a shard write less: more shards, or smaller batches (maxOffsetsPerTrigger of the source). Kafka's "
            f"error: {fenced}"
        )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Keep the first delivery error; the others follow from it, and those of purged records from the abort."""
        if error is not None and self._delivery_error is None and error.code() not in _PURGED:
            where = f"topic {message.topic()!r}, partition {message.partition()}"
            self._delivery_error = f"the first delivery error was for {where}: {description_of(error)}"

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except CallFailed as failed:
            raise self._error(what, failed) from failed.__cause__

    def _error(self, what: str, failed: CallFailed) -> Exception:
        return (ProducerFenced if failed.is_fenced else WriteFailed)(f"{self._shard}: {what}: {failed}")


def _named(record: tuple[Any, ...]) -> str:
    """Name a record in an error, without its content."""
    topic, value, key, partition = record[:4]
    where = f"topic {topic!r}" if partition == -1 else f"topic {topic!r}, partition {partition}"
    return f"a record of {len(value or b'') + len(key or b''):,} bytes for {where}"


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
