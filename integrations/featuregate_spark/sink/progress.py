"""The progress of shards: the last batch that each shard has committed, and what that means for a batch. Pure.

A shard commits its progress in the transaction of its rows: an offset in the consumer group that is named after the
query, which is the number of the next batch. The metadata of the offset holds the sharding of the batch, so that a
replay divides the rows as the first run did, whatever the query asks for by then (P8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from featuregate_spark.errors import NotReplayable, ProgressLost
from featuregate_spark.sink.shards import Sharding, checkpoint_in


@dataclass(frozen=True, slots=True)
class ShardProgress:
    """What one shard has committed."""

    next_batch: int
    """The batch after the last one that the shard has committed."""
    sharding: Sharding
    """The sharding of that last batch."""

    @classmethod
    def parse(cls, offset: int, metadata: str | None, checkpoint: str | None = None) -> ShardProgress | None:
        """Read a committed offset and its metadata; None where nothing is committed. Raises ProgressLost."""
        if offset < 0:
            return None
        sharding = Sharding.from_metadata(metadata)
        if sharding is None:
            raise ProgressLost(
                f"offset {offset} with the metadata {(metadata or '')[:100]!r} was not committed by this sink: another "
                "app uses the consumer group of this query's name. Give the query another name"
            )
        written_for = checkpoint_in(metadata)
        if checkpoint and written_for and checkpoint != written_for:
            raise ProgressLost(
                f"a query of this name has committed batch {offset - 1} with another checkpoint ({written_for}, and "
                f"this one is {checkpoint}), so that its number does not tell which rows are written. Give a query "
                "with a new checkpoint another name"
            )
        return cls(offset, sharding)


class PreviousBatchIncomplete(ProgressLost):
    """Not every shard is known to have committed the previous batch. Brokers may show a commit a moment later."""


def is_committed(progress: ShardProgress | None, batch_id: int) -> bool:
    """Return whether the shard has committed this batch. Raises ProgressLost."""
    if progress is not None and progress.next_batch > batch_id + 1:
        raise ProgressLost(
            f"batch {batch_id} comes again, and batch {progress.next_batch - 1} was committed already: the checkpoint "
            "is older than what was written, or two queries have this name. Give a query with a new checkpoint another "
            "name"
        )
    return progress is not None and progress.next_batch == batch_id + 1


def is_committed_with(progress: ShardProgress | None, batch_id: int, sharding: Sharding) -> bool:
    """Return whether the shard has committed this batch in this sharding. Raises ProgressLost.

    The progress is final only if it was read after the previous producer of the shard was fenced (P7).
    """
    if progress is None or not is_committed(progress, batch_id):
        return False
    if progress.sharding != sharding:
        raise ProgressLost(
            f"batch {batch_id} was committed with {progress.sharding} while it ran with {sharding}: two drivers run "
            "this query. Look into the topic: rows of other shards may be there twice, or not at all"
        )
    return True


def sharding_of_batch(
    progress: Mapping[int, ShardProgress | None], batch_id: int, wanted: Sharding, first_batch: int
) -> Sharding:
    """Return the sharding of a batch: that of its first run if a shard has committed it, else the wanted one (P8, P9).

    ``progress`` is that of each partition of the progress topic, which may be more than the wanted shards. Raises
    ProgressLost where the previous batch is not known to be complete, and NotReplayable where the wanted sharding would
    lead rows to other shards.
    """
    committed = [each for each in progress.values() if each is not None and is_committed(each, batch_id)]
    if committed:
        return _sharding_to_keep(committed[0].sharding, len(committed), batch_id, wanted)
    first = progress.get(0)
    if first is not None:
        _require_complete(progress, first, batch_id, first_batch)
    elif batch_id != first_batch:
        raise ProgressLost(
            f"there is no progress of the batches before {batch_id}: its offsets have expired, were deleted, or this "
            f"query is new to this sink. If batch {batch_id} was never written, pass first_batch={batch_id}; if it may "
            "have been, look into the topic first"
        )
    return wanted


def _sharding_to_keep(begun: Sharding, committed: int, batch_id: int, wanted: Sharding) -> Sharding:
    """Keep the sharding that a batch has begun with; where shards are left to write, its columns must be the same."""
    if committed < begun.shards and begun.shard_by != wanted.shard_by:
        raise NotReplayable(
            f"{committed} of {begun.shards} shards have committed batch {batch_id} with "
            f"shard_by={list(begun.shard_by)}; with shard_by={list(wanted.shard_by)} its rows would go to other "
            "shards. Run the query as before until this batch is complete, and change it then"
        )
    return begun


def _require_complete(
    progress: Mapping[int, ShardProgress | None], first: ShardProgress, batch_id: int, first_batch: int
) -> None:
    """Make sure that every shard of the previous batch has committed it."""
    shards = [progress.get(number) for number in range(first.sharding.shards)]
    next_batches = {each and each.next_batch for each in shards}
    if next_batches == {first.next_batch} and first.next_batch < batch_id:
        if batch_id == first_batch:
            return
        raise PreviousBatchIncomplete(
            f"batch {batch_id} is about to run, and the last one that this sink has written is {first.next_batch - 1}. "
            "A function has to give it each batch, also those without rows. If there were no rows between, pass "
            f"first_batch={batch_id}"
        )
    if next_batches != {batch_id}:
        raise PreviousBatchIncomplete(
            f"batch {batch_id} is about to run, the last batch that shard 0 has committed is {first.next_batch - 1}, "
            f"and not all of its {len(shards)} shards have committed batch {batch_id - 1}. Was the checkpoint replaced?"
        )
