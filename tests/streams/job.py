"""A driver that copies a pipe by a streaming query, and causes the faults that it finds ordered.

An order is a file in a folder; the process that removes it carries it out. ``python job.py JSON`` runs the driver.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from eos.pipes import Pipe
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from featuregate_spark import FeatureSession
from featuregate_spark.sink import kafka_sink
from streams.copying import copying
from streams.sessions import local_spark

if TYPE_CHECKING:
    import pyarrow as pa

BEFORE = "driver-before"
"""The driver dies when the batch has begun, and nothing of it is written."""
AFTER = "driver-after"
"""The driver dies when the batch is written, and Spark has not noted that."""
TASK = "task"
"""A task fails half way through its rows, before the sink's own."""
STOP = "task-stops"
"""A task stands still when half of its rows are handed on for certain."""


SLOW = {"queue.buffering.max.messages": 50}
"""A task sends few rows at a time, so that its transaction is open for long enough to be harmed."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The parameters of a job."""

    bootstrap: str
    source: str
    sink: str
    partitions: int
    query: str
    checkpoint: str
    orders: str
    kind: str = "featuregate"
    """Or ``built-in``: Spark's own Kafka sink."""
    master: str = "local[2,8]"
    per_batch: int = 5000
    shards: int | None = None
    driver_rows: int = 0
    """Batches of up to so many rows are written by the driver: by default tasks write all."""
    joins: bool = False
    """Whether one task computes and writes all shards, where few cores allow that, however slow the rows are."""
    settings: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


class Orders:
    """A folder of orders."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def give(self, order: str) -> None:
        (self.folder / order).touch()

    def is_open(self, order: str) -> bool:
        return (self.folder / order).exists()

    def take(self, order: str) -> bool:
        try:
            (self.folder / order).unlink()
        except FileNotFoundError:
            return False
        return True


def die() -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    os.kill(gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def built_in(terms: Terms) -> Callable[[DataFrame, int], None]:
    """Return Spark's own Kafka sink, which sends each row at once, so that a failed task leaves rows behind."""

    def write(df: DataFrame, _batch_id: int) -> None:
        writing = df.write.format("kafka").option("kafka.bootstrap.servers", terms.bootstrap)
        writing.option("topic", terms.sink).option("kafka.batch.size", "1").option("kafka.linger.ms", "0").save()

    return write


def stumbling(orders: Orders) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that passes rows on, and fails or pauses if ordered."""

    def hand_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if half and orders.take(TASK):
                raise RuntimeError("this task was told to fail")
            quarter = half // 2
            yield batch.slice(half, quarter)  # which pushes what is before it out of this process's buffer
            if quarter and orders.take(STOP):
                os.kill(os.getpid(), signal.SIGSTOP)
            yield batch.slice(half + quarter)

    return hand_on


def harmed(write: Callable[[DataFrame, int], object], orders: Orders) -> Callable[[DataFrame, int], None]:
    def batch(df: DataFrame, batch_id: int) -> None:
        if orders.take(BEFORE):
            die()
        # Rows of one partition follow each other, as a stream's do, so that half of them is sent when the other fails.
        write(df.mapInArrow(stumbling(orders), df.schema), batch_id)
        if orders.take(AFTER):
            die()

    return batch


def run(terms: Terms, spark: SparkSession, features: FeatureSession) -> None:
    orders = Orders(terms.orders)
    if terms.joins:
        kafka_sink._CHEAP_SECONDS = inf  # type: ignore[misc]
    write: Any = built_in(terms)
    if terms.kind == "featuregate":
        write = features.kafka_sink(
            terms.query, terms.sink, shards=terms.shards, timeout=60.0, producer=SLOW, driver_rows=terms.driver_rows
        )
    pipe = Pipe({"bootstrap.servers": terms.bootstrap}, terms.query, terms.source, terms.sink, terms.partitions)
    query = copying(
        spark, pipe, Path(terms.checkpoint), harmed(write, orders), maxOffsetsPerTrigger=str(terms.per_batch)
    )
    query.trigger(processingTime="0 seconds").start().awaitTermination()


def main() -> None:
    terms = Terms.from_json(sys.argv[1])
    with local_spark(terms.master, **terms.settings) as spark, FeatureSession(spark, terms.bootstrap) as features:
        run(terms, spark, features)


if __name__ == "__main__":
    main()
