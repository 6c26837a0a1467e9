"""The progress of shards, and the sharding that follows from it for a batch."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shards import batch_on
from transcripts import retold, sections

from featuregate_spark import NotReplayable, ProgressLost
from featuregate_spark.sink.progress import ShardProgress, is_committed, is_committed_with, sharding_of_batch
from featuregate_spark.sink.shards import Sharding

COLUMNS = st.lists(st.text(min_size=1), max_size=4).map(tuple)


@given(st.integers(0, 2**40), st.builds(Sharding, st.integers(1, 10**6), COLUMNS))
def test_progress_is_read_as_it_was_written(next_batch: int, sharding: Sharding) -> None:
    """Some clients append a NUL, and fields of later versions are ignored."""
    for tail in ("", "\0", ";more=1"):
        assert ShardProgress.parse(next_batch, sharding.to_metadata() + tail) == ShardProgress(next_batch, sharding)
        assert sharding.to_metadata().isascii()


OF_OTHERS = ("", "fgs1;shards=0;shard_by=", "fgs1;shards=x;shard_by=", "fgs1;shards=4", "fgs2;shards=4;shard_by=")


@pytest.mark.parametrize("metadata", [*OF_OTHERS, "another app's"])
def test_offsets_of_other_apps_are_refused(metadata: str) -> None:
    """As progress such offsets would make the sink write rows twice, or never; the error says what to do."""
    with pytest.raises(ProgressLost, match="Give the query another name"):
        ShardProgress.parse(5, metadata)
    assert ShardProgress.parse(-1001, metadata) is None, "librdkafka's answer where nothing is committed"


def test_progress_of_another_checkpoint_is_refused() -> None:
    """A new checkpoint counts its batches from 0 again: its first batch would pass for the old one, and be skipped."""
    old = batch_on({}, checkpoint="5c1f").metadata
    assert ShardProgress.parse(1, old, "5c1f") == ShardProgress.parse(1, old) == ShardProgress(1, Sharding(2))
    assert ShardProgress.parse(1, batch_on({}).metadata, "5c1f") == ShardProgress(1, Sharding(2)), (
        "Spark did not show it"
    )
    with pytest.raises(ProgressLost, match=r"has committed batch 0 with another checkpoint \(5c1f, and this one is 9d"):
        ShardProgress.parse(1, old, "9d2e")


def test_an_offset_is_the_number_of_the_next_batch() -> None:
    """Batch 4 is committed with offset 5, in any sharding."""
    assert not is_committed(None, 4)
    assert not is_committed(ShardProgress(4, Sharding(2)), 4)
    assert is_committed(ShardProgress(5, Sharding(2)), 4)


def shards_for(text: str) -> object:
    progress, batch_id, wanted, first_batch = text.split(" / ")
    shards = {number: None if each == "-" else each.split(" of ") for number, each in enumerate(progress.split(", "))}
    found = {number: each and ShardProgress(int(each[0]), Sharding(int(each[1]))) for number, each in shards.items()}
    try:
        return sharding_of_batch(found, int(batch_id), Sharding(int(wanted)), int(first_batch)).shards
    except ProgressLost as error:
        return error


def test_a_batch_has_the_shards_that_its_progress_says_or_is_refused_as_kept() -> None:
    """To write again might duplicate rows, to skip might lose them."""
    (kept,) = sections(__file__, "progress.txt").values()
    assert retold(kept, shards_for) == kept


def test_a_batch_that_has_begun_keeps_its_columns() -> None:
    """Other columns would lead rows of a committed shard to another; they may change when the batch is complete."""
    by_region, by_key = Sharding(2, ("region", "order id")), Sharding(2)
    progress: dict[int, ShardProgress | None] = {0: ShardProgress(6, by_region), 1: ShardProgress(5, by_key)}
    with pytest.raises(
        NotReplayable, match=r"1 of 2 shards .* batch 5 with shard_by=\['region', 'order id'\]; with shard_by=\[\]"
    ):
        sharding_of_batch(progress, 5, by_key, 0)
    assert sharding_of_batch(progress, 5, Sharding(9, by_region.shard_by), 0) == by_region
    progress[1] = ShardProgress(6, by_region)
    assert sharding_of_batch(progress, 5, by_key, 0) == by_region, "complete: all of its shards will be skipped"
    assert sharding_of_batch(progress, 6, by_key, 0) == by_key


def test_a_shard_that_was_committed_in_another_sharding_is_an_error() -> None:
    """A driver that was thought to be dead has committed it meanwhile: to skip it would lose rows silently."""
    assert not is_committed_with(None, 5, Sharding(2))
    assert not is_committed_with(ShardProgress(5, Sharding(4)), 5, Sharding(2)), (
        "the previous batch may have any sharding"
    )
    assert is_committed_with(ShardProgress(6, Sharding(2)), 5, Sharding(2))
    for other in (Sharding(4), Sharding(2, ("region",))):
        with pytest.raises(ProgressLost, match="two drivers run this query"):
            is_committed_with(ShardProgress(6, other), 5, Sharding(2))


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_replay_finds_each_row_in_the_shard_of_the_first_run(seed: int, batches: int) -> None:
    """Whatever shardings are wanted, and wherever runs end, no row is written twice or left out.

    Rows are numbers, and go to the shard of their remainder, as hashes do; or of their quotient, by another column.
    """
    chance, partitions = Random(seed), 6
    progress: dict[int, ShardProgress | None] = dict.fromkeys(range(partitions))
    written: list[tuple[int, int]] = []
    for batch_id in range(batches):
        complete = False
        while not complete:
            wanted = Sharding(chance.randint(1, partitions), chance.choice([(), ("quotient",)]))
            try:
                sharding = sharding_of_batch(progress, batch_id, wanted, 0)
            except NotReplayable:
                continue
            stop = chance.randint(0, sharding.shards)
            for shard in chance.sample(range(sharding.shards), stop):
                if not is_committed_with(progress[shard], batch_id, sharding):
                    shard_of = [(row // 7 if wanted.shard_by else row) % sharding.shards for row in range(30)]
                    written += [(batch_id, row) for row in range(30) if shard_of[row] == shard]
                    progress[shard] = ShardProgress(batch_id + 1, sharding)
            complete = stop == sharding.shards
    assert sorted(written) == [(batch_id, row) for batch_id in range(batches) for row in range(30)]
