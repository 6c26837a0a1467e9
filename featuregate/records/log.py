"""The internal topics, and how a record of one is read: its type, then its key, then the version of its value.

Every key begins with two bytes that say the type of the record, every value with two bytes that say its version. A
type or a version that is newer than this code is kept as it came, so that a reader can go on with the next record, as
coordinators do that have KIP-915.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.records.layout import Layout
from featuregate.wire.writers import ClassicWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from featuregate.records.schema import Key, Value

__all__ = ["CoordinatorLog", "Record", "UnknownKey", "UnknownValue"]

_NUMBER: Final = 2
"""Bytes of the number that begins keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """The key of a record type that is newer than this code, or was given up before its release."""

    record_type: int
    data: bytes
    """What follows the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownValue:
    """A value of a version that is newer than this code, or any value of a record type that is."""

    data: bytes
    """What follows the version."""


class Record(NamedTuple):
    """One record of an internal topic. ``match record: case Record(OffsetCommitKey() as key, None): ...``."""

    key: Key | UnknownKey
    value: Value | UnknownValue | None
    """None for a tombstone, which deletes what earlier records with this key said."""
    version: int | None = None
    """Of the value; None for a tombstone."""

    @property
    def record_type(self) -> int:
        """The number that begins the key."""
        return self.key.record_type if isinstance(self.key, UnknownKey) else self.key.RECORD_TYPE


class _RecordType:
    """How the records of one type are read and written; worked out when the first of them comes."""

    def __init__(self, key: type[Key], value: type[Value]) -> None:
        self.key = key
        self.value = value

    @functools.cached_property
    def of_key(self) -> Layout:
        return Layout.of_key(self.key)

    @functools.cached_property
    def of_value(self) -> Mapping[int, Layout]:
        """By version."""
        lowest, highest = self.value.VERSIONS
        return {version: Layout.of_value(self.value, version) for version in range(lowest, highest + 1)}


class CoordinatorLog:
    """The records of one internal topic, such as ``__consumer_offsets``."""

    __slots__ = ("_types", "topic")

    topic: str
    """Its name."""

    def __init__(self, topic: str, records: Iterable[tuple[type[Key], type[Value]]]) -> None:
        self.topic = topic
        self._types = {key.RECORD_TYPE: _RecordType(key, value) for key, value in records}

    def __repr__(self) -> str:
        return f"<CoordinatorLog {self.topic}>"

    @property
    def records(self) -> Mapping[int, tuple[type[Key], type[Value]]]:
        """The classes of key and value that each type of record has, by its number."""
        return {number: (known.key, known.value) for number, known in self._types.items()}

    def decode(self, key: bytes, value: bytes | None) -> Record:
        """Read a record, all of it; None is the value of a tombstone.

        Raises
        ------
        RemoteWireError
            The bytes do not parse; it says where, counted from the first byte of the key or of the value.
        """
        whose = self.decode_key(key)
        if value is None:
            return Record(whose, None)
        version = self._number(value, "value")
        layout = None if isinstance(whose, UnknownKey) else self._types[whose.RECORD_TYPE].of_value.get(version)
        if layout is None:
            return Record(whose, UnknownValue(data=value[_NUMBER:]), version)
        return Record(whose, layout.decode(value, _NUMBER), version)

    def decode_key(self, key: bytes) -> Key | UnknownKey:
        """Read a key alone, for who does not need every record's value. Raises as `decode`."""
        record_type = self._number(key, "key")
        known = self._types.get(record_type)
        if known is None:
            return UnknownKey(record_type=record_type, data=key[_NUMBER:])
        whose: Key = known.of_key.decode(key, _NUMBER)
        return whose

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Write a record, as key and value; the value is None for a tombstone.

        Raises
        ------
        LocalWireError
            Kafka has no bytes for this: not in this topic, not with this key, or not in this version of the value.
        """
        known = self._types.get(record.record_type)
        key = self._key(record.key, known)
        return key, None if record.value is None else self._value(record.value, record.version, known)

    def _key(self, key: Key | UnknownKey, known: _RecordType | None) -> bytes:
        if isinstance(key, UnknownKey):
            return _numbered(key.record_type, key.data)
        if known is None or type(key) is not known.key:
            raise LocalWireError(f"{self.topic} has no {type(key).__name__}")
        return known.of_key.encode(key.RECORD_TYPE, key)

    def _value(self, value: Value | UnknownValue, version: int | None, known: _RecordType | None) -> bytes:
        if version is None:
            raise LocalWireError(f"{type(value).__name__}: say which version to write")
        if isinstance(value, UnknownValue):
            return _numbered(version, value.data)
        if known is None or type(value) is not known.value:
            raise LocalWireError(f"{self.topic} has no {type(value).__name__} under this key")
        if version not in known.of_value:
            lowest, highest = value.VERSIONS
            raise LocalWireError(f"{type(value).__name__}: version {version} is not one of {lowest} to {highest}")
        return known.of_value[version].encode(version, value)

    def _number(self, data: bytes, half: str) -> int:
        if len(data) < _NUMBER:
            raise RemoteWireError(f"wanted {_NUMBER} bytes, {len(data)} left", f"{self.topic}: {half}", 0)
        return int.from_bytes(data[:_NUMBER], "big", signed=True)


def _numbered(number: int, data: bytes) -> bytes:
    writer = ClassicWriter("what is kept as it came")
    writer.int16(number, "number")
    return bytes(writer.out) + data
