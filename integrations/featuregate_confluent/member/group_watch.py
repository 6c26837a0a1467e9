"""Looks once a minute whether the committed offsets of the whole group move, and says which ones stand still.

Brokers may keep a member that no process is, with its partitions, until the next rebalance (seen on 2.4): every other
member does its work, and only the group's offsets show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final

from featuregate.logs import get_logger
from featuregate_confluent.client.committed import CommittedOffset, PartitionProgress, observe
from featuregate_confluent.client.pending import GroupUnreadable, PendingAnswer
from featuregate_confluent.events import PartitionsStalled, SwitchEvent
from featuregate_confluent.member.state import MemberState, StalledPartition

if TYPE_CHECKING:
    from featuregate_confluent.client.group import GroupDescription, GroupReader, PendingEnds
    from featuregate_confluent.latch.protocol import Partition

logger = get_logger("featuregate.confluent")

WATCH_SECONDS: Final = 60.0
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class _Look:
    members: PendingAnswer[GroupDescription]
    offsets: PendingAnswer[dict[Partition, CommittedOffset]]
    ends: PendingEnds

    @property
    def done(self) -> bool:
        return self.members.done and self.offsets.done and self.ends.done


@dataclass(eq=False, repr=False)
class GroupWatch:
    """Compares the offsets of a group with those of a minute before, without blocking the loop of its member.

    ``longest_round``: seconds for which a partition may stand still before an event says so: a round may take as long.
    """

    state: MemberState
    _: KW_ONLY
    reader: GroupReader
    emit: Callable[[SwitchEvent], None]
    longest_round: float
    clock: Callable[[], float] = time.monotonic
    _look: _Look | None = field(default=None, init=False)
    _progress: dict[Partition, PartitionProgress] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._next_at = self.clock() + WATCH_SECONDS

    def step(self) -> None:
        """Ask once a minute, and read what was answered. Raises `UnknownMark` where newer software has committed."""
        now, partitions = self.clock(), self.state.group.input_partitions
        if self._look is None:
            if partitions and now >= self._next_at:
                self._next_at = now + WATCH_SECONDS
                reader = self.reader
                self._look = _Look(reader.ask(), reader.ask_offsets(partitions), reader.ask_ends(partitions))
        elif self._look.done:
            look, self._look = self._look, None
            try:
                self._apply(look, now)
            except GroupUnreadable as unread:
                logger.info("%s; asking again in a minute", unread)

    def _apply(self, look: _Look, now: float) -> None:
        owners = look.members.result().owners
        offsets = {key: offset for key, (offset, _) in look.offsets.result().items()}
        self._progress = observe(self._progress, offsets, look.ends.result(), now)
        stalled = tuple(self._stalled(now))
        before = {each.partition for each in self.state.stalled if each.seconds > self.longest_round}
        self.state.stalled = tuple(
            StalledPartition(
                partition=f"{key[0]}[{key[1]}]",
                owner=str(owners[key]) if key in owners else None,
                lag=self._progress[key].lag,
                seconds=seconds,
            )
            for key, seconds in stalled
        )
        late = [each for each in self.state.stalled if each.seconds > self.longest_round]
        if {each.partition for each in late} - before:
            self.emit(PartitionsStalled(partitions=len(late), why="; ".join(map(str, late[:_NAMED]))))

    def _stalled(self, now: float) -> Iterator[tuple[Partition, float]]:
        for key, progress in sorted(self._progress.items()):
            seconds = progress.stalled_seconds(now)
            if seconds is not None:
                yield key, seconds
