"""What happened on the PySpark side, as values: the argument of the metrics hook, beside the core's events."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from featuregate.events import Event

__all__ = ["BatchWritten", "Pinned", "SparkEvent", "SparkHook", "teller"]

logger = logging.getLogger("featuregate.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A micro-batch has its pin."""

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
    """The Kafka sink has written a micro-batch: every slot has committed."""

    query: str
    batch_id: int
    rows: int
    """Rows that were committed now."""
    bytes: int
    """Of their keys and values."""
    slots: int
    skipped: int
    """Slots that had committed this batch before."""
    seconds: float


SparkEvent = Pinned | BatchWritten


class SparkHook(Protocol):
    """What a metrics library plugs in: one call for each event of the core, and of this package."""

    def __call__(self, event: Event | SparkEvent, /) -> None:
        """Count the event; a hook that raises is logged, and the query goes on."""


def teller(hook: SparkHook | None) -> Callable[[SparkEvent], None]:
    """Give the function that logs an event, and hands it to the hook."""

    def tell(event: SparkEvent) -> None:
        if logger.isEnabledFor(logging.INFO):
            said = " ".join(f"{field.name}={getattr(event, field.name)}" for field in fields(event))
            logger.info("%s %s", type(event).__name__, said)
        if hook is not None:
            try:
                hook(event)
            except Exception:
                logger.exception("the metrics hook failed; the query goes on")

    return tell
