"""Internal topics of coordinators, and the encoding of their records.

Every key begins with two bytes for the record type, every value with two bytes for its version. A newer type or version
is kept as bytes, so a reader can continue with the next record, as coordinators with KIP-915 do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.budgets import MOST_ELEMENTS
from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.codec import StructureCodec
from featuregate.wire.writers import ClassicWriter

if TYPE_CHECKING:
    from featuregate.records.schemas import Key, Value

_NUMBER: Final = 2
"""Bytes of the number at the start of keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """The key of a record type that is newer than this code, or was removed before its release."""

    record_type: int
    data: bytes
    """The bytes after the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownValue:
    """A value of a version that is newer than this code, or any value of a record type that is."""

    data: bytes
    """The bytes after the version."""


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic: ``case CoordinatorRecord(OffsetCommitKey() as key, None): ...``."""

    key: Key | UnknownKey
    value: Value | UnknownValue | None
    """None for a tombstone, which deletes the earlier records with this key."""
    version: int | None = None
    """Version of the value; None for a tombstone."""

    @property
    def record_type(self) -> int:
        """The number that begins the key."""
        return self.key.record_type if isinstance(self.key, UnknownKey) else self.key.RECORD_TYPE


class _RecordType:
    """The codecs of one record type, made at their first use."""

    def __init__(self, key: type[Key], value: type[Value]) -> None:
        self.key = key
        self.value = value

    @functools.cached_property
    def key_codec(self) -> StructureCodec:
        return StructureCodec(self.key, 0, flexible=False)

    @functools.cached_property
    def value_codecs(self) -> Mapping[int, StructureCodec]:
        """By version."""
        cls, (lowest, highest) = self.value, self.value.VERSIONS
        return {
            version: StructureCodec(cls, version, flexible=version >= cls.FLEXIBLE_FROM)
            for version in range(lowest, highest + 1)
        }


class CoordinatorTopic:
    """The records of one internal topic, such as ``__consumer_offsets``."""

    __slots__ = ("_types", "topic")

    topic: str
    """Name of the topic."""

    def __init__(self, topic: str, records: Iterable[tuple[type[Key], type[Value]]]) -> None:
        self.topic = topic
        self._types = {key.RECORD_TYPE: _RecordType(key, value) for key, value in records}

    def __repr__(self) -> str:
        return f"<CoordinatorTopic {self.topic}>"

    @property
    def records(self) -> Mapping[int, tuple[type[Key], type[Value]]]:
        """The classes of key and value, by record type."""
        return {number: (known.key, known.value) for number, known in self._types.items()}

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord:
        """Decode a record; the value of a tombstone is None.

        Raises `RemoteWireError`: the bytes do not parse. The offset counts from the first byte of the key or of the
        value.
        """
        decoded = self.decode_key(key)
        if value is None:
            return CoordinatorRecord(decoded, None)
        version = self._number(value, "value")
        known = None if isinstance(decoded, UnknownKey) else self._types[decoded.RECORD_TYPE]
        if known is None or version not in known.value_codecs:
            return CoordinatorRecord(decoded, UnknownValue(data=value[_NUMBER:]), version)
        title = f"{known.value.__name__} v{version}"
        # More tags than in a message: an assignment has one for each topic.
        content = known.value_codecs[version].decode(value, title, _NUMBER, most_tags=MOST_ELEMENTS)
        return CoordinatorRecord(decoded, content, version)

    def decode_key(self, key: bytes) -> Key | UnknownKey:
        """Decode a key without its value. Raises the same as `decode`."""
        record_type = self._number(key, "key")
        known = self._types.get(record_type)
        if known is None:
            return UnknownKey(record_type=record_type, data=key[_NUMBER:])
        decoded: Key = known.key_codec.decode(key, known.key.__name__, _NUMBER)
        return decoded

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Encode a record as key and value; the value is None for a tombstone.

        Raises `LocalWireError`: the topic has no such key, the key no such value, or the value no such version or
        field.
        """
        known = self._types.get(record.record_type)
        key = self._key(record.key, known)
        return key, None if record.value is None else self._value(record.value, record.version, known)

    def _key(self, key: Key | UnknownKey, known: _RecordType | None) -> bytes:
        if isinstance(key, UnknownKey):
            return _numbered(key.record_type, key.data)
        if known is None or type(key) is not known.key:
            raise LocalWireError(f"{self.topic} has no {type(key).__name__}")
        return known.key_codec.encode(key, known.key.__name__, key.RECORD_TYPE)

    def _value(self, value: Value | UnknownValue, version: int | None, known: _RecordType | None) -> bytes:
        if version is None:
            raise LocalWireError(f"{type(value).__name__}: give the version to write")
        if isinstance(value, UnknownValue):
            return _numbered(version, value.data)
        if known is None or type(value) is not known.value:
            raise LocalWireError(f"{self.topic} has no {type(value).__name__} under this key")
        if version not in known.value_codecs:
            lowest, highest = value.VERSIONS
            raise LocalWireError(f"{type(value).__name__}: version {version} is not one of {lowest} to {highest}")
        return known.value_codecs[version].encode(value, f"{known.value.__name__} v{version}", version)

    def _number(self, data: bytes, half: str) -> int:
        if len(data) < _NUMBER:
            raise RemoteWireError(f"wanted {_NUMBER} bytes, {len(data)} left", f"{self.topic}: {half}", 0)
        return int.from_bytes(data[:_NUMBER], "big", signed=True)


def _numbered(number: int, data: bytes) -> bytes:
    writer = ClassicWriter("unknown record")
    writer.int16(number, "number")
    return bytes(writer.out) + data
