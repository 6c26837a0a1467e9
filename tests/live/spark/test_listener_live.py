"""The listener of a real query: each batch with the gates of its pin, and the end with its error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from micro_batches import process

from featuregate.testing import FakeCluster
from featuregate_spark import FeatureSession, Snapshot
from featuregate_spark.events import Pinned, StreamEnded, StreamProgressed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = [pytest.mark.live, pytest.mark.slow]

TV2 = "transaction.version>=2"
BOUND = 60.0


class Events:
    """Keeps events, and lets a test wait for one of them."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self._came = threading.Condition()

    def __call__(self, event: object) -> None:
        with self._came:
            self.events.append(event)
            self._came.notify_all()

    def wait_for(self, kind: type, count: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: len(self.of(kind)) >= count, BOUND), self.events

    def of(self, kind: type) -> list[object]:
        return [event for event in self.events if type(event) is kind]


def run(spark: SparkSession, folder: Path, batch: Callable[[DataFrame, int], None]) -> None:
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(folder / "inputs"))
    process(lines.writeStream.queryName("told"), batch, folder / "checkpoint")


def test_each_batch_is_reported_with_its_own_pin_and_the_end_with_its_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The level is lowered during the second batch, whose pin and event have the level of before."""
    (tmp_path / "inputs").mkdir()
    for number in range(3):
        (tmp_path / "inputs" / f"{number}.txt").write_text("a\nb\n")
    told = Events()
    with FakeCluster() as kafka, FeatureSession(spark, kafka.bootstrap, metrics=told) as features:
        features.gate("live", TV2, policy="live")
        features.gate("sticky", TV2)

        def function(df: DataFrame, batch_id: int, _pin: Snapshot) -> None:
            df.count()
            if batch_id == 1:
                kafka.finalize({"transaction.version": 1})
                features._watch.features.refresh()
            if batch_id == 2:
                raise RuntimeError("after the third pin")

        listener = features.listener()
        spark.streams.addListener(listener)
        try:
            with pytest.raises(Exception, match="after the third pin"):
                run(spark, tmp_path, features.foreach_batch(function, checkpoint=str(tmp_path / "checkpoint")))
            told.wait_for(StreamEnded, 1)
        finally:
            spark.streams.removeListener(listener)
    progress = told.of(StreamProgressed)
    assert [
        (each.name, each.batch_id, each.rows, each.pinned, dict(each.gates), each.held)
        for each in progress
        if isinstance(each, StreamProgressed)
    ] == [
        ("told", 0, 2, True, {"live": True, "sticky": True}, ()),
        ("told", 1, 2, True, {"live": True, "sticky": True}, ()),
    ]
    pins = [each for each in told.of(Pinned) if isinstance(each, Pinned)]
    assert [(each.batch_id, each.gates["live"], each.held) for each in pins] == [
        (0, True, ()),
        (1, True, ()),
        (2, False, ("sticky",)),
    ]
    (end,) = told.of(StreamEnded)
    assert isinstance(end, StreamEnded)
    assert (end.query_id, end.name) == (pins[0].query_id, "told")
    assert "after the third pin" in str(end.error)
