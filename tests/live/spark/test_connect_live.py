"""Spark Connect: no JVM, and the functions of batches in another process."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eos.pipes import Pipe
from micro_batches import process
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions
from streams.connect import connect_spark
from streams.connected_copying import PARTITIONS, Copying
from topics import committed_values

from featuregate.errors import ClosedError
from featuregate.testing import FakeCluster, LocalKafka
from featuregate_spark import FeatureSession, Snapshot, WrongSession
from featuregate_spark.events import SparkEvent, StreamEnded, StreamProgressed
from featuregate_spark.pins.write_once import DataFrameFiles

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

TV2 = "transaction.version>=2"
BOUND = 60.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with connect_spark("local[2,4]") as session:
        yield session


def run(spark: SparkSession, folder: Path, batch: Callable[[DataFrame, int], None]) -> None:
    lines = spark.readStream.text(str(folder / "inputs"))
    process(lines.writeStream.queryName("connected"), batch, folder / "checkpoint")


def test_a_snapshot_travels_in_a_closure_and_a_broadcast_does_not(spark: SparkSession) -> None:
    """The error says what to do in place of a broadcast."""
    with FakeCluster() as kafka, FeatureSession(spark, kafka.bootstrap, gates={"tv2": TV2}) as features:
        snapshot = features.snapshot()

        def path(_number: int) -> str:
            return f"tv2={snapshot['tv2'].open} by {os.getpid()}"

        rows = spark.range(4).select(functions.udf(path)("id")).collect()
        told = {row[0].partition(" by ")[::2] for row in rows}
        assert {word for word, _ in told} == {"tv2=True"}
        assert str(os.getpid()) not in {pid for _, pid in told}
        with pytest.raises(WrongSession, match=r"let the function close over features\.snapshot\(\)"):
            features.broadcast()


def test_a_guarded_function_takes_the_same_path_again_after_its_worker_died(spark: SparkSession) -> None:
    """The guard chose when the plan was built, and another worker retries the task."""
    with FakeCluster() as kafka, FeatureSession(spark, kafka.bootstrap, gates={"tv2": TV2}) as features:

        def old_path(_number: int) -> str:
            return "old"

        def new_path(_number: int) -> str:
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"new in attempt {context.attemptNumber()}"

        path = functions.udf(features.snapshot().guard("tv2", fallback=old_path)(new_path))
        assert [row[0] for row in spark.range(1, numPartitions=1).select(path("id")).collect()] == ["new in attempt 1"]


def test_a_replayed_batch_gets_the_same_pin_in_a_new_process(spark: SparkSession, tmp_path: Path) -> None:
    """The function runs in a process of the server, which shares nothing with the driver but the checkpoint.

    The first run dies after its side effects; then an operator lowers the level, and the batch runs again.
    """
    told = tmp_path / "told.txt"
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "0.txt").write_text("line\n")
    events: list[SparkEvent] = []

    def function(df: DataFrame, batch_id: int, pin: Snapshot) -> None:
        with told.open("a") as lines:
            lines.write(json.dumps([batch_id, df.count(), pin["tv2"].open, os.getpid()]) + "\n")
        if len(told.read_text().splitlines()) == 1:
            raise RuntimeError("after the side effects")

    def hook(event: object) -> None:
        if isinstance(event, SparkEvent):
            events.append(event)

    with FakeCluster() as kafka, FeatureSession(spark, kafka.bootstrap, metrics=hook) as features:
        gate = features.gate("tv2", TV2, policy="live")
        batch = features.foreach_batch(function, checkpoint=str(tmp_path / "checkpoint"))
        listener = features.listener()
        spark.streams.addListener(listener)
        try:
            with pytest.raises(Exception, match="after the side effects"):
                run(spark, tmp_path, batch)
            kafka.finalize({"transaction.version": 1})
            features._watch.features.refresh()
            assert not gate.open
            run(spark, tmp_path, batch)
            (tmp_path / "inputs" / "1.txt").write_text("line\n")
            run(spark, tmp_path, batch)
        finally:
            spark.streams.removeListener(listener)
    seen = [json.loads(line) for line in told.read_text().splitlines()]
    assert [each[:3] for each in seen] == [[0, 1, True], [0, 1, True], [1, 1, False]]
    assert os.getpid() not in {each[3] for each in seen}
    progress = [event for event in events if isinstance(event, StreamProgressed)]
    assert {(each.name, each.batch_id, each.rows, each.pinned) for each in progress} == {
        ("connected", 0, 1, False),
        ("connected", 1, 1, False),
    }
    ends = [event.error for event in events if isinstance(event, StreamEnded)]
    assert "after the side effects" in str(ends[0])


def test_a_pin_that_was_half_written_is_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that died left an empty folder; a complete pin stays as it is."""
    files = DataFrameFiles(spark, str(tmp_path))
    half = tmp_path / "featuregate" / "pin-7" / "_temporary" / "0"
    half.mkdir(parents=True)
    assert files.read("featuregate/pin-7") is None
    text = "first\n second\n\u2028third\n"
    assert files.write("featuregate/pin-7", text) == text
    assert files.write("featuregate/pin-7", "another") == text
    assert files.names("featuregate") == ["pin-7"]
    assert files.names("nothing") == []
    assert (files.exists("featuregate/pin-7"), files.exists("featuregate/pin-8")) == (True, False)


def test_a_batch_that_is_replayed_is_written_once(spark: SparkSession, kafka: LocalKafka, tmp_path: Path) -> None:
    """The driver died between the sink's commit and Spark's own, and the replay runs in another process."""
    with FeatureSession(spark, kafka.bootstrap) as features:
        topic = Pipe.on(kafka, "connected", partitions=PARTITIONS).sink
        copying = Copying(spark, tmp_path, features, topic)
        for batch_id, lines in enumerate(["a\nb\nc\n", "d\ne\n"]):
            (copying.inputs / f"{batch_id}.txt").write_text(lines)
            copying.run()
            (copying.checkpoint / "commits" / str(batch_id)).unlink()
            (copying.checkpoint / "commits" / f".{batch_id}.crc").unlink()
            copying.run()
        assert committed_values(kafka.client_config(), topic, partitions=PARTITIONS) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_session_ends_with_its_spark(spark: SparkSession) -> None:
    """The session closes within a poll. This test is the module's last, because it stops the shared Spark session."""
    with FakeCluster() as kafka:
        features = FeatureSession(spark, kafka.bootstrap, interval=0.2)
        (thread,) = (each for each in threading.enumerate() if each.name == "featuregate-poll")
        spark.stop()
        thread.join(BOUND)
        assert not thread.is_alive()
        with pytest.raises(ClosedError):
            features.snapshot()
