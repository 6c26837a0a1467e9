"""A query that processes what is there and ends, for tests with real Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

BOUND = 60.0


def process(writing: DataStreamWriter, function: Callable[[DataFrame, int], Any], checkpoint: Path) -> None:
    """Process all input that is there in micro-batches, or raise the error that ended the query."""
    writing = writing.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(BOUND)
    finally:
        query.stop()
