"""Pins micro-batches: a batch is decided once, before its function runs, and a replay uses the same pin."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from featuregate.gating.latch_store import PIN_FOLDER, PIN_PREFIX, batch_of
from featuregate.logs import get_logger
from featuregate_spark.errors import PinCorrupt, PinError, WrongCheckpoint, WrongPython
from featuregate_spark.events import Pinned, SparkEvent
from featuregate_spark.failures import cause_of
from featuregate_spark.pins.pin import BatchPin, next_pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from featuregate_spark.pins.write_once import WriteOnceFiles
    from featuregate_spark.snapshot import Snapshot
    from featuregate_spark.watch import Watch

logger = get_logger("featuregate.spark")


class BatchFunction(Protocol):
    """The app's function, which gets the pin of the batch as a third argument."""

    def __call__(self, df: DataFrame, batch_id: int, pin: Snapshot, /) -> object:
        """Process the batch."""


@dataclass(eq=False, repr=False)
class PinnedBatches:
    """The function for ``DataStreamWriter.foreachBatch``: it pins the batch, and then calls the app's function."""

    function: BatchFunction
    _: KW_ONLY
    checkpoint: str
    watch: Watch
    open_files: Callable[[SparkSession, str], WriteOnceFiles]
    emit: Callable[[SparkEvent], None]
    _files: WriteOnceFiles | None = field(default=None, init=False)
    _newest: BatchPin | None = field(default=None, init=False)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the state that belongs to the driver's process."""
        return {**self.__dict__, "_files": None, "_newest": None}

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Pin the batch, and process it."""
        spark = df.sparkSession
        pin = self._pin(spark, batch_id)
        try:
            self.function(df, batch_id, pin.snapshot)
        except Exception as error:
            cause = cause_of(error, spark)
            if isinstance(cause, WrongPython) and cause is not error:
                raise cause from error
            raise
        self._forget(batch_id - int(str(spark.conf.get("spark.sql.streaming.minBatchesToRetain"))))

    def _pin(self, spark: SparkSession, batch_id: int) -> BatchPin:
        """Return the pin of a batch: the first that was written for it, now or before a crash (P4)."""
        began = time.monotonic()
        files = self._files_of(spark, batch_id)
        existing = self._existing(files, batch_id)
        pin = existing or self._write(files, batch_id)
        if self._newest is None or pin.batch_id >= self._newest.batch_id:
            self._newest = pin
        self.emit(
            Pinned(
                query_id=_query_id(spark),
                batch_id=batch_id,
                replayed=existing is not None,
                gates=pin.snapshot.opened,
                held=pin.snapshot.held,
                epoch=pin.snapshot.epoch,
                seconds=time.monotonic() - began,
            )
        )
        return pin

    def _existing(self, files: WriteOnceFiles, batch_id: int) -> BatchPin | None:
        """Return the pin of a batch that is replayed; None if the batch is new."""
        newest = self._newest
        if newest is not None and newest.batch_id <= batch_id:
            return newest if newest.batch_id == batch_id else None
        text = files.read(_name(batch_id))
        return None if text is None else _parsed(_name(batch_id), text)

    def _write(self, files: WriteOnceFiles, batch_id: int) -> BatchPin:
        view, gates = self.watch.observe()
        pin = next_pin(self._newest, batch_id, view, gates, datetime.now(UTC).timestamp())
        return _parsed(_name(batch_id), files.write(_name(batch_id), pin.to_json()))

    def _files_of(self, spark: SparkSession, batch_id: int) -> WriteOnceFiles:
        """Return the checkpoint's files; the first time, read the newest pin, which holds the query's latch (P5)."""
        if self._files is not None:
            return self._files
        files = self.open_files(spark, self.checkpoint)
        if not files.exists(f"offsets/{batch_id}"):
            raise WrongCheckpoint(
                f"{self.checkpoint} has no offsets of batch {batch_id}, which runs now: pass the checkpointLocation "
                "of the query to foreach_batch()"
            )
        pinned = sorted(number for name in files.names(PIN_FOLDER) if (number := batch_of(name)) is not None)
        if pinned:
            newest = _name(pinned[-1])
            text = files.read(newest)
            if text is None:
                raise PinError(f"{self.checkpoint}/{newest} has disappeared: does another query use this checkpoint?")
            self._newest = _parsed(newest, text)
        self._files = files
        return files

    def _forget(self, batch_id: int) -> None:
        """Delete the pin that Spark's own retention has passed. The newest pin holds all latches of older ones."""
        assert self._files is not None
        if batch_id < 0:
            return
        try:
            self._files.delete(_name(batch_id))
        except PinError as error:
            logger.warning("an old pin was not deleted: %s", error)


def _query_id(spark: SparkSession) -> str | None:
    """Return the id of the query that runs the batch, a local property of the batch's thread."""
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


def _name(batch_id: int) -> str:
    return f"{PIN_FOLDER}/{PIN_PREFIX}{batch_id}"


def _parsed(name: str, text: str) -> BatchPin:
    try:
        return BatchPin.from_json(text)
    except PinCorrupt as error:
        raise PinCorrupt(
            f"{name} next to the checkpoint cannot be read: {error}. Nothing was processed. If it is lost, delete it "
            "while the query is stopped: its batch is then decided again, with the latches of the previous pin"
        ) from error
