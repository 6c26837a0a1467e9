"""One attempt at one shard of a batch: it writes the rows of the shard in one transaction, or finds them written.

The order of its steps makes the sink exactly-once. An attempt first fences the previous producer of the shard, which
aborts the transaction that an older attempt left open. It then reads the shard's progress, which nothing else can
change any more (P7). It commits the new progress in the transaction of the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from featuregate.logs import get_logger
from featuregate_spark.errors import TransactionTimedOut, WriteFailed
from featuregate_spark.sink.progress import is_committed_with
from featuregate_spark.sink.progress_reader import POLL_SECONDS, QUICK_READ_SECONDS, ProgressReader
from featuregate_spark.sink.shard_producer import KeptClients, ProducerFenced, ShardProducer

if TYPE_CHECKING:
    import pyarrow as pa

    from featuregate_spark.sink.shards import Shard

_log = get_logger("featuregate.spark.sink")


class CommittedShard(NamedTuple):
    """The outcome of an attempt: the shard has committed the batch."""

    rows: int = 0
    """Rows that this attempt has written."""
    bytes: int = 0
    """The size of their keys and values."""
    skipped: bool = True
    """Whether another attempt has committed the shard, so that this one wrote nothing."""


class ShardAttempt:
    """Call :meth:`begin`, :meth:`send` for each part of the shard's rows, :meth:`commit`, and then :meth:`outcome`.

    Where another attempt has committed the shard, or has fenced this one, the calls between do nothing. A call that
    raises has aborted the transaction; after an error elsewhere call :meth:`abort`.
    """

    def __init__(self, shard: Shard, kept: KeptClients) -> None:
        self.shard = shard
        self.written = False
        """Whether this attempt has committed the shard."""
        self._kept = kept
        self._reader = kept.reader(shard.batch)
        self._kept_producer = kept.take_producer(shard)
        self._producer: ShardProducer | None = None
        self._fenced: ProducerFenced | TransactionTimedOut | None = None
        self._rows = self._bytes = 0

    def begin(self) -> None:
        """Begin the transaction, unless another attempt has committed the shard. Raises WriteFailed, ProgressLost."""
        try:
            self._producer = self._continue() or self._start()
        except ProducerFenced as fenced:
            self._fenced = fenced

    def send(self, rows: pa.RecordBatch) -> None:
        """Add rows of this shard to the transaction. Raises WriteFailed, TransactionTimedOut."""
        if self._producer is None:
            return
        with self._aborting():
            columns = [self._topics(rows), *[_values(rows, name, None) for name in ("value", "key")]]
            records = zip(*columns, _values(rows, "partition", -1), strict=True)
            if "headers" in rows.schema.names:
                headers = rows.column("headers").to_pylist()
                self._producer.send_with_headers((*record, each) for record, each in zip(records, headers, strict=True))
            else:
                self._producer.send(records)
            self._producer.poll()
            self._rows += rows.num_rows
            self._bytes += sum(_bytes(rows.column(name)) for name in ("key", "value") if name in rows.schema.names)

    def commit(self) -> None:
        """Commit the transaction, and keep the producer for the next batch. Raises WriteFailed."""
        if self._producer is None:
            return
        with self._aborting():
            self._producer.commit()
            self.written = True
            self._kept.keep_producer(self.shard, self._producer)

    def abort(self, error: BaseException) -> None:
        """Abort the transaction if it is open, after an error elsewhere."""
        if self._producer is not None and not self.written:
            self._close(error)

    def outcome(self) -> CommittedShard:
        """Return the outcome; a fenced attempt waits for the other one, and raises if that does not commit."""
        if isinstance(self._fenced, ProducerFenced):
            self._await_commit_of_other_attempt(self._fenced)
        elif self._fenced is not None and not self._is_committed_now():
            raise self._fenced
        return CommittedShard(self._rows, self._bytes, skipped=False) if self.written else CommittedShard()

    def _topics(self, rows: pa.RecordBatch) -> list[str]:
        found = _values(rows, "topic", self.shard.batch.topic)
        if None in found or "" in found:
            raise WriteFailed(f"{self.shard}: a row has no topic, and the sink was given none")
        return found

    def _continue(self) -> ShardProducer | None:
        """Begin the transaction of the producer that this worker has kept; return None where that is not possible.

        The transaction takes the progress first. So a producer that another attempt has fenced is known before it has
        sent any row, and a new producer can send all of them.
        """
        producer, self._kept_producer = self._kept_producer, None
        if producer is not None:
            try:
                _begin(producer, self._reader)
            except (WriteFailed, ProducerFenced) as failed:
                _log.info("%s; a new producer writes it", failed)
                producer.close()
                return None
        return producer

    def _start(self) -> ShardProducer | None:
        """Begin the transaction of a new producer; return None where another attempt has committed the shard."""
        shard = self.shard
        producer = self._kept.new_producer(shard)
        try:
            producer.fence_previous()
            progress = self._reader.read_fenced([shard.number])[shard.number]
            if is_committed_with(progress, shard.batch.batch_id, shard.batch.sharding):
                producer.close()
                return None
            _begin(producer, self._reader)
        except BaseException:
            producer.close()
            raise
        return producer

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """After an error abort; raise it, or its cause, unless another attempt has fenced this one."""
        try:
            yield
        except BaseException as error:
            cause = self._close(error)
            if isinstance(cause, ProducerFenced | TransactionTimedOut):
                self._fenced = cause
            elif cause is error:
                raise
            else:
                raise cause from error

    def _close(self, error: BaseException) -> BaseException:
        assert self._producer is not None
        producer, self._producer = self._producer, None
        cause = producer.abort(error)
        producer.close()
        return cause

    def _await_commit_of_other_attempt(self, fenced: ProducerFenced) -> None:
        """Wait for the attempt that fenced this one: if this failed, Spark would start a third, which fences that."""
        deadline = time.monotonic() + self.shard.batch.timeout
        while not self._is_committed_now():
            if time.monotonic() > deadline:
                raise WriteFailed(
                    f"{fenced}, and the other attempt has not committed within {self.shard.batch.timeout:g} s"
                ) from fenced
            time.sleep(POLL_SECONDS)

    def _is_committed_now(self) -> bool:
        """Return whether the shard has committed the batch; False where the progress cannot be read now."""
        shard = self.shard
        try:
            found = self._reader.read([shard.number], QUICK_READ_SECONDS)
        except WriteFailed as unread:
            _log.info("%s", unread)  # an open transaction holds the progress, or the coordinator moves
            return False
        return is_committed_with(found[shard.number], shard.batch.batch_id, shard.batch.sharding)


def _begin(producer: ShardProducer, reader: ProgressReader) -> None:
    producer.begin()
    producer.commit_progress(reader.group)


def _values(rows: pa.RecordBatch, name: str, default: Any) -> list[Any]:
    """Return the values of a column, with a default for nulls, also of one that does not exist."""
    if name not in rows.schema.names:
        return [default] * rows.num_rows
    column = rows.column(name)
    values: list[Any] = (column if default is None else column.fill_null(default)).to_pylist()
    return values


def _bytes(column: Any) -> int:
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)
