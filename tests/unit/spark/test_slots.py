"""What a query's slots remember, and how many slots a batch has by that."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate_spark import MemoryLost, NotReplayable
from featuregate_spark.slots import Layout, Memory, is_done, is_written, layout_of_batch, text_of


def committed(**after: int) -> dict[int, Memory | None]:
    """Give memories of a query whose batches all had as many slots as are named: ``committed(s0=5, s1=5)``."""
    return {int(name[1:]): Memory(batch, Layout(len(after))) for name, batch in after.items()}


def slots_of_batch(memories: dict[int, Memory | None], batch_id: int, wanted: int, first_batch: int) -> int:
    """Lay a batch out by the keys of its rows."""
    return layout_of_batch(memories, batch_id, Layout(wanted), first_batch).slots


COLUMNS = st.lists(st.text(min_size=1), max_size=4).map(tuple)


@given(st.integers(0, 2**40), st.builds(Layout, st.integers(1, 10**6), COLUMNS))
def test_a_memory_is_read_as_it_was_written(after: int, layout: Layout) -> None:
    """Some clients add a NUL; what a later version adds behind is passed over."""
    for tail in ("", "\0", ";more=1"):
        assert Memory.read(after, text_of(layout) + tail) == Memory(after, layout)
        assert text_of(layout).isascii()


def test_no_offset_is_no_memory() -> None:
    """Kafka says -1001 where nothing was committed."""
    assert Memory.read(-1001, "") is None


@pytest.mark.parametrize(
    "text", ["", "fgs1;slots=0;by=", "fgs1;slots=x;by=", "fgs1;slots=4", "fgs2;slots=4;by=", "another app's"]
)
def test_offsets_of_others_are_refused(text: str) -> None:
    """Whoever takes them for memories writes rows twice, or never; the error says what to do."""
    with pytest.raises(MemoryLost, match="Give the query another name"):
        Memory.read(5, text)


def test_a_slot_is_done_when_it_has_committed_this_batch() -> None:
    """An offset is the batch after it."""
    assert not is_done(None, 4)
    assert not is_done(Memory(4, Layout(2)), 4)
    assert is_done(Memory(5, Layout(2)), 4)


def test_an_older_checkpoint_is_refused() -> None:
    """A slot that has committed a later batch would leave out what is new, or double what is old."""
    with pytest.raises(MemoryLost, match=r"batch 3 comes again, and batch 4 was committed already"):
        is_done(Memory(5, Layout(2)), 3)
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
    assert slots_of_batch({**committed(s0=5, s1=5), 2: Memory(3, Layout(4)), 3: None}, 5, 4, 0) == 4


def test_a_batch_that_has_begun_keeps_its_slots() -> None:
    """Another number would lead rows that one slot has written to a slot that has not (P8)."""
    begun = {0: Memory(5, Layout(4)), 1: Memory(6, Layout(4)), 2: Memory(5, Layout(4)), 3: Memory(5, Layout(4))}
    assert slots_of_batch(begun, 5, 2, 0) == 4
    assert slots_of_batch({0: None, 1: Memory(1, Layout(4)), 2: None, 3: None}, 0, 8, 0) == 4


def test_a_batch_whose_predecessor_is_not_whole_is_refused() -> None:
    """Spark begins a batch when the one before is done: something was exchanged (P9)."""
    with pytest.raises(MemoryLost, match="not all of its 2 slots have committed batch 4"):
        slots_of_batch({0: Memory(5, Layout(2)), 1: Memory(4, Layout(2))}, 5, 2, 0)
    with pytest.raises(MemoryLost, match="the last batch that slot 0 has committed is 3"):
        slots_of_batch(committed(s0=4, s1=4), 5, 2, 0)


def test_a_batch_that_has_begun_keeps_what_its_rows_are_led_by() -> None:
    """Other columns would lead rows that one slot has written to a slot that has not; when it is through they may."""
    by_region, by_key = Layout(2, ("region", "order id")), Layout(2)
    memories: dict[int, Memory | None] = {0: Memory(6, by_region), 1: Memory(5, by_key)}
    with pytest.raises(NotReplayable, match=r"1 of 2 slots .* batch 5 with by=\['region', 'order id'\]; with no by"):
        layout_of_batch(memories, 5, by_key, 0)
    assert layout_of_batch(memories, 5, Layout(9, by_region.by), 0) == by_region
    memories[1] = Memory(6, by_region)
    assert layout_of_batch(memories, 5, by_key, 0) == by_region, "it is through: all of its slots will be skipped"
    assert layout_of_batch(memories, 6, by_key, 0) == by_key


def test_a_slot_that_was_written_in_another_layout_is_told() -> None:
    """A driver that was thought to be gone has written it meanwhile: to skip it as done would lose rows in silence."""
    assert not is_written(None, 5, Layout(2))
    assert not is_written(Memory(5, Layout(4)), 5, Layout(2)), "the batch before may have had any layout"
    assert is_written(Memory(6, Layout(2)), 5, Layout(2))
    for other in (Layout(4), Layout(2, ("region",))):
        with pytest.raises(MemoryLost, match="two drivers run this query"):
            is_written(Memory(6, other), 5, Layout(2))


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_replay_finds_each_row_where_it_was(seed: int, batches: int) -> None:
    """Whatever layouts are asked for, and wherever runs break off, no row is written twice or left out.

    Rows are numbers, and go to the slot of their remainder, as hashes do; or of their quotient, by another column.
    """
    chance, partitions = Random(seed), 6
    memories: dict[int, Memory | None] = dict.fromkeys(range(partitions))
    written: list[tuple[int, int]] = []
    for batch_id in range(batches):
        whole = False
        while not whole:
            wanted = Layout(chance.randint(1, partitions), chance.choice([(), ("quotient",)]))
            try:
                layout = layout_of_batch(memories, batch_id, wanted, 0)
            except NotReplayable:
                continue
            stop = chance.randint(0, layout.slots)
            for slot in chance.sample(range(layout.slots), stop):
                if not is_written(memories[slot], batch_id, layout):
                    led = [(row // 7 if wanted.by else row) % layout.slots for row in range(30)]
                    written += [(batch_id, row) for row in range(30) if led[row] == slot]
                    memories[slot] = Memory(batch_id + 1, layout)
            whole = stop == layout.slots
    assert sorted(written) == [(batch_id, row) for batch_id in range(batches) for row in range(30)]
