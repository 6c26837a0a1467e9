"""Slots: which batches each writer of a query has committed, and what follows from it. Pure.

A query writes by a fixed number of slots. Each commits, in the transaction of its rows, an offset in a group of the
query's name: the number of the batch, plus one. That offset is the slot's memory. Beside it stands the batch's layout,
so that a replay leads each row to the slot that it had before, whatever the query asks for by then (P8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

from featuregate_spark.errors import MemoryLost, NotReplayable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "LONGEST_TEXT",
    "Batch",
    "Layout",
    "Memory",
    "NotWhole",
    "Slot",
    "is_done",
    "is_written",
    "layout_of_batch",
    "text_of",
]

LONGEST_TEXT: Final = 4000
"""Bytes that a layout may take: brokers keep 4,096 beside an offset (``offset.metadata.max.bytes``)."""

_FORMAT: Final = re.compile(r"fgs1;slots=([1-9][0-9]{0,8});by=([^;]*)(;.*)?")


class Layout(NamedTuple):
    """How the rows of a batch are led to slots."""

    slots: int
    """How many slots the batch has."""
    by: tuple[str, ...] = ()
    """The columns that choose a row's slot; none where its key does, or its value where it has no key."""

    @property
    def words(self) -> str:
        """What a row's slot is chosen by, as a user says it."""
        return f"by={list(self.by)}" if self.by else "no by, which means the key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a task has to know of its batch. Picklable."""

    query: str
    """The group of the slots' memories, and what their transactional ids begin with."""
    batch_id: int
    layout: Layout
    memory_topic: str
    """The topic on whose partitions the memories are noted: slot 3 on partition 3."""
    topic: str | None
    """Where rows go that name no topic."""
    producer: Mapping[str, Any] = field(repr=False)
    """librdkafka's properties, which may hold secrets."""
    connection: Mapping[str, Any] = field(repr=False)
    """Those of them by which a consumer reaches the same brokers."""
    stable: bool
    """Whether every broker is known to hold back offsets of transactions that have not ended (OffsetFetch 7)."""
    timeout: float
    """Seconds that a call may take."""


class Slot(NamedTuple):
    """One slot of a batch: who writes it."""

    batch: Batch
    number: int

    @property
    def transactional_id(self) -> str:
        """The same for each batch and each attempt (P6)."""
        return f"{self.batch.query}-{self.number}"

    def __str__(self) -> str:
        batch = self.batch
        return f"slot {self.number} of {batch.layout.slots} of query {batch.query!r}, batch {batch.batch_id}"


@dataclass(frozen=True, slots=True)
class Memory:
    """What one slot has committed."""

    after: int
    """The batch after the last one that it committed."""
    layout: Layout
    """The layout that this last batch had."""

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
        return cls(offset, Layout(int(ours[1]), tuple(map(unquote, ours[2].split(","))) if ours[2] else ()))


def text_of(layout: Layout) -> str:
    """Give the text that stands beside the offset of each slot of a batch: ``fgs1;slots=8;by=region,order%20id``."""
    return f"fgs1;slots={layout.slots};by={','.join(quote(name, safe='') for name in layout.by)}"


def is_written(memory: Memory | None, batch_id: int, layout: Layout) -> bool:
    """Say whether a slot has committed its part of a batch; the memory must be read after its id was taken (P7).

    Raises
    ------
    MemoryLost
        It has committed a later batch; or this one in another layout, by a driver that was thought to be gone.
    """
    if memory is None or not is_done(memory, batch_id):
        return False
    if memory.layout != layout:
        raise MemoryLost(
            f"batch {batch_id} was committed with {memory.layout.slots} slots and {memory.layout.words} while it ran "
            f"with {layout.slots} and {layout.words}: two drivers run this query. Look into the topic: rows of other "
            "slots may be there twice, or not at all"
        )
    return True


def is_done(memory: Memory | None, batch_id: int) -> bool:
    """Say whether a slot has committed this batch.

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


def layout_of_batch(memories: Mapping[int, Memory | None], batch_id: int, wanted: Layout, first_batch: int) -> Layout:
    """Return how a batch is laid out: as it was when it first ran, else as is wanted (P8, P9).

    Parameters
    ----------
    memories
        What every slot has committed, by its number; of more slots than are wanted, where a partition is there for it.
    wanted
        What the query asks for now.
    first_batch
        The first batch that the query ever gave to this sink: before it there is nothing to remember.

    Raises
    ------
    MemoryLost
        The batch before is not known to be complete.
    NotReplayable
        A part of the batch was written, and what is asked for now would lead its rows to other slots.
    """
    done = [memory for memory in memories.values() if memory is not None and is_done(memory, batch_id)]
    if done:
        return _begun(done, batch_id, wanted)
    before = memories.get(0)
    if before is None:
        if batch_id == first_batch:
            return wanted
        raise MemoryLost(
            f"nothing is known of the batches before {batch_id}: their offsets have expired, were deleted, or this "
            f"query is new to this sink. If batch {batch_id} was never written, say first_batch={batch_id}; if it may "
            "have been, look into the topic first"
        )
    slots = before.layout.slots
    left = [slot for slot in range(slots) if not _has(memories.get(slot), batch_id)]
    if before.after != batch_id or left:
        raise NotWhole(
            f"batch {batch_id} would run, and the last batch that slot 0 has committed is {before.after - 1}; not all "
            f"of its {slots} slots have committed batch {batch_id - 1}. Was the checkpoint exchanged?"
        )
    return wanted


def _begun(done: Sequence[Memory], batch_id: int, wanted: Layout) -> Layout:
    """Keep the layout that the batch has begun with; where rows are left to write, its columns must still be those."""
    layout = done[0].layout
    if len(done) < layout.slots and layout.by != wanted.by:
        raise NotReplayable(
            f"{len(done)} of {layout.slots} slots have written their part of batch {batch_id} with {layout.words}; "
            f"with {wanted.words} its rows would go to other slots. Run the query as before until this batch is "
            "through, and change it then"
        )
    return layout


def _has(memory: Memory | None, batch_id: int) -> bool:
    return memory is not None and memory.after == batch_id
