"""Coordinators and the logs that they keep, as values: what an older one makes of what a newer one wrote (KIP-915).

A log is any iterable of records, each the bytes of a key and of a value, ``None`` for a tombstone: made by
:meth:`Coordinator.write`, or read from a partition of a real internal topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate import records as wire
from featuregate.errors import RemoteWireError
from featuregate.records.releases import coordinator
from featuregate.testing.simulator.events import ScriptError
from featuregate.testing.simulator.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from featuregate.records.releases import Coordinator as Reader
    from featuregate.records.releases import Loss, RecordReading

__all__ = ["Coordinator", "Loaded", "LogRecord", "NotUnderstood", "compact"]

LogRecord = tuple[bytes, bytes | None]
"""The key and the value of one record; a value of ``None`` is a tombstone."""

_LOGS: Final = {log.topic: log for log in (wire.CONSUMER_OFFSETS, wire.TRANSACTION_STATE, wire.SHARE_GROUP_STATE)}
_FEATURES: Final = {"ConsumerGroup": "group.version", "Share": "share.version", "StreamsGroup": "streams.version"}
"""How the names of the keys begin that are written only while a feature is at level 1 or more."""


class NotUnderstood(NamedTuple):
    """A record that a coordinator does not read whole."""

    at: int
    """Its place among those that were given, from 0."""
    record: wire.Record
    """All that it says."""
    loss: Loss
    """What becomes of it, and why."""


class Loaded(NamedTuple):
    """What a coordinator knows when it has read a log."""

    state: Mapping[wire.Key, wire.Value]
    """What it goes by: the last value of each key, without the tagged fields that it does not know."""
    lost: tuple[NotUnderstood, ...] = ()
    """The records that it did not read whole, up to the one at which it stopped."""
    served: bool = True
    """Whether it serves the partition."""

    @property
    def stopped(self) -> NotUnderstood | None:
        """The record behind which nothing was read; ``None`` where the whole log was."""
        return next((lost for lost in self.lost if lost.loss.kind == "stops"), None)


@dataclass(frozen=True, slots=True, repr=False)
class Coordinator(Value):
    """The coordinator of one kind in a broker of a release, in a cluster with these levels.

    Raises
    ------
    LookupError
        The release has no such coordinator.
    """

    release: str
    """Such as ``"3.4.1"``, which tells more than ``"3.4"`` here."""
    topic: str = "__consumer_offsets"
    """Whose coordinator it is: of groups, or of ``__transaction_state`` or ``__share_group_state``."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """The finalized features, as far as they are not 0: they decide what is written, never what is read."""
    consumer_protocol: bool | None = field(default=None, kw_only=True)
    """Which coordinator of groups runs, where a release has two; see `featuregate.records.releases.coordinator`."""

    def __post_init__(self) -> None:
        if self.topic not in self._reader.reads:
            raise LookupError(f"Kafka {self.release} has no coordinator that keeps {self.topic}")

    @property
    def writes(self) -> Mapping[int, int]:
        """The types of records that it may write, each with the version that values have as a rule.

        They follow from what it reads. KIP-915: until there is a tagged field to write, a coordinator writes the
        newest version that has none, so that older ones can follow it. An offset with an expiry of its own has
        version 1, the only one that can say it. Layouts of an early access are left out, as we do not know them.
        """
        reads = self._reader.reads[self.topic]
        return {
            number: self._version(value, reads[number])
            for number, (key, value) in _LOGS[self.topic].records.items()
            if number in reads and not reads[number].early_access and self._may_write(key, reads)
        }

    def write(self, key: wire.Key, value: wire.Value | None = None) -> LogRecord:
        """Make the record in which it would say this, without tagged fields that it has no words for.

        Raises
        ------
        ScriptError
            It writes no such records.
        LocalWireError
            Kafka has no bytes for this.
        """
        log = _LOGS[self.topic]
        if value is None and key.RECORD_TYPE in self._reader.reads[self.topic]:
            return log.encode(wire.Record(key, None))
        version = self.writes.get(key.RECORD_TYPE)
        if value is None or version is None:
            raise ScriptError(f"{self!r} writes no {type(key).__name__}")
        if isinstance(value, wire.OffsetCommitValue) and value.expire_timestamp != -1:
            version = 1
        flexible = version >= value.FLEXIBLE_FROM
        words = self._reader.reads[self.topic][key.RECORD_TYPE].tagged if flexible else ()
        return log.encode(wire.Record(key, wire.keep_tagged(value, words), version))

    def not_understood(self, records: Iterable[LogRecord]) -> Iterator[NotUnderstood]:
        """Give, one by one, the records that it would not read whole, also behind one at which it stops.

        Raises
        ------
        RemoteWireError
            A record does not parse; a note says which.
        """
        for at, record, loss in self._read(records):
            if loss:
                yield NotUnderstood(at, record, loss)

    def load(self, records: Iterable[LogRecord]) -> Loaded:
        """Let it read a log, as it does when a broker takes a partition over. Raises as `not_understood`.

        One that stops goes on in its own way. The coordinator of groups before KIP-848 serves the partition as if it
        were empty (``GroupMetadataManager.doLoadGroupsAndOffsets``), that of transactions with what it had read
        (``TransactionStateManager.loadTransactionMetadata``), the others not at all (``CoordinatorRuntime``). What
        becomes of misread bytes is not simulated: they are nobody's state.
        """
        reads = self._reader.reads[self.topic]
        state: dict[wire.Key, wire.Value] = {}
        lost: list[NotUnderstood] = []
        for at, record, loss in self._read(records):
            if loss:
                lost.append(NotUnderstood(at, record, loss))
            kind = loss and loss.kind
            if kind == "stops":
                return self._stopped(state, tuple(lost))
            if kind == "skips" or isinstance(record.key, wire.UnknownKey):
                continue
            if kind == "misreads" or not isinstance(record.value, wire.Value):
                state.pop(record.key, None)
            else:
                state[record.key] = wire.keep_tagged(record.value, reads[record.record_type].tagged)
        return Loaded(state, tuple(lost))

    def rewrite(self, records: Iterable[LogRecord]) -> tuple[LogRecord, ...]:
        """Give the log after it has written all that it serves once more, and the log was compacted.

        That is the most that it can do to what others wrote: records that it skips stay as they are, since it cannot
        write tombstones for them either. Raises as `not_understood`.
        """
        records, writes = tuple(records), self.writes
        said = self.load(records).state.items()
        return compact((*records, *(self.write(key, value) for key, value in said if key.RECORD_TYPE in writes)))

    def lost_for_good(self, records: Iterable[LogRecord]) -> Mapping[wire.Key, tuple[str, ...]]:
        """Name the tagged fields of each key that no coordinator finds any more after `rewrite`. Raises as it.

        There are no names where a whole value is gone: of a version that was skipped, or because it stands behind a
        record at which a coordinator of transactions stopped. That one serves what it had read up to there, and what
        was true before becomes true again, also for an id that has expired since.
        """
        records = tuple(records)
        before, after = (
            {record.key: record.value for _, record, _ in self._read(log)}
            for log in (compact(records), self.rewrite(records))
        )
        lost = ((key, _lost(before.get(key), now)) for key, now in after.items() if isinstance(key, wire.Key))
        return {key: names for key, names in lost if names is not None}

    @property
    def _reader(self) -> Reader:
        return coordinator(self.release, consumer_protocol=self.consumer_protocol)

    def _read(self, records: Iterable[LogRecord]) -> Iterator[tuple[int, wire.Record, Loss | None]]:
        log, reader = _LOGS[self.topic], self._reader
        for at, (key, value) in enumerate(records):
            try:
                record = log.decode(key, value)
            except RemoteWireError as error:
                error.add_note(f"in record {at}, counted from 0")
                raise
            tagged = wire.tagged_fields(record.value) if isinstance(record.value, wire.Value) else ()
            yield at, record, reader.loss(self.topic, record.record_type, record.version, tagged)

    def _stopped(self, state: Mapping[wire.Key, wire.Value], lost: tuple[NotUnderstood, ...]) -> Loaded:
        if self.topic == wire.TRANSACTION_STATE.topic:
            return Loaded(state, lost)
        return Loaded({}, lost, served=not self._reader.consumer_protocol)

    def _may_write(self, key: type[wire.Key], reads: Mapping[int, RecordReading]) -> bool:
        if key is wire.LegacyOffsetCommitKey:
            return False
        if key is wire.ConsumerGroupPartitionMetadataKey and "metadata_hash" in reads[3].tagged:
            return False  # the hash has taken its place
        needed = [feature for begin, feature in _FEATURES.items() if key.__name__.startswith(begin)]
        return all(self.levels.get(feature, 0) >= 1 for feature in needed)

    def _version(self, value: type[wire.Value], reading: RecordReading) -> int:
        has_tagged = bool(reading.tagged)
        if value is wire.TransactionLogValue:
            has_tagged = has_tagged and self.levels.get("transaction.version", 0) >= 1
        _, newest = reading.versions
        return newest if has_tagged or not value.FLEXIBLE_FROM else min(newest, value.FLEXIBLE_FROM - 1)


def _lost(before: object, now: object) -> tuple[str, ...] | None:
    """Name the tagged fields that a value has lost; nothing where it is another one, ``None`` where it is whole."""
    if not isinstance(before, wire.Value) or not isinstance(now, wire.Value):
        return None if now == before else ()
    if wire.keep_tagged(now, ()) != wire.keep_tagged(before, ()):
        return ()
    kept = wire.tagged_fields(now)
    return tuple(name for name in wire.tagged_fields(before) if name not in kept) or None


def compact(records: Iterable[LogRecord]) -> tuple[LogRecord, ...]:
    """Keep the last record of each key, in their order, and no tombstones: ``delete.retention.ms`` is over."""
    last: dict[bytes, bytes | None] = {}
    for key, value in records:
        last.pop(key, None)
        last[key] = value
    return tuple((key, value) for key, value in last.items() if value is not None)
