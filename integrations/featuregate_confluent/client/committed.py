"""What a group has committed: read by a member once no transaction is open, or from outside as it is; and its progress.

Brokers do not report when an offset was committed, so that it takes two looks at a group to see which ones move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from featuregate.errors import ClosedError
from featuregate.printable import some
from featuregate_confluent.client import clients
from featuregate_confluent.client.pending import GroupUnreadable, PendingAnswer
from featuregate_confluent.errors import TakeoverTimedOut
from featuregate_confluent.latch import marks
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS
from featuregate_librdkafka.offsets import read_until_agreed

if TYPE_CHECKING:
    from featuregate_confluent.latch.protocol import Partition

CommittedOffset = tuple[int | None, marks.Mark]
"""The committed offset of a partition, None where there is none, and its mark."""

T = TypeVar("T")

_FIRST_ROUND: Final = 2.0  # seconds; each round waits twice as long as the one before
_PAUSE: Final = 0.1
_NAMED: Final = 8


class OffsetsReader:
    """Asks for a group's committed offsets with a consumer that never joins it, in a thread of its own.

    An admin client could ask without the thread. But where the group's coordinator has moved, as it does whenever a
    broker restarts, the answer ends the process: ``rd_kafka_handle_OffsetFetch`` looks for the group of a client that
    has none (librdkafka #5040). With ``read_committed`` there is no answer in time while a transaction holds an offset.
    """

    def __init__(self, config: Mapping[str, Any], group_id: str, *, isolation: str) -> None:
        self._config = config
        self._group_id = group_id
        self._isolation = isolation
        self._consumer: Consumer | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="featuregate-offsets")
        self._closed = False

    def ask(
        self, partitions: Sequence[Partition] | None, read: Callable[[list[TopicPartition]], T], timeout: float
    ) -> PendingAnswer[T]:
        """Ask for the offsets of partitions, or of all that this user may describe, and return at once."""
        if self._closed:
            raise ClosedError("this reader is closed")
        future = self._thread.submit(self._committed, partitions, timeout)
        return PendingAnswer(self, future, f"what group {self._group_id!r} has committed", read, timeout)

    def close(self) -> None:
        """Close the consumer, once the last request is answered or has timed out."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _committed(self, partitions: Sequence[Partition] | None, timeout: float) -> list[TopicPartition]:
        until = time.monotonic() + timeout
        if self._consumer is None:
            self._consumer = clients.reader(self._config, self._group_id, isolation=self._isolation)
        self._consumer.poll(0)  # no other call serves its log
        if partitions is None:
            topics = self._consumer.list_topics(timeout=timeout).topics
            partitions = [(name, number) for name, topic in topics.items() for number in topic.partitions]
        if not partitions:
            return []
        wanted = [TopicPartition(*partition) for partition in partitions]
        return self._consumer.committed(wanted, timeout=max(until - time.monotonic(), _PAUSE))


def stable_read(
    consumer: Consumer, partitions: Iterable[Partition], timeout: float
) -> dict[Partition, CommittedOffset]:
    """Return the committed offsets of partitions once no transaction holds any of them.

    ``consumer`` is the app's own, with ``isolation.level=read_committed``: librdkafka asks for stable offsets only
    then. It answers a pending transaction by timing out, as it does where the coordinator moves; both are asked again.
    Raises TakeoverTimedOut, GroupUnreadable, UnknownMark.
    """
    wanted = sorted(set(partitions))
    if not wanted:
        return {}
    until = time.monotonic() + timeout
    attempt_seconds = _FIRST_ROUND
    while True:
        left = max(until - time.monotonic(), _PAUSE)
        try:
            found = consumer.committed(
                [TopicPartition(*partition) for partition in wanted], timeout=min(left, attempt_seconds)
            )
        except KafkaException as error:
            if error.args[0].code() not in TRANSIENT_ERRORS:
                raise GroupUnreadable(f"the committed offsets of {named(wanted)}", error.args[0]) from error
            if time.monotonic() >= until:
                raise TakeoverTimedOut(_still_open(wanted, timeout)) from error
            time.sleep(_PAUSE)
            attempt_seconds *= 2
        else:
            return read_all("committed offsets", wanted, found)


def settled_read(
    consumer: Consumer, partitions: Iterable[Partition], timeout: float
) -> dict[Partition, CommittedOffset]:
    """Return what :func:`stable_read` does, of brokers before 2.5, once two answers agree. Raises as that."""
    wanted = sorted(set(partitions))
    if not wanted:
        return {}
    try:
        return read_until_agreed(lambda left: stable_read(consumer, wanted, left), timeout)
    except TimeoutError as changing:
        raise TakeoverTimedOut(_still_open(wanted, timeout)) from changing


def read_all(
    what: str, wanted: Sequence[Partition], found: Iterable[TopicPartition]
) -> dict[Partition, CommittedOffset]:
    """Read what was answered; whatever was asked and not answered is an error, not an offset that is not there."""
    read: dict[Partition, CommittedOffset] = {}
    for partition in found:
        place = (partition.topic, partition.partition)
        if partition.error is not None:
            raise GroupUnreadable(f"{what} in {named([place])}", partition.error)
        read[place] = (partition.offset if partition.offset >= 0 else None, marks.read(partition.metadata))
    missing = set(wanted) - read.keys()
    if missing:
        raise GroupUnreadable(f"{what} in {named(missing)}", None)
    return read


def named(partitions: Iterable[Partition]) -> str:
    """Name partitions for a sentence: ``orders[0], orders[1] and 30 more``."""
    return some((f"{topic}[{number}]" for topic, number in sorted(partitions)), _NAMED)


def _still_open(partitions: list[Partition], timeout: float) -> str:
    return (
        f"the committed offsets of {named(partitions)} did not settle within {timeout:g} s. Usually a transaction "
        "holds them that a member left open when it died: the broker ends it transaction.timeout.ms after it began, "
        "at most 10 s late; that member ends it at once when it is started again under its own name. "
        "If it lasts longer, the group's coordinator does not answer, or this user must not read the group"
    )


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
    """Return the progress of each partition, after another look at the group.

    A partition whose leader did not tell its end stands where it stood, unless its offset has moved.
    """
    kept = {key: found for key, found in before.items() if key not in ends and (key, found.offset) in offsets.items()}
    return kept | {
        key: replace(before[key], end=end)
        if key in before and before[key].offset == offsets.get(key)
        else PartitionProgress(offset=offsets.get(key), end=end, first_end=end, since=now)
        for key, end in ends.items()
    }
