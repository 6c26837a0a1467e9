"""How the sink decides to write a batch, without Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest
from pyspark import cloudpickle
from shards import batch_on, commit_progress

from featuregate_spark import ProgressLost, TransactionTimedOut, WrittenBefore
from featuregate_spark.events import BatchWritten
from featuregate_spark.sink import kafka_sink
from featuregate_spark.sink.job import Tasks
from featuregate_spark.sink.kafka_sink import STABLE_OFFSETS_GATE, ZSTD_GATE, KafkaSink, Run, tasks_of
from featuregate_spark.sink.options import SinkOptions
from featuregate_spark.sink.progress_reader import Topic
from featuregate_spark.sink.shards import Shard, Sharding
from featuregate_spark.watch import Watch

if TYPE_CHECKING:
    from mock_kafka import MockKafka

OFFSET_FETCH = 9


class FakeWatch:
    """Shows gates: open, closed, or held open by a latch."""

    def __init__(self, **gates: bool | Literal["held"]) -> None:
        self.gates = gates

    def observe(self) -> tuple[None, list[SimpleNamespace]]:
        decisions = {
            name: SimpleNamespace(open=bool(said), verdict="open" if said is True else "closed")
            for name, said in self.gates.items()
        }
        return None, [SimpleNamespace(name=name, decision=made) for name, made in decisions.items()]


def sink_on(
    kafka: MockKafka,
    *,
    stable_offsets: bool | Literal["held"] = True,
    zstd: bool | Literal["held"] = False,
    first_batch: int = 0,
    driver_rows: int = 1000,
) -> KafkaSink:
    options = SinkOptions(
        query_name="output",
        topic="output",
        progress_topic=None,
        producer={"bootstrap.servers": kafka.bootstrap},
        shards=None,
        shard_by=(),
        first_batch=first_batch,
        timeout=30.0,
        driver_rows=driver_rows,
    )
    watch = cast("Watch", FakeWatch(**{STABLE_OFFSETS_GATE: stable_offsets, ZSTD_GATE: zstd}))
    return KafkaSink(cast("Any", object()), options, watch=watch, emit=lambda _: None)


def test_a_first_batch_has_a_shard_for_each_core(kafka: MockKafka) -> None:
    """There are no more shards than partitions of the topic."""
    assert sink_on(kafka).batch(0, cores=3).sharding == Sharding(3)
    assert sink_on(kafka).batch(0, cores=9).sharding == Sharding(4)


@pytest.mark.parametrize(
    "opened", [{"stable_offsets": False, "zstd": True}, {"stable_offsets": "held", "zstd": "held"}]
)
def test_a_batch_follows_the_gates_of_now(kafka: MockKafka, opened: dict[str, Any]) -> None:
    """A latch counts for zstd, but makes no broker hold offsets back: one that went back below 2.5 shows them late."""
    batch = sink_on(kafka, **opened).batch(0, cores=1)
    assert (batch.stable_offsets, batch.producer["compression.type"]) == (False, "zstd")


def test_a_batch_that_has_begun_keeps_its_sharding_in_another_process(kafka: MockKafka) -> None:
    """Its rows go to the shards of the first run (P8)."""
    begun = sink_on(kafka).batch(0, cores=3)
    commit_progress(Shard(begun, 2), 1)
    assert sink_on(kafka).batch(0, cores=1).sharding == Sharding(3)


def test_a_batch_of_a_new_checkpoint_is_no_replay(kafka: MockKafka) -> None:
    """The driver refuses it before a task could skip its rows."""
    old = sink_on(kafka)
    old._begin(0, Run("old", "1"))
    for number in range(4):
        commit_progress(Shard(old.batch(0, cores=4), number), 1)
    new = sink_on(kafka)
    new._begin(0, Run("new", "2"))
    with pytest.raises(ProgressLost, match="Give a query with a new checkpoint another name"):
        new.batch(0, cores=4)
    new._begin(0, Run("old", "2"))
    assert new.batch(0, cores=1).sharding == Sharding(4), "a restart of the old one"


def test_a_batch_is_written_once_in_each_run(kafka: MockKafka) -> None:
    """A second call has other rows, which would be taken for the ones that are written. A replay is another run."""
    sink = sink_on(kafka)
    first = Run("checkpoint", "first")
    assert sink._begin(6, first) is None
    sink._last = written_in(0.5)
    for _ in range(2):
        with pytest.raises(WrittenBefore, match="has written batch 6 already"):
            sink._begin(6, first)
    assert sink._begin(7, first) == written_in(0.5)
    sink._last = written_in(0.5)
    assert sink._begin(6, Run("checkpoint", "second")) is None
    sink._last = written_in(0.5)
    for _ in range(2):
        assert sink._begin(6, Run()) is None, "without a stream nothing tells a replay from a second call"


def test_a_batch_is_written_once_by_a_worker_of_spark_connect(kafka: MockKafka) -> None:
    """The worker gets the sink as a pickle, and serves one run."""
    sink = pickle.loads(cloudpickle.dumps(sink_on(kafka)))
    assert sink._begin(6, Run()) is None
    sink._last = written_in(0.5)
    with pytest.raises(WrittenBefore, match="has written batch 6 already"):
        sink._begin(6, Run())


def test_a_sink_that_another_run_uses_reads_what_was_written_meanwhile(kafka: MockKafka) -> None:
    """Another process may have begun the next batch with other shards: to go on with the old ones would double rows."""
    sink = sink_on(kafka)
    sink._begin(6, Run("checkpoint", "first"))
    sink._topic, sink._last = Topic(4, "c"), written_in(0.5)
    begun = batch_on(sink._options.connection, sharding=Sharding(4), checkpoint="checkpoint")
    commit_progress(Shard(begun, 3), 8)
    last = sink._begin(7, Run("checkpoint", "second"))
    assert sink.batch(7, cores=2, last=last).sharding == Sharding(4)


@pytest.mark.parametrize(("driver_rows", "collected"), [(0, 0), (1000, 1)])
def test_a_driver_that_writes_no_rows_collects_none(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch, driver_rows: int, collected: int
) -> None:
    """Also after a batch without rows, which would be computed twice."""
    calls: list[object] = []
    monkeypatch.setattr(kafka_sink, "collect_small", lambda *_: calls.append(1))
    sink = sink_on(kafka, driver_rows=driver_rows)
    empty = replace(written_in(0.5), rows=0)
    assert sink._write_small(cast("Any", None), batch_on({}), empty) is None
    assert len(calls) == collected


def test_a_later_batch_without_progress_is_refused(kafka: MockKafka) -> None:
    """The offsets may have expired; the user says whether the sink is new to the query."""
    with pytest.raises(ProgressLost, match="pass first_batch=5"):
        sink_on(kafka).batch(5, cores=1)
    assert sink_on(kafka, first_batch=5).batch(5, cores=1).batch_id == 5


def written_in(seconds: float) -> BatchWritten:
    return BatchWritten(query="output", batch_id=6, rows=200_000, bytes=9, shards=1, skipped=0, seconds=seconds)


SHUFFLED, JOINED = Tasks(1), Tasks(1, shuffled=False)


@pytest.mark.parametrize(
    ("cores", "one_machine", "seconds", "tasks"),
    [
        (1, False, 14.0, JOINED),
        (1, True, 16.0, Tasks(4)),
        (1, True, None, Tasks(4)),
        (2, True, 0.9, JOINED),
        (2, True, 1.1, SHUFFLED),
        (2, True, 16.0, Tasks(4)),
        (2, True, None, SHUFFLED),
        (2, False, 0.9, Tasks(4)),
        (2, False, None, Tasks(4)),
        (3, True, 0.9, Tasks(4)),
    ],
)
def test_one_task_writes_all_shards_where_cores_are_few(
    *, cores: int, one_machine: bool, seconds: float | None, tasks: Tasks
) -> None:
    """It computes the rows as well if these are cheap; a transaction times out after 60 s, waiting for rows or not."""
    last = None if seconds is None else written_in(seconds)
    assert tasks_of(batch_on({}, sharding=Sharding(4)), cores, last, one_machine=one_machine) == tasks


@pytest.mark.parametrize("cores", [1, 2])
def test_one_task_writes_no_more_shards_than_its_memory_holds(cores: int) -> None:
    """The producer of each shard may buffer 64 MB."""
    batch = batch_on({}, sharding=Sharding(9))
    assert {tasks_of(batch, cores, last, one_machine=True) for last in (None, written_in(0.5))} == {Tasks(9)}


@pytest.fixture
def sink_of_one_task(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaSink, list[int]]:
    """Return a sink whose batches take too long in one task, and the numbers of tasks that it has tried."""
    tried: list[int] = []

    def write_batch(_rows: object, _batch: object, tasks: Tasks) -> list[object]:
        tried.append(tasks.number)
        if tasks.number < 3 or len(tried) > 2:
            raise TransactionTimedOut("shard 0: too long")
        return []

    monkeypatch.setattr(kafka_sink, "write_batch", write_batch)
    monkeypatch.setattr(kafka_sink, "_is_one_machine", lambda _: True)
    return sink_on(kafka), tried


def test_a_batch_that_takes_one_task_too_long_is_written_by_a_task_for_each_shard(
    sink_of_one_task: tuple[KafkaSink, list[int]],
) -> None:
    """A transaction that times out is an error only where no shorter one is possible."""
    sink, tried = sink_of_one_task
    rows = cast("Any", SimpleNamespace(sparkSession=None))
    batch = sink.batch(0, cores=3)
    sink._write(rows, batch, None, 2)
    with pytest.raises(TransactionTimedOut):
        sink._write(rows, batch, None, 3)
    assert tried == [1, 3, 3]


def test_a_sink_travels_without_the_state_of_its_process(kafka: MockKafka) -> None:
    """On Spark Connect another process writes the batches. Spark pickles the sink with cloudpickle."""
    sink = sink_on(kafka)
    batch = sink.batch(0, cores=3)
    assert sink.__getstate__()["_topic"] is None
    sent = pickle.loads(cloudpickle.dumps(sink))
    assert repr(sent) == repr(sink) == "<KafkaSink 'output' to output>"
    assert sent.batch(0, cores=3) == batch == pickle.loads(cloudpickle.dumps(batch))
