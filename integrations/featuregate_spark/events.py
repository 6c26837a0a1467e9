"""What happened on the PySpark side, as values: the argument of the metrics hook, with the core's events. Pure."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Protocol

from featuregate.logs import get_logger

if TYPE_CHECKING:
    from featuregate.gating.events import Event

logger = get_logger("featuregate.spark")

PINS: Final = 64
"""The number of pins that are kept for the listener: Spark reports the progress of a batch some time after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A micro-batch was pinned."""

    query_id: str | None
    """Spark's id, which outlives restarts; None on Spark Connect, where the batch does not know it."""
    batch_id: int
    replayed: bool
    """Whether the pin existed: the batch is replayed."""
    gates: Mapping[str, bool]
    """Each gate, and whether it is open in this batch."""
    held: tuple[str, ...]
    """The gates that only the query's latch holds open."""
    epoch: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWritten:
    """The Kafka sink has written a micro-batch: every shard has committed it."""

    query: str
    batch_id: int
    rows: int
    """Rows that this run has committed."""
    bytes: int
    """The size of their keys and values."""
    shards: int
    skipped: int
    """Shards that an earlier run had committed."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgressed:
    """A query has processed a micro-batch, or waited for one. Reported some time after the batch, for metrics."""

    query_id: str
    """Spark's id, which outlives restarts."""
    name: str | None
    batch_id: int
    rows: int
    rows_per_second: float
    seconds: float
    gates: Mapping[str, bool]
    """Each gate, and whether it was open in this batch; without a pin in this process, whether it is open now."""
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
    """None where the listener was added after the query had started, and saw no progress of it."""
    error: str | None
    """The error that ended it; None: it was stopped, or had processed all input."""


SparkEvent = Pinned | BatchWritten | StreamProgressed | StreamEnded


class SparkHook(Protocol):
    """The hook of a metrics library, which is called with each event of the core and of this package."""

    def __call__(self, event: Event | SparkEvent, /) -> None:
        """Count the event. An exception is logged, and the query continues."""


class EventEmitter:
    """Logs each event and passes it to the hook; keeps the newest pins for the listener.

    A pickled copy has no hook: a hook belongs to the process of the driver.
    """

    def __init__(self, hook: SparkHook | None) -> None:
        self._hook = hook
        self._pins: deque[Pinned] = deque(maxlen=PINS)

    def __reduce__(self) -> tuple[Any, ...]:
        return EventEmitter, (None,)

    def __call__(self, event: SparkEvent) -> None:
        """Log the event and call the hook. Raises nothing."""
        if isinstance(event, Pinned):
            self._pins.append(event)
        if logger.isEnabledFor(logging.INFO):
            text = " ".join(f"{field.name}={getattr(event, field.name)}" for field in fields(event))
            logger.info("%s %s", type(event).__name__, text)
        if self._hook is not None:
            try:
                self._hook(event)
            except Exception:
                logger.exception("the metrics hook failed; the query continues")

    def pin_of(self, query_id: str, batch_id: int) -> Pinned | None:
        """Return the pin of a batch that this process has pinned; None if there was none, or it is no longer kept."""
        found = (pin for pin in tuple(self._pins) if (pin.query_id, pin.batch_id) == (query_id, batch_id))
        return next(found, None)
