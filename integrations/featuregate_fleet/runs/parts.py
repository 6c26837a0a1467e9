"""What one input of a run adds to a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from featuregate_fleet.runs.internal_topics import TopicEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one batch, of one input: a folder of logs, or topics."""

    rows: DataFrame | None = None
    """Those of `featuregate_fleet.evidence.columns.ROWS` that executors make: nothing is read before the commit."""
    sources: Sequence[Mapping[str, object]] = ()
    """Rows of kind ``source`` that the driver knows: up to which offsets topics are read with this batch."""
    run: Mapping[str, object] = field(default_factory=dict)
    """Columns of the row of kind ``run``."""
    more: bool = False
    """Whether the input has more than fits into a batch."""
    topics: Sequence[TopicEnds] = ()
    """Those that are read. Whether they were deleted meanwhile is to be asked once the batch is committed, and once it
    failed, because Spark names an offset then."""


class TopicRead(NamedTuple):
    """How far a partition of a topic is read."""

    topic_id: str
    """Empty where brokers have none, before 2.8."""
    position: int
    """The offset after the last record that was read."""
