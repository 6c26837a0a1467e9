"""Adds the usage of APIs up before it leaves a task: what is added here is not shuffled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from featuregate_fleet.evidence.columns import KEYS, PARSED_USAGE, parsed_rows

_USAGE: Final = "api_usage"
_MOST: Final = 100_000
"""Rows that are held back, about 20 MB."""


def add_up(parsed: Iterable[pa.RecordBatch], most: int = _MOST) -> Iterator[pa.RecordBatch]:
    """Hold rows of ``api_usage`` back and yield their sums; pass on the rows of other tables as they come.

    Each batch of ``PARSED`` has rows of one table. More than ``most`` rows are added up at once; where that leaves more
    than half of them, they go on.
    """
    held: list[pa.Array] = []
    count = 0
    for batch in parsed:
        usage = batch.column(_USAGE)
        if not len(usage) or usage.null_count:
            yield batch
            continue
        held.append(usage)
        count += len(usage)
        if count > most:
            held = [summed(_table(held))]
            count = len(held[0])
            if count > most // 2:
                yield parsed_rows(_USAGE, held.pop())
                count = 0
    if held:
        yield parsed_rows(_USAGE, summed(_table(held)))


def summed(usage: pa.Table) -> pa.Array:
    """Return rows of ``api_usage``, one for each client and version of an API."""
    by_client = usage.group_by(list(KEYS), use_threads=False)  # a task has one core
    sums = by_client.aggregate([("count", "sum"), ("first_seen", "min"), ("last_seen", "max")])
    named = sums.rename_columns([*KEYS, "count", "first_seen", "last_seen"])
    named = named.append_column("text_log", pa.nulls(len(named), pa.bool_())).select(PARSED_USAGE.names)
    return named.cast(PARSED_USAGE).to_struct_array().combine_chunks()


def _table(held: list[pa.Array]) -> pa.Table:
    return pa.Table.from_struct_array(pa.chunked_array(held))
