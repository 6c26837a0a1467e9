"""Readers of Kafka's primitive types, which check every length.

Two encodings exist side by side. Older versions of a message are classic: two- and four-byte lengths. From the
version in `Message.FLEXIBLE_FROM` on they are flexible (KIP-482): lengths are unsigned varints plus one, and each
structure ends with tagged fields. `ClassicReader` and `FlexibleReader` differ in just that.

Readers are total. Whatever the bytes, a read either gives a value or raises `RemoteWireError` that says which field
and where; a length is compared with what is left before anything is made of it.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final, TypeVar

from featuregate.budgets import MOST_ELEMENTS, MOST_TAGS
from featuregate.errors import RemoteWireError

T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UUID: Final = 16
_UUID_TEXT: Final = 22
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_VARINT_BITS: Final = 32
_CONTINUES: Final = 0x80
"""The bit of a varint's byte that is set where another byte follows."""
_NULL: Final = "null, which it must not be"


class Reader(ABC):
    """A cursor over ``buffer[at:end]``; errors name the ``message``."""

    __slots__ = ("at", "buffer", "end", "message", "tags_left")

    def __init__(self, buffer: bytes, message: str, at: int = 0, end: int | None = None) -> None:
        self.buffer = buffer
        self.message = message
        self.at = at
        self.end = len(buffer) if end is None else end
        self.tags_left = MOST_TAGS

    def error(self, problem: str, field: str, at: int | None = None) -> RemoteWireError:
        """Make the error of a field that begins at ``at``, by default at the cursor."""
        return RemoteWireError(problem, f"{self.message}: {field}", self.at if at is None else at)

    def take(self, size: int, field: str) -> int:
        """Move past ``size`` bytes, and return their start."""
        at = self.at
        if size > self.end - at:
            raise self.error(f"wanted {_bytes(size)}, {self.end - at} left", field)
        self.at = at + size
        return at

    def int8(self, field: str) -> int:
        """Read one byte, signed."""
        value: int = _INT8.unpack_from(self.buffer, self.take(1, field))[0]
        return value

    def int16(self, field: str) -> int:
        """Read two bytes, big-endian, signed."""
        value: int = _INT16.unpack_from(self.buffer, self.take(2, field))[0]
        return value

    def int32(self, field: str) -> int:
        """Read four bytes, big-endian, signed."""
        value: int = _INT32.unpack_from(self.buffer, self.take(4, field))[0]
        return value

    def int64(self, field: str) -> int:
        """Read eight bytes, big-endian, signed."""
        value: int = _INT64.unpack_from(self.buffer, self.take(8, field))[0]
        return value

    def uint16(self, field: str) -> int:
        """Read two bytes, big-endian, unsigned."""
        return self.int16(field) & 0xFFFF

    def uuid(self, field: str) -> str:
        """Read sixteen bytes, as Kafka prints them: URL-safe base64 without padding, 22 characters."""
        at = self.take(_UUID, field)
        return b2a_base64(self.buffer[at : at + _UUID]).translate(_URL_SAFE)[:_UUID_TEXT].decode()

    def boolean(self, field: str) -> bool:
        """Read one byte; anything but zero is true, as in Kafka's ``Readable``."""
        return self.buffer[self.take(1, field)] != 0

    def uvarint(self, field: str) -> int:
        """Read an unsigned varint of at most 32 bits: seven bits a byte, the lowest first."""
        start = self.at
        if start < self.end and self.buffer[start] < _CONTINUES:  # the usual case
            self.at = start + 1
            return self.buffer[start]
        value = 0
        for shift in range(0, _VARINT_BITS, 7):
            byte = self.buffer[self.take(1, field)]
            value |= (byte & ~_CONTINUES) << shift
            if byte < _CONTINUES and value >> _VARINT_BITS == 0:
                return value
        raise self.error("varint of more than 32 bits", field, start)

    @abstractmethod
    def string_length(self, field: str) -> int:
        """Read the length of a string in bytes, -1 for null."""

    @abstractmethod
    def length(self, field: str) -> int:
        """Read the length of an array or of bytes, -1 for null."""

    @abstractmethod
    def tagged(self) -> Mapping[int, Reader]:
        """Read the tagged fields at the end of a structure, each as a reader of its bytes; none in classic versions."""

    def tags(self) -> dict[int, bytes]:
        """Read the tagged fields at the end of a structure as bytes."""
        return {tag: reader.rest() for tag, reader in self.tagged().items()}

    def nullable_string(self, field: str) -> str | None:
        """Read UTF-8 text, or null."""
        start = self.at
        size = self.string_length(field)
        if size == -1:
            return None
        if size < 0:
            raise self.error(f"negative length {size}", field, start)
        at = self.take(size, field)
        try:
            return self.buffer[at : at + size].decode()
        except UnicodeDecodeError as error:
            raise self.error("not UTF-8", field, at + error.start) from None

    def string(self, field: str) -> str:
        """Read UTF-8 text that must not be null."""
        start = self.at
        value = self.nullable_string(field)
        if value is None:
            raise self.error(_NULL, field, start)
        return value

    def octets(self, field: str) -> bytes:
        """Read bytes that must not be null."""
        start = self.at
        size = self.length(field)
        if size < 0:
            raise self.error(_NULL if size == -1 else f"negative length {size}", field, start)
        at = self.take(size, field)
        return self.buffer[at : at + size]

    def count(self, field: str, smallest: int, most: int = MOST_ELEMENTS) -> int:
        """Read the number of elements of an array that must not be null; otherwise as `nullable_count`."""
        start = self.at
        count = self.nullable_count(field, smallest, most)
        if count is None:
            raise self.error(_NULL, field, start)
        return count

    def nullable_count(self, field: str, smallest: int, most: int = MOST_ELEMENTS) -> int | None:
        """Read the number of elements of an array, None for null.

        ``smallest`` is the size in bytes of the smallest element that there can be: an array that cannot fit into
        what is left is refused here, before a loop or an allocation believes it. So is one of more than ``most``.
        """
        start = self.at
        count = self.length(field)
        if count == -1:
            return None
        if count < 0:
            raise self.error(f"negative count {count}", field, start)
        if count * smallest > self.end - self.at:
            raise self.error(f"{count} elements cannot fit into {_bytes(self.end - self.at)}", field, start)
        if count > most:
            raise self.error(f"{count} elements, more than the {most} that are believed", field, start)
        return count

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        at, self.at = self.at, self.end
        return self.buffer[at : self.end]

    def finish(self) -> None:
        """Refuse bytes after the end of the message."""
        if self.at != self.end:
            raise self.error(f"{_bytes(self.end - self.at)} left over", "end")


class ClassicReader(Reader):
    """Reads classic versions, before a message became flexible."""

    __slots__ = ()

    string_length = Reader.int16
    length = Reader.int32

    def tagged(self) -> Mapping[int, Reader]:
        """Return none: classic versions have no tagged fields."""
        return {}


class FlexibleReader(Reader):
    """Reads flexible versions: compact lengths, tagged fields (KIP-482)."""

    __slots__ = ()

    def length(self, field: str) -> int:
        """Read a varint of length plus one, so that zero is null."""
        return self.uvarint(field) - 1

    string_length = length

    def tagged(self) -> Mapping[int, Reader]:
        """Read the tagged fields, which must be in ascending order, each once."""
        fields: dict[int, Reader] = {}
        previous = -1
        count = self.uvarint("tags")
        self.tags_left -= count
        if self.tags_left < 0:
            raise self.error(f"more than the {MOST_TAGS} tagged fields that are believed of one message", "tags")
        for _ in range(count):
            start = self.at
            tag = self.uvarint("tags")
            if tag <= previous:
                raise self.error(f"tag {tag} after tag {previous}: tags ascend and never repeat", "tags", start)
            size = self.uvarint("tags")
            at = self.take(size, "tags")
            fields[tag] = FlexibleReader(self.buffer, self.message, at, at + size)
            previous = tag
        return fields


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
