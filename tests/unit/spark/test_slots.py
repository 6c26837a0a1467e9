"""What a query's slots remember, and how many slots a batch has by that."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate_spark import MemoryLost
from featuregate_spark.slots import Memory, is_done, slots_of_batch, text_of


def committed(**after: int) -> dict[int, Memory | None]:
    """Give memories of a query whose batches all had as many slots as are named: ``committed(s0=5, s1=5)``."""
    return {int(name[1:]): Memory(batch, len(after)) for name, batch in after.items()}


@given(st.integers(0, 2**40), st.integers(1, 10**6))
def test_a_memory_is_read_as_it_was_written(after: int, slots: int) -> None:
    """Some clients add a NUL; what a later version adds behind is passed over."""
    for tail in ("", "\0", ";more=1"):
        assert Memory.read(after, text_of(slots) + tail) == Memory(after, slots)


def test_no_offset_is_no_memory() -> None:
    """Kafka says -1001 where nothing was committed."""
    assert Memory.read(-1001, "") is None


@pytest.mark.parametrize("text", ["", "fgs1;slots=0", "fgs1;slots=x", "fgs2;slots=4", "another app's"])
def test_offsets_of_others_are_refused(text: str) -> None:
    """Whoever takes them for memories writes rows twice, or never; the error says what to do."""
    with pytest.raises(MemoryLost, match="Give the query another name"):
        Memory.read(5, text)


def test_a_slot_is_done_when_it_has_committed_this_batch() -> None:
    """An offset is the batch after it."""
    assert not is_done(None, 4)
    assert not is_done(Memory(4, 2), 4)
    assert is_done(Memory(5, 2), 4)


def test_an_older_checkpoint_is_refused() -> None:
    """A slot that has committed a later batch would leave out what is new, or double what is old."""
    with pytest.raises(MemoryLost, match=r"batch 3 comes again, and batch 4 was committed already"):
        is_done(Memory(5, 2), 3)
    with pytest.raises(MemoryLost):
        slots_of_batch(committed(s0=5, s1=5), 3, 2, 0)


def test_the_first_batch_has_nothing_to_remember() -> None:
    """Nor has the first one that a query gives to this sink later."""
    assert slots_of_batch({0: None, 1: None}, 0, 2, 0) == 2
    assert slots_of_batch({0: None, 1: None}, 57, 2, 57) == 2


def test_lost_memories_are_refused() -> None:
    """Their offsets may have expired after the batch was written: nobody knows any more."""
    with pytest.raises(MemoryLost, match="say first_batch=57"):
        slots_of_batch({0: None, 1: None}, 57, 2, 0)


def test_the_next_batch_has_as_many_slots_as_are_wanted() -> None:
    """Once all slots of the batch before have committed, the number may change."""
    assert slots_of_batch(committed(s0=5, s1=5), 5, 4, 0) == 4
    assert slots_of_batch({**committed(s0=5, s1=5), 2: Memory(3, 4), 3: None}, 5, 4, 0) == 4


def test_a_batch_that_has_begun_keeps_its_slots() -> None:
    """Another number would lead rows that one slot has written to a slot that has not (P8)."""
    begun = {0: Memory(5, 4), 1: Memory(6, 4), 2: Memory(5, 4), 3: Memory(5, 4)}
    assert slots_of_batch(begun, 5, 2, 0) == 4
    assert slots_of_batch({0: None, 1: Memory(1, 4), 2: None, 3: None}, 0, 8, 0) == 4


def test_a_batch_whose_predecessor_is_not_whole_is_refused() -> None:
    """Spark begins a batch when the one before is done: something was exchanged (P9)."""
    with pytest.raises(MemoryLost, match="not all of its 2 slots have committed batch 4"):
        slots_of_batch({0: Memory(5, 2), 1: Memory(4, 2)}, 5, 2, 0)
    with pytest.raises(MemoryLost, match="the last batch that slot 0 has committed is 3"):
        slots_of_batch(committed(s0=4, s1=4), 5, 2, 0)


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_replay_finds_each_row_where_it_was(seed: int, batches: int) -> None:
    """Whatever numbers of slots are asked for, and wherever runs break off, no row is written twice or left out.

    Rows are numbers, and go to the slot of their remainder, as hashes do.
    """
    chance, partitions = Random(seed), 6
    memories: dict[int, Memory | None] = dict.fromkeys(range(partitions))
    written: list[tuple[int, int]] = []
    for batch_id in range(batches):
        whole = False
        while not whole:
            slots = slots_of_batch(memories, batch_id, chance.randint(1, partitions), 0)
            stop = chance.randint(0, slots)
            for slot in chance.sample(range(slots), stop):
                if not is_done(memories[slot], batch_id):
                    written += [(batch_id, row) for row in range(30) if row % slots == slot]
                    memories[slot] = Memory(batch_id + 1, slots)
            whole = stop == slots
    assert sorted(written) == [(batch_id, row) for batch_id in range(batches) for row in range(30)]
