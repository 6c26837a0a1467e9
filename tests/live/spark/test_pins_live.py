"""The pins of real queries: written before the batch has effects, the same in each replay, never below the latch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from micro_batches import process

from featuregate.testing import FakeCluster
from featuregate_spark import FeatureSession, Snapshot
from featuregate_spark.pins.hadoop import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = [pytest.mark.live, pytest.mark.slow]

TV2 = "transaction.version>=2"


class Crash(Exception):
    """The function of an app raises it after its side effects."""


class Query:
    """A query over files, one batch for each, whose function records its pins."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        self.checkpoint = folder / "checkpoint"
        self.seen: list[tuple[int, bool | None]] = []
        self.crash_at = -1
        self._files = 0

    @property
    def pins(self) -> Path:
        return self.checkpoint / "featuregate"

    def function(self, df: DataFrame, batch_id: int, pin: Snapshot) -> None:
        assert df.count() == 1
        assert (self.pins / f"pin-{batch_id}").exists(), "the pin is there before any side effect"
        self.seen.append((batch_id, pin["tv2"].open))
        if batch_id == self.crash_at:
            raise Crash

    def run(self, batch: Callable[[DataFrame, int], None], files: int = 1) -> None:
        for _ in range(files):
            (self.inputs / f"{self._files}.txt").write_text(f"line {self._files}\n")
            self._files += 1
        lines = self.spark.readStream.option("maxFilesPerTrigger", "1").text(str(self.inputs))
        process(lines.writeStream, batch, self.checkpoint)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path)


def test_a_replay_gets_the_same_pin_though_the_cluster_has_changed(spark: SparkSession, query: Query) -> None:
    """The query crashes after the side effects, and then an operator lowers a feature."""
    with FakeCluster() as kafka:
        with FeatureSession(spark, kafka.bootstrap) as features:
            features.gate("tv2", TV2, policy="live")
            batch = features.foreach_batch(query.function, checkpoint=str(query.checkpoint))
            query.run(batch)
            query.crash_at = 1
            with pytest.raises(Exception, match="Crash"):
                query.run(batch)
        kafka.finalize({"transaction.version": 1})
        query.crash_at = -1
        with FeatureSession(spark, kafka.bootstrap) as features:
            gate = features.gate("tv2", TV2, policy="live")
            assert not gate.open
            query.run(features.foreach_batch(query.function, checkpoint=str(query.checkpoint)))
    assert query.seen == [(0, True), (1, True), (1, True), (2, False)]


def test_the_latch_is_there_after_a_restart(spark: SparkSession, query: Query) -> None:
    """A sticky gate that opened in one batch is open in all later ones, and the pin says what holds it."""
    pins: list[Snapshot] = []

    def function(df: DataFrame, batch_id: int, pin: Snapshot) -> None:
        query.function(df, batch_id, pin)
        pins.append(pin)

    with FakeCluster() as kafka:
        for level in (1, 2, 1):
            kafka.finalize({"transaction.version": level})
            with FeatureSession(spark, kafka.bootstrap, gates={"tv2": TV2}) as features:
                query.run(features.foreach_batch(function, checkpoint=str(query.checkpoint)))
    assert query.seen == [(0, False), (1, True), (2, True)]
    held = pins[2]["tv2"].decision.held
    assert held is not None
    assert "transaction.version was 2" in held


def test_pins_are_deleted_with_sparks_own_retention(spark: SparkSession, query: Query) -> None:
    """The newest pins stay, and hold the latches of the deleted ones."""
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        with FakeCluster() as kafka:
            with FeatureSession(spark, kafka.bootstrap, gates={"tv2": TV2}) as features:
                query.run(features.foreach_batch(query.function, checkpoint=str(query.checkpoint)), files=4)
            kafka.finalize({"transaction.version": 1})
            assert sorted(pin.name for pin in query.pins.glob("pin-*")) == ["pin-2", "pin-3"]
            with FeatureSession(spark, kafka.bootstrap, gates={"tv2": TV2}) as features:
                query.run(features.foreach_batch(query.function, checkpoint=str(query.checkpoint)))
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    assert query.seen[-1] == (4, True)


def test_a_corrupt_pin_stops_the_query_and_stays_as_it_is(spark: SparkSession, query: Query) -> None:
    """The query processes no batch by a guess."""
    with FakeCluster() as kafka, FeatureSession(spark, kafka.bootstrap, gates={"tv2": TV2}) as features:
        query.run(features.foreach_batch(query.function, checkpoint=str(query.checkpoint)))
        pin = query.pins / "pin-0"
        pin.unlink()
        (query.pins / ".pin-0.crc").unlink()
        pin.write_text("{")
        with pytest.raises(Exception, match="PinCorrupt: featuregate/pin-0 next to the checkpoint cannot be read"):
            query.run(features.foreach_batch(query.function, checkpoint=str(query.checkpoint)))
    assert pin.read_text() == "{"
    assert query.seen == [(0, True)]


def test_two_drivers_that_race_for_a_pin_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Eight threads write one file with different texts: one wins, and all read its text."""

    def write(number: int) -> str:
        return HadoopFiles(spark, str(tmp_path)).write("featuregate/pin-7", f"by {number}")

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(write, range(8)))
    assert len(found) == 1
    assert (tmp_path / "featuregate" / "pin-7").read_text() in found
    assert sorted(each.name for each in (tmp_path / "featuregate").iterdir()) == [".pin-7.crc", "pin-7"]
