"""How the sink decides to write a batch, without Spark."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark import cloudpickle
from shards import batch_on, commit_progress

from featuregate_spark import ProgressLost
from featuregate_spark.events import BatchWritten
from featuregate_spark.sink.job import join_partitions, shuffle_to_shards
from featuregate_spark.sink.kafka_sink import STABLE_OFFSETS_GATE, ZSTD_GATE, KafkaSink, lead_of
from featuregate_spark.sink.options import SinkOptions
from featuregate_spark.sink.shards import Shard, Sharding

if TYPE_CHECKING:
    from mock_kafka import MockKafka

    from featuregate_spark.sink.job import Lead
    from featuregate_spark.watch import Watch

OFFSET_FETCH = 9


class FakeWatch:
    """Shows gates, open or closed."""

    def __init__(self, **gates: bool) -> None:
        self.gates = gates

    def observe(self) -> SimpleNamespace:
        return SimpleNamespace(gates=[SimpleNamespace(name=name, open=is_open) for name, is_open in self.gates.items()])


def sink_on(kafka: MockKafka, *, stable_offsets: bool = True, zstd: bool = False, first_batch: int = 0) -> KafkaSink:
    options = SinkOptions(
        query_name="output",
        topic="output",
        progress_topic=None,
        producer={"bootstrap.servers": kafka.bootstrap},
        shards=None,
        shard_by=(),
        first_batch=first_batch,
        timeout=30.0,
        driver_rows=1000,
    )
    watch = cast("Watch", FakeWatch(**{STABLE_OFFSETS_GATE: stable_offsets, ZSTD_GATE: zstd}))
    return KafkaSink(cast("Any", None), options, watch=watch, emit=lambda _: None)


def test_a_first_batch_has_a_shard_for_each_core(kafka: MockKafka) -> None:
    """There are no more shards than partitions of the topic."""
    assert sink_on(kafka).batch(0, cores=3).sharding == Sharding(3)
    assert sink_on(kafka).batch(0, cores=9).sharding == Sharding(4)


def test_a_batch_follows_the_gates_of_now(kafka: MockKafka) -> None:
    """The gates are those of the session."""
    batch = sink_on(kafka, stable_offsets=False, zstd=True).batch(0, cores=1)
    assert (batch.stable_offsets, batch.producer["compression.type"]) == (False, "zstd")


def test_a_batch_that_has_begun_keeps_its_sharding_in_another_process(kafka: MockKafka) -> None:
    """Its rows go to the shards of the first run (P8)."""
    begun = sink_on(kafka).batch(0, cores=3)
    commit_progress(Shard(begun, 2), 1)
    assert sink_on(kafka).batch(0, cores=1).sharding == Sharding(3)


def test_a_later_batch_without_progress_is_refused(kafka: MockKafka) -> None:
    """The offsets may have expired; the user says whether the sink is new to the query."""
    with pytest.raises(ProgressLost, match="pass first_batch=5"):
        sink_on(kafka).batch(5, cores=1)
    assert sink_on(kafka, first_batch=5).batch(5, cores=1).batch_id == 5


def written_in(seconds: float) -> BatchWritten:
    return BatchWritten(query="output", batch_id=6, rows=9, bytes=9, shards=1, skipped=0, seconds=seconds)


@pytest.mark.parametrize(
    ("cores", "shards", "seconds", "lead"),
    [
        (1, 1, 14.0, join_partitions),
        (1, 1, 16.0, shuffle_to_shards),
        (1, 1, None, shuffle_to_shards),
        (2, 1, 1.0, shuffle_to_shards),
        (1, 2, 1.0, shuffle_to_shards),
    ],
    ids=["one task", "slow rows", "first batch", "two cores", "two shards"],
)
def test_one_task_computes_and_writes_the_rows_where_that_is_quick(
    cores: int, shards: int, seconds: float | None, lead: Lead
) -> None:
    """The transaction times out after 60 s, also while it waits for rows."""
    batch = batch_on({}, sharding=Sharding(shards))
    last = None if seconds is None else written_in(seconds)
    assert lead_of(batch, cores, last) is lead


def test_a_sink_travels_without_the_state_of_its_process(kafka: MockKafka) -> None:
    """On Spark Connect another process writes the batches. Spark pickles the sink with cloudpickle."""
    sink = sink_on(kafka)
    batch = sink.batch(0, cores=3)
    assert sink.__getstate__()["_partitions"] is None
    sent = pickle.loads(cloudpickle.dumps(sink))
    assert repr(sent) == repr(sink) == "<KafkaSink 'output' to output>"
    assert sent.batch(0, cores=3) == batch == pickle.loads(cloudpickle.dumps(batch))
