"""What happened on the PySpark side, as values: the argument of the metrics hook, beside the core's events."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.gating.events import Event

__all__ = ["BatchWritten", "EventEmitter", "Pinned", "SparkEvent", "SparkHook", "StreamEnded", "StreamProgressed"]

logger = logging.getLogger("featuregate.spark")

PINS: Final = 64
"""So many of the newest pins are remembered: Spark tells of a batch's progress some time after the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A micro-batch has its pin."""

    query_id: str | None
    """Spark's, which outlives restarts; None on Spark Connect, where the batch does not know it."""
    batch_id: int
    replayed: bool
    """Whether the pin was there already: the batch runs again."""
    gates: Mapping[str, bool]
    """Each gate, and whether it is open in this batch."""
    held: tuple[str, ...]
    """The gates that only the query's latch holds open."""
    epoch: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWritten:
    """The Kafka sink has written a micro-batch: every shard has committed."""

    query: str
    batch_id: int
    rows: int
    """Rows that were committed now."""
    bytes: int
    """Of their keys and values."""
    shards: int
    skipped: int
    """Shards that had committed this batch before."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgressed:
    """A query has processed a micro-batch, or waited for one. Told some time after the batch: for metrics."""

    query_id: str
    """Spark's, which outlives restarts."""
    name: str | None
    batch_id: int
    rows: int
    rows_per_second: float
    seconds: float
    gates: Mapping[str, bool]
    """Each gate, and whether it was open in this batch, or, where the batch has no pin here, whether it is open now."""
    held: tuple[str, ...]
    """The gates that only a latch holds open."""
    pinned: bool
    """Whether the gates are those of the batch's pin."""
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnded:
    """A query has ended."""

    query_id: str
    name: str | None
    """None where the listener came after the query had begun, and saw no progress of it."""
    error: str | None
    """What ended it; None: somebody stopped it, or it had processed all there was."""


SparkEvent = Pinned | BatchWritten | StreamProgressed | StreamEnded


class SparkHook(Protocol):
    """What a metrics library plugs in: one call for each event of the core, and of this package."""

    def __call__(self, event: Event | SparkEvent, /) -> None:
        """Count the event; a hook that raises is logged, and the query goes on."""


class EventEmitter:
    """Logs an event, and hands it to the hook; it remembers the newest pins, for the listener.

    Where it is sent to another process, the hook stays behind: what it counts with belongs to the driver's.
    """

    def __init__(self, hook: SparkHook | None) -> None:
        self._hook = hook
        self._pins: deque[Pinned] = deque(maxlen=PINS)

    def __reduce__(self) -> tuple[Any, ...]:
        return EventEmitter, (None,)

    def __call__(self, event: SparkEvent) -> None:
        """Tell of the event. Raises nothing."""
        if isinstance(event, Pinned):
            self._pins.append(event)
        if logger.isEnabledFor(logging.INFO):
            said = " ".join(f"{field.name}={getattr(event, field.name)}" for field in fields(event))
            logger.info("%s %s", type(event).__name__, said)
        if self._hook is not None:
            try:
                self._hook(event)
            except Exception:
                logger.exception("the metrics hook failed; the query goes on")

    def pin_of(self, query_id: str, batch_id: int) -> Pinned | None:
        """Return the pin of a batch of which this process has told; None: there was none, or it is long ago."""
        found = (pin for pin in tuple(self._pins) if (pin.query_id, pin.batch_id) == (query_id, batch_id))
        return next(found, None)
