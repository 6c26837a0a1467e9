"""Slots: which batches each writer of a query has committed, and what follows from it. Pure.

A query writes by a fixed number of slots. Each commits, in the transaction of its rows, an offset in a group of the
query's name: the number of the batch, plus one. That offset is the slot's memory. Beside it stands how many slots the
batch had, so that a replay leads each row to the slot that it had before, whatever the number is by then (P8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate_spark.errors import MemoryLost

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Memory", "NotWhole", "is_done", "slots_of_batch", "text_of"]

_FORMAT: Final = re.compile(r"fgs1;slots=([1-9][0-9]{0,8})(;.*)?")


@dataclass(frozen=True, slots=True)
class Memory:
    """What one slot has committed."""

    after: int
    """The batch after the last one that it committed."""
    slots: int
    """How many slots that batch had."""

    @classmethod
    def read(cls, offset: int, text: str | None) -> Memory | None:
        """Read a committed offset and the text beside it; None where nothing was committed.

        Raises
        ------
        MemoryLost
            The offset was committed by something else.
        """
        if offset < 0:
            return None
        ours = _FORMAT.fullmatch((text or "").partition("\0")[0])
        if ours is None:
            raise MemoryLost(
                f"offset {offset} with the text {(text or '')[:100]!r} is none of this sink's: something else commits "
                "in the group of this query's name. Give the query another name"
            )
        return cls(offset, int(ours[1]))


def text_of(slots: int) -> str:
    """Give the text that stands beside the offset of each slot of a batch."""
    return f"fgs1;slots={slots}"


def is_done(memory: Memory | None, batch_id: int) -> bool:
    """Say whether a slot has committed this batch; what it reads must be its own, after it took its id (P7).

    Raises
    ------
    MemoryLost
        It has committed a later one.
    """
    if memory is not None and memory.after > batch_id + 1:
        raise MemoryLost(
            f"batch {batch_id} comes again, and batch {memory.after - 1} was committed already: the checkpoint is "
            "older than what was written, or two queries have this name. Give a query with a new checkpoint another "
            "name"
        )
    return memory is not None and memory.after == batch_id + 1


class NotWhole(MemoryLost):
    """The batch before is not known to be complete: brokers may be about to show that it is."""


def slots_of_batch(memories: Mapping[int, Memory | None], batch_id: int, wanted: int, first_batch: int) -> int:
    """Return how many slots a batch has: as many as it had when it first ran, else as many as are wanted (P8, P9).

    Parameters
    ----------
    memories
        What every slot has committed, by its number; of more slots than are wanted, where a partition is there for it.
    wanted
        How many slots the query asks for now.
    first_batch
        The first batch that the query ever gave to this sink: before it there is nothing to remember.

    Raises
    ------
    MemoryLost
        The batch before is not known to be complete.
    """
    done = [memory for memory in memories.values() if memory is not None and is_done(memory, batch_id)]
    if done:
        return done[0].slots
    before = memories.get(0)
    if before is None:
        if batch_id == first_batch:
            return wanted
        raise MemoryLost(
            f"nothing is known of the batches before {batch_id}: their offsets have expired, were deleted, or this "
            f"query is new to this sink. If batch {batch_id} was never written, say first_batch={batch_id}; if it may "
            "have been, look into the topic first"
        )
    left = [slot for slot in range(before.slots) if not _has(memories.get(slot), batch_id)]
    if before.after != batch_id or left:
        raise NotWhole(
            f"batch {batch_id} would run, and the last batch that slot 0 has committed is {before.after - 1}; not all "
            f"of its {before.slots} slots have committed batch {batch_id - 1}. Was the checkpoint exchanged?"
        )
    return wanted


def _has(memory: Memory | None, batch_id: int) -> bool:
    return memory is not None and memory.after == batch_id
