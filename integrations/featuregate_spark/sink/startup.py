"""What a driver does before the first batch that it runs: it makes sure that no older attempt can still commit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Final

from featuregate.logs import get_logger
from featuregate_spark.errors import WriteFailed
from featuregate_spark.sink.progress import PreviousBatchIncomplete, ShardProgress, sharding_of_batch
from featuregate_spark.sink.progress_reader import (
    KAFKA_CLIENTS,
    POLL_SECONDS,
    QUICK_READ_SECONDS,
    Clients,
    ProgressReader,
    ProgressUnavailable,
)
from featuregate_spark.sink.shard_producer import ProducerFenced, ShardProducer
from featuregate_spark.sink.shards import Batch, Shard, Sharding

_log = get_logger("featuregate.spark.sink")

_FENCED_AT_ONCE: Final = 8
_VISIBLE_SECONDS: Final = 15.0
"""Seconds for which a batch may look incomplete: brokers finish a transaction after they have answered its commit."""


def sharding_at_start(batch: Batch, partitions: int, first_batch: int, clients: Clients = KAFKA_CLIENTS) -> Sharding:
    """Return the sharding of a batch that this driver has not seen begin: that of its first run, if there was one."""
    deadline = time.monotonic() + _VISIBLE_SECONDS
    while True:
        progress = progress_at_start(batch, range(partitions), clients)
        try:
            return sharding_of_batch(progress, batch.batch_id, batch.sharding, first_batch)
        except PreviousBatchIncomplete:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


def progress_at_start(
    batch: Batch, shards: Iterable[int], clients: Clients = KAFKA_CLIENTS
) -> dict[int, ShardProgress | None]:
    """Read the progress of shards so that it is certain whether the batch has begun, and in which sharding (P8).

    Where the sharding changes, or an open transaction holds the progress, the previous producers of all shards are
    fenced, which aborts their transactions. Raises WriteFailed, ProgressLost.
    """
    wanted = list(shards)
    with closing(ProgressReader(batch, clients)) as reader:
        found = _progress_without_fencing(batch, wanted, reader)
        if found is None or any(_has_other_sharding(progress, batch) for progress in found.values()):
            with ThreadPoolExecutor(_FENCED_AT_ONCE, "featuregate-fencing") as pool:
                list(pool.map(partial(_fence, batch, clients), wanted))
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


def _fence(batch: Batch, clients: Clients, number: int) -> None:
    """Fence the previous producer of a shard, which aborts its open transaction."""
    try:
        with closing(ShardProducer(Shard(batch, number), clients)) as producer:
            producer.fence_previous()
    except ProducerFenced as fenced:
        raise WriteFailed(f"{fenced}: another driver runs this query") from fenced
