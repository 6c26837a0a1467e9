"""Small batches, which the driver writes itself: a job of Python workers takes longer than all the rest of them.

The driver writes a shard as a task does, with the same transactional id, fencing and progress. So it does not matter
who writes a shard of which batch: the driver, a task, or a driver and a task at once.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from featuregate_spark.sink.kept_clients import KeptClients
from featuregate_spark.sink.progress_reader import KAFKA_CLIENTS, Clients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Batch, Shard

if TYPE_CHECKING:
    import pyarrow as pa

    from featuregate_spark.sink.shard_attempt import CommittedShard

MOST_SHARDS: Final = 16
"""The driver writes shards side by side, each with clients of its own. Executors share more of them."""


class SmallBatchWriter:
    """Writes all shards of a batch in this process. It keeps the clients of each shard until it is closed.

    Any thread may close it, which waits for the end of a batch.
    """

    def __init__(self, clients: Clients = KAFKA_CLIENTS) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._kept: dict[int, KeptClients] = {}

    def __reduce__(self) -> tuple[type[SmallBatchWriter], tuple[Clients]]:
        """Travel without the clients of this process."""
        return SmallBatchWriter, (self._clients,)

    def write(self, rows: pa.Table, batch: Batch) -> list[CommittedShard]:
        """Write rows that have the columns of a shard task and ``shard``; return the outcome of each shard.

        Raises
        ------
        SinkError
            See :func:`featuregate_spark.sink.shard_task.write_shards`. Other shards may have committed.
        """
        numbers = range(batch.sharding.shards)

        def write(number: int, kept: KeptClients) -> CommittedShard:
            own = rows.filter(pc.equal(rows.column("shard"), number))
            return write_shards([Shard(batch, number)], iter(own.to_batches()), kept)[0]

        with self._lock, ThreadPoolExecutor(len(numbers), "featuregate-sink") as pool:
            kept = [self._kept.setdefault(number, KeptClients(self._clients)) for number in numbers]
            return list(pool.map(write, numbers, kept))

    def close(self) -> None:
        """Close all clients. They are made again when a batch needs them."""
        with self._lock:
            for kept in self._kept.values():
                kept.close()
            self._kept.clear()
