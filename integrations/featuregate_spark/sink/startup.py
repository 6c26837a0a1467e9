"""Who may write a batch: one sink of this process under a query name, and no older attempt of the query.

Rows of a second sink under the name would pass for written ones. Before the first batch that it runs, a driver makes
sure that no older attempt can still commit.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.logs import get_logger
from featuregate_spark.errors import WriteFailed, WrittenBefore
from featuregate_spark.sink.progress import PreviousBatchIncomplete, ShardProgress, sharding_of_batch
from featuregate_spark.sink.progress_reader import POLL_SECONDS, QUICK_READ_SECONDS, ProgressReader, ProgressUnavailable
from featuregate_spark.sink.shard_producer import ProducerFenced, ShardProducer
from featuregate_spark.sink.shards import Batch, Shard, Sharding

if TYPE_CHECKING:
    from featuregate_spark.sink.plans import Run

_log = get_logger("featuregate.spark.sink")

_FENCED_AT_ONCE: Final = 8
_VISIBLE_SECONDS: Final = 15.0
"""Seconds for which a batch may look incomplete: brokers finish a transaction after they have answered its commit."""


def sharding_at_start(batch: Batch, partitions: int, first_batch: int) -> Sharding:
    """Return the sharding of a batch that this driver has not seen begin: that of its first run, if there was one."""
    deadline = time.monotonic() + _VISIBLE_SECONDS
    while True:
        progress = progress_at_start(batch, range(partitions))
        try:
            return sharding_of_batch(progress, batch.batch_id, batch.sharding, first_batch)
        except PreviousBatchIncomplete:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


def progress_at_start(batch: Batch, shards: Iterable[int]) -> dict[int, ShardProgress | None]:
    """Read the progress of shards so that it is certain whether the batch has begun, and in which sharding (P8).

    Where the sharding changes, or an open transaction holds the progress, the previous producers of all shards are
    fenced, which aborts their transactions. Raises WriteFailed, ProgressLost.
    """
    wanted = list(shards)
    with closing(ProgressReader(batch)) as reader:
        found = _progress_without_fencing(batch, wanted, reader)
        if found is None or any(_has_other_sharding(progress, batch) for progress in found.values()):
            with ThreadPoolExecutor(_FENCED_AT_ONCE, "featuregate-fencing") as pool:
                list(pool.map(partial(_fence, batch), wanted))
            found = reader.read_fenced(wanted)
        return found


def _has_other_sharding(progress: ShardProgress | None, batch: Batch) -> bool:
    return progress is not None and progress.next_batch >= batch.batch_id and progress.sharding != batch.sharding


def _progress_without_fencing(
    batch: Batch, shards: Sequence[int], reader: ProgressReader
) -> dict[int, ShardProgress | None] | None:
    """Read the progress; None where a transaction holds it, or where brokers do not say whether one does."""
    if not batch.stable_offsets:
        return None
    try:
        return reader.read(shards, QUICK_READ_SECONDS)
    except ProgressUnavailable as held:
        _log.info("%s; the producers of older attempts are fenced", held)
        return None


def _fence(batch: Batch, number: int) -> None:
    """Fence the previous producer of a shard, which aborts its open transaction."""
    try:
        with closing(ShardProducer(Shard(batch, number))) as producer:
            producer.fence_previous()
    except ProducerFenced as fenced:
        raise WriteFailed(f"{fenced}: another driver runs this query") from fenced


class QueryName(NamedTuple):
    """The name of a query at one cluster."""

    query: str
    cluster: str


class SinkCall(NamedTuple):
    """The call of a sink for a batch."""

    sink: weakref.ref[object]
    run: Run
    batch_id: int
    ended: bool | None = None
    """Whether the call has written the batch; None while it writes."""

    def hinders(self, other: SinkCall) -> bool:
        """Return whether a call of another sink may have other rows of the same batch.

        In a run of a query a batch comes once. Elsewhere it may be a replay, unless the first sink is still in use.
        """
        if self.run.id and other.run.id and self.run.id != other.run.id:
            return self.ended is None and self.run.checkpoint != other.run.checkpoint
        if self.batch_id != other.batch_id:
            return self.ended is None
        if self.run.id and self.run.id == other.run.id:
            return True
        return self.sink() is not None and self.ended is not False


class Writers:
    """The last call for each name. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[QueryName, SinkCall] = {}

    @contextmanager
    def writing(self, name: QueryName, sink: object, run: Run, batch_id: int) -> Iterator[None]:
        """Write a batch under a name. Raises WrittenBefore."""
        writer = SinkCall(weakref.ref(sink), run, batch_id)
        with self._lock:
            last = self._last.get(name)
            if last is not None and last.sink() is not sink and last.hinders(writer):
                raise WrittenBefore(
                    f"another sink of query {name.query!r} in this driver has begun batch {last.batch_id}, and Kafka "
                    "could not tell its rows from these. Give each sink its own query_name, or give one sink the rows "
                    "of both in one DataFrame (df.unionByName)"
                )
            self._last[name] = writer
        ended = False
        try:
            yield
            ended = True
        finally:
            with self._lock:
                if self._last.get(name) is writer:
                    self._last[name] = writer._replace(ended=ended)

    def forget(self, sink: object) -> None:
        """Forget the finished calls of a sink that is not in use any more; those of a run stay until it has ended."""
        with self._lock:
            for name, last in list(self._last.items()):
                if last.sink() is sink and last.ended is not None and not last.run.id:
                    del self._last[name]


WRITERS: Final = Writers()
"""Those of this process."""
