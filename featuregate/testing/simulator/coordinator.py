"""Coordinators and their logs, as values: what an older coordinator reads of a newer one's records (KIP-915).

A log is an iterable of records, each the bytes of a key and of a value, ``None`` for a tombstone: created by
:meth:`SimulatedCoordinator.write`, or read from a partition of a real internal topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.errors import RemoteWireError
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    Key,
    UnknownKey,
    Value,
    keep_tagged_fields,
    tagged_fields,
)
from featuregate.records.consumer_groups import ConsumerGroupPartitionMetadataKey
from featuregate.records.offsets import LegacyOffsetCommitKey, OffsetCommitValue
from featuregate.records.releases import coordinator_release
from featuregate.records.transactions import TransactionLogValue
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.values import Value as SimulatorValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from featuregate.records.releases import CoordinatorRelease, Loss, RecordReading

LogRecord = tuple[bytes, bytes | None]
"""The key and the value of one record; a value of ``None`` is a tombstone."""

_LOGS: Final = {log.topic: log for log in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)}
_FEATURES: Final = {"ConsumerGroup": "group.version", "Share": "share.version", "StreamsGroup": "streams.version"}
"""Prefixes of the names of keys that a coordinator writes only while a feature is at level 1 or higher."""


class RecordLoss(NamedTuple):
    """A record of which a coordinator loses a part or all."""

    position: int
    """The position of the record in the log, from 0."""
    record: CoordinatorRecord
    """The whole record."""
    loss: Loss
    """What the coordinator does with the record, and why."""


class LoadResult(NamedTuple):
    """The state of a coordinator after it has read a log."""

    state: Mapping[Key, Value]
    """The last value of each key, without the tagged fields that the coordinator does not know."""
    losses: tuple[RecordLoss, ...] = ()
    """The records that it did not read whole, up to the record at which it stopped."""
    available: bool = True
    """Whether the coordinator serves the partition."""

    @property
    def stopped(self) -> RecordLoss | None:
        """The record at which the coordinator stopped; ``None`` if it read the whole log."""
        return next((lost for lost in self.losses if lost.loss.kind == "stops"), None)


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedCoordinator(SimulatorValue):
    """A coordinator in a broker of a release, in a cluster with these finalized levels.

    Raises
    ------
    LookupError
        The release has no coordinator for this topic.
    """

    release: str
    """Such as ``"3.4.1"``. Patch releases differ here, so ``"3.4"`` is less precise."""
    topic: str = "__consumer_offsets"
    """The topic of the log: that of group coordinators, or ``__transaction_state`` or ``__share_group_state``."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """The finalized levels above 0. They decide what the coordinator writes, not what it reads."""
    consumer_protocol: bool | None = field(default=None, kw_only=True)
    """The group coordinator that runs, where a release has two."""

    def __post_init__(self) -> None:
        if self.topic not in self._reader.reads:
            raise LookupError(f"Kafka {self.release} has no coordinator that keeps {self.topic}")

    @property
    def writes(self) -> Mapping[int, int]:
        """The record types that it may write, each with the usual version of its values.

        They follow from what it reads. KIP-915: until there is a tagged field to write, a coordinator writes the
        newest version without tagged fields, so that older coordinators can read it. An offset with an expiry time has
        version 1, the only version with that field. Layouts of an early access are left out, because they are unknown.
        """
        reads = self._reader.reads[self.topic]
        return {
            number: self._version(value, reads[number])
            for number, (key, value) in _LOGS[self.topic].records.items()
            if number in reads and not reads[number].early_access and self._may_write(key, reads)
        }

    def write(self, key: Key, value: Value | None = None) -> LogRecord:
        """Return the record that it would write, without tagged fields that it does not know.

        Raises
        ------
        ScriptError
            It does not write records of this type.
        LocalWireError
            Kafka's format cannot hold this value.
        """
        log = _LOGS[self.topic]
        if value is None and key.RECORD_TYPE in self._reader.reads[self.topic]:
            return log.encode(CoordinatorRecord(key, None))
        version = self.writes.get(key.RECORD_TYPE)
        if value is None or version is None:
            raise ScriptError(f"{self!r} writes no {type(key).__name__}")
        if isinstance(value, OffsetCommitValue) and value.expire_timestamp != -1:
            version = 1
        flexible = version >= value.FLEXIBLE_FROM
        tagged = self._reader.reads[self.topic][key.RECORD_TYPE].tagged_fields if flexible else ()
        return log.encode(CoordinatorRecord(key, keep_tagged_fields(value, tagged), version))

    def find_losses(self, records: Iterable[LogRecord]) -> Iterator[RecordLoss]:
        """Yield the records that it would not read whole, including those after a record at which it stops.

        Raises
        ------
        RemoteWireError
            A record does not parse; a note says which.
        """
        for index, record, loss in self._read(records):
            if loss:
                yield RecordLoss(index, record, loss)

    def load(self, records: Iterable[LogRecord]) -> LoadResult:
        """Read a log, as when the broker becomes the leader of the partition. Raises as `find_losses`.

        After a coordinator has stopped at a record, the group coordinator before KIP-848 serves the partition as if it
        were empty (``GroupMetadataManager.doLoadGroupsAndOffsets``), the transaction coordinator serves what it had
        read (``TransactionStateManager.loadTransactionMetadata``), and the others do not serve the partition
        (``CoordinatorRuntime``). Misread bytes are not simulated: the state leaves them out.
        """
        reads = self._reader.reads[self.topic]
        state: dict[Key, Value] = {}
        losses: list[RecordLoss] = []
        for index, record, loss in self._read(records):
            if loss:
                losses.append(RecordLoss(index, record, loss))
            kind = loss and loss.kind
            if kind == "stops":
                return self._stopped(state, tuple(losses))
            if kind == "skips" or isinstance(record.key, UnknownKey):
                continue
            if kind == "misreads" or not isinstance(record.value, Value):
                state.pop(record.key, None)
            else:
                state[record.key] = keep_tagged_fields(record.value, reads[record.record_type].tagged_fields)
        return LoadResult(state, tuple(losses))

    def rewrite(self, records: Iterable[LogRecord]) -> tuple[LogRecord, ...]:
        """Return the log after the coordinator has written its whole state again, and the log was compacted.

        This is the most that it can change: records that it skips stay as they are, because it cannot write tombstones
        for them either. Raises as `find_losses`.
        """
        records, writes = tuple(records), self.writes
        state = self.load(records).state.items()
        return compact((*records, *(self.write(key, value) for key, value in state if key.RECORD_TYPE in writes)))

    def permanent_losses(self, records: Iterable[LogRecord]) -> Mapping[Key, tuple[str, ...]]:
        """Return, for each key, the tagged fields that are gone from the log after `rewrite`. Raises as `find_losses`.

        There are no names where a whole value is gone: a value of a skipped version, or one after a record at which a
        transaction coordinator stopped. That coordinator serves and writes what it had read up to there, so that older
        values win, even those of ids that have expired since.
        """
        records = tuple(records)
        before, after = (
            {record.key: record.value for _, record, _ in self._read(log)}
            for log in (compact(records), self.rewrite(records))
        )
        losses = ((key, _lost_fields(before.get(key), now)) for key, now in after.items() if isinstance(key, Key))
        return {key: names for key, names in losses if names is not None}

    @property
    def _reader(self) -> CoordinatorRelease:
        return coordinator_release(self.release, consumer_protocol=self.consumer_protocol)

    def _read(self, records: Iterable[LogRecord]) -> Iterator[tuple[int, CoordinatorRecord, Loss | None]]:
        log, reader = _LOGS[self.topic], self._reader
        for index, (key, value) in enumerate(records):
            try:
                record = log.decode(key, value)
            except RemoteWireError as error:
                error.add_note(f"in record {index}, counted from 0")
                raise
            tagged = tagged_fields(record.value) if isinstance(record.value, Value) else ()
            yield index, record, reader.loss(self.topic, record.record_type, record.version, tagged)

    def _stopped(self, state: Mapping[Key, Value], losses: tuple[RecordLoss, ...]) -> LoadResult:
        if self.topic == TRANSACTION_STATE.topic:
            return LoadResult(state, losses)
        return LoadResult({}, losses, available=not self._reader.consumer_protocol)

    def _may_write(self, key: type[Key], reads: Mapping[int, RecordReading]) -> bool:
        if key is LegacyOffsetCommitKey:
            return False
        if key is ConsumerGroupPartitionMetadataKey and "metadata_hash" in reads[3].tagged_fields:
            return False  # the hash has replaced it
        needed = [feature for begin, feature in _FEATURES.items() if key.__name__.startswith(begin)]
        return all(self.levels.get(feature, 0) >= 1 for feature in needed)

    def _version(self, value: type[Value], reading: RecordReading) -> int:
        has_tagged = bool(reading.tagged_fields)
        if value is TransactionLogValue:
            has_tagged = has_tagged and self.levels.get("transaction.version", 0) >= 1
        _, newest = reading.versions
        return newest if has_tagged or not value.FLEXIBLE_FROM else min(newest, value.FLEXIBLE_FROM - 1)


def _lost_fields(before: object, now: object) -> tuple[str, ...] | None:
    """Return the tagged fields that a value has lost: none if the value is another one, ``None`` if it is complete."""
    if not isinstance(before, Value) or not isinstance(now, Value):
        return None if now == before else ()
    if keep_tagged_fields(now, ()) != keep_tagged_fields(before, ()):
        return ()
    kept = tagged_fields(now)
    return tuple(name for name in tagged_fields(before) if name not in kept) or None


def compact(records: Iterable[LogRecord]) -> tuple[LogRecord, ...]:
    """Keep the last record of each key, in order, and no tombstones, as after ``delete.retention.ms``."""
    last: dict[bytes, bytes | None] = {}
    for key, value in records:
        last.pop(key, None)
        last[key] = value
    return tuple((key, value) for key, value in last.items() if value is not None)
