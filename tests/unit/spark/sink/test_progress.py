"""The progress of shards, and the sharding that follows from it for a batch."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shards import batch_on

from featuregate_spark import NotReplayable, ProgressLost
from featuregate_spark.sink.progress import ShardProgress, is_committed, is_committed_with, sharding_of_batch
from featuregate_spark.sink.shards import Sharding


def committed(*next_batches: int) -> dict[int, ShardProgress | None]:
    """Return the progress of shards 0, 1 and so on, in batches that had as many shards."""
    sharding = Sharding(len(next_batches))
    return {number: ShardProgress(next_batch, sharding) for number, next_batch in enumerate(next_batches)}


def shards_of_batch(progress: dict[int, ShardProgress | None], batch_id: int, wanted: int, first_batch: int) -> int:
    """Return the number of shards of a batch that is divided by the keys of its rows."""
    return sharding_of_batch(progress, batch_id, Sharding(wanted), first_batch).shards


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


NOTHING: dict[int, ShardProgress | None] = {0: None, 1: None}
INCOMPLETE = {0: ShardProgress(5, Sharding(2)), 1: ShardProgress(4, Sharding(2))}


@pytest.mark.parametrize(
    ("progress", "batch_id", "wanted", "first_batch", "shards"),
    [
        # the first batch that a query gives to a sink needs no progress
        (NOTHING, 0, 2, 0, 2),
        (NOTHING, 57, 2, 57, 2),
        # the number may change once all shards of the previous batch have committed
        (committed(5, 5), 5, 4, 0, 4),
        ({**committed(5, 5), 2: ShardProgress(3, Sharding(4)), 3: None}, 5, 4, 0, 4),
        # another number would lead rows of a committed shard to a shard that is not committed (P8)
        (committed(5, 6, 5, 5), 5, 2, 0, 4),
        ({0: None, 1: ShardProgress(1, Sharding(4)), 2: None, 3: None}, 0, 8, 0, 4),
        # batches without rows that the user says were not given to the sink
        (committed(4, 4), 6, 2, 6, 2),
    ],
)
def test_a_batch_has_the_shards_of_its_first_run_or_those_that_are_wanted(
    progress: dict[int, ShardProgress | None], batch_id: int, wanted: int, first_batch: int, shards: int
) -> None:
    """The progress says which."""
    assert shards_of_batch(progress, batch_id, wanted, first_batch) == shards


@pytest.mark.parametrize(
    ("progress", "batch_id", "first_batch", "words"),
    [
        # a shard that has committed a later batch would skip new rows, or write old rows twice
        (committed(5, 5), 3, 0, r"batch 3 comes again, and batch 4 was committed already"),
        # the offsets may have expired after the batch was written
        (NOTHING, 57, 0, "pass first_batch=57"),
        # Spark starts a batch when the previous one is complete: the checkpoint was replaced (P9)
        (INCOMPLETE, 5, 0, "not all of its 2 shards have committed batch 4"),
        # batches may have been without rows, which the user says; their number says nothing of the rows before
        (committed(4, 4), 6, 0, r"the last one that this sink has written is 3\. .* pass first_batch=6"),
        (INCOMPLETE, 7, 7, "not all of its 2 shards"),
    ],
)
def test_a_batch_whose_progress_is_unknown_is_refused(
    progress: dict[int, ShardProgress | None], batch_id: int, first_batch: int, words: str
) -> None:
    """To write again might duplicate rows, to skip might lose them."""
    with pytest.raises(ProgressLost, match=words):
        shards_of_batch(progress, batch_id, 2, first_batch)


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
