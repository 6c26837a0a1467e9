"""Reports gates, pins and latches with Spark's progress, for logs and metrics.

Spark calls a listener in a thread of its own, some time after the batch, so that it cannot gate anything. A batch is
gated by its pin, which :meth:`featuregate_spark.FeatureSession.foreach_batch` passes to its function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from featuregate.errors import ClosedError
from featuregate.logs import get_logger
from featuregate_spark.events import EventEmitter, StreamEnded, StreamProgressed
from featuregate_spark.snapshot import Snapshot

logger = get_logger("featuregate.spark")

E = TypeVar("E")


def _quietly(method: Callable[[FeatureListener, E], None]) -> Callable[[FeatureListener, E], None]:
    """Log exceptions instead of raising them into Spark, whose other listeners run in the same thread."""

    @functools.wraps(method)
    def quiet(self: FeatureListener, event: E) -> None:
        try:
            method(self, event)
        except Exception:
            logger.exception("an event of Spark could not be reported; the query continues")

    return quiet


class FeatureListener(StreamingQueryListener):
    """A listener for ``spark.streams.addListener``; made by :meth:`featuregate_spark.FeatureSession.listener`.

    Spark Connect calls it in the driver's process, while another process pins the batches: it reports the session's
    current gates, with ``pinned=False``.

    Parameters
    ----------
    look
        Returns the current decisions of the session's gates.
    emit
        Emits the events, and keeps the pins of this process.
    """

    def __init__(self, look: Callable[[], Snapshot], *, emit: EventEmitter) -> None:
        self._look = look
        self._emit = emit
        self._names: dict[str, str | None] = {}

    @_quietly
    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Keep the name of the query, which the event of its end does not have."""
        self._names[str(event.id)] = event.name

    @_quietly
    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report a batch and its gates."""
        progress = event.progress
        query_id = str(progress.id)
        self._names[query_id] = progress.name
        gates, held, epoch, pinned = self._gates(query_id, progress.batchId)
        self._emit(
            StreamProgressed(
                query_id=query_id,
                name=progress.name,
                batch_id=progress.batchId,
                rows=progress.numInputRows,
                rows_per_second=progress.processedRowsPerSecond,
                seconds=progress.batchDuration / 1000,
                gates=gates,
                held=held,
                pinned=pinned,
                epoch=epoch,
            )
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: no batch ran."""

    @_quietly
    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Report the end of a query."""
        query_id = str(event.id)
        self._emit(StreamEnded(query_id=query_id, name=self._names.pop(query_id, None), error=event.exception))

    def _gates(self, query_id: str, batch_id: int) -> tuple[dict[str, bool], tuple[str, ...], int, bool]:
        """Return the gates of a batch: those of its pin, or else the current ones."""
        pin = self._emit.pin_of(query_id, batch_id)
        if pin is not None:
            return dict(pin.gates), pin.held, pin.epoch, True
        try:
            now = self._look()
        except ClosedError:
            now = Snapshot()  # the session is closed
        return now.opened, now.held, now.epoch, False
