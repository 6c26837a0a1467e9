"""Whether the committed offsets of a group move: since when one has stood still while there was more to consume. Pure.

Brokers do not report when an offset was committed, so that it takes two looks at a group to see which ones move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featuregate_confluent.latch.protocol import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """What was seen of one partition."""

    offset: int | None
    """The committed offset; None: there is none."""
    end: int
    """The end that a consumer with ``read_committed`` comes to."""
    first_end: int
    """The end when the committed offset was first seen where it is."""
    since: float
    """When that was, in seconds of a clock that does not jump."""

    @property
    def lag(self) -> int | None:
        """The offsets between the committed one and the end; None without a committed one."""
        return None if self.offset is None else max(0, self.end - self.offset)

    def stalled_seconds(self, now: float) -> float | None:
        """Return for how long the offset has not moved, although there was more to consume; None: it moves, or is done.

        The last offset of a partition may be the marker of a transaction, which nothing consumes.
        """
        grown = self.end > self.first_end and self.lag != 0
        behind = self.lag is not None and self.lag > 1
        return now - self.since if (grown or behind) and now > self.since else None


def observe(
    before: Mapping[Partition, PartitionProgress],
    offsets: Mapping[Partition, int | None],
    ends: Mapping[Partition, int],
    now: float,
) -> dict[Partition, PartitionProgress]:
    """Return the progress of each partition, after another look at the group."""
    return {
        key: replace(before[key], end=end)
        if key in before and before[key].offset == offsets.get(key)
        else PartitionProgress(offset=offsets.get(key), end=end, first_end=end, since=now)
        for key, end in ends.items()
    }
