"""What a driver that begins makes sure of: nothing that an older attempt has open decides a batch later."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from featuregate_spark.errors import WriteFailed
from featuregate_spark.memories import LOOK_SECONDS, Memories, Unanswered
from featuregate_spark.producers import Replaced, SlotProducer
from featuregate_spark.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from featuregate_spark.slots import Batch, Memory

__all__ = ["settled_memories"]

_log = logging.getLogger("featuregate.spark.settling")

_ENDING_AT_ONCE: Final = 8


def settled_memories(batch: Batch, slots: Iterable[int]) -> dict[int, Memory | None]:
    """Read what slots have committed, for a driver that begins.

    Before rows are led to slots in another layout than the last one, or while a transaction holds a memory, whatever
    older attempts have open is ended, as the tasks would do it later: whether they had begun this batch, and in which
    layout, must be certain (P8).

    Raises
    ------
    WriteFailed
        It cannot be read: rights, or nobody answers.
    MemoryLost
        Something else has committed in this group.
    """
    wanted = list(slots)
    with Memories(batch) as memories:
        found = _at_rest(batch, wanted, memories)
        if found is None or any(_is_other_layout(memory, batch) for memory in found.values()):
            with ThreadPoolExecutor(_ENDING_AT_ONCE, "featuregate-ending") as pool:
                list(pool.map(partial(_end, batch), wanted))
            found = memories.read_ended(wanted)
        return found


def _is_other_layout(memory: Memory | None, batch: Batch) -> bool:
    return memory is not None and memory.after >= batch.batch_id and memory.layout != batch.layout


def _at_rest(batch: Batch, slots: Sequence[int], memories: Memories) -> dict[int, Memory | None] | None:
    """Read what slots have committed; None where a transaction holds some of it, or brokers do not tell of that."""
    if not batch.stable:
        return None
    try:
        return memories.read(slots, LOOK_SECONDS)
    except Unanswered as held:
        _log.info("%s; what older attempts have left open is ended", held)
        return None


def _end(batch: Batch, number: int) -> None:
    """End what older attempts at a slot have open, and stop them for good."""
    try:
        with SlotProducer(Slot(batch, number)) as producer:
            producer.take_id()
    except Replaced as replaced:
        raise WriteFailed(f"{replaced}: another driver runs this query") from replaced
