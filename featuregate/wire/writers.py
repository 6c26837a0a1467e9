"""Writers of Kafka's primitive types, the reverse of `featuregate.wire.readers`.

A value that Kafka has no bytes for raises `LocalWireError`, before anything is sent.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final, TypeVar

from featuregate.errors import LocalWireError

T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_UINT16: Final = struct.Struct(">H")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_MAX_STRING: Final = 32767
"""Kafka's generated code refuses longer strings, compact ones too."""


class Writer(ABC):
    """Collects the bytes of one structure; ``message`` names it in errors."""

    __slots__ = ("message", "out")

    def __init__(self, message: str) -> None:
        self.message = message
        self.out = bytearray()

    def _pack(self, layout: struct.Struct, value: int, field: str) -> None:
        try:
            self.out += layout.pack(value)
        except struct.error:
            raise self.error(f"{value} does not fit into {layout.size * 8} bits", field) from None

    def error(self, problem: str, field: str) -> LocalWireError:
        """Make the error of a value that cannot be encoded."""
        return LocalWireError(f"{self.message}: {field}: {problem}")

    def int8(self, value: int, field: str) -> None:
        """Write one byte, signed."""
        self._pack(_INT8, value, field)

    def int16(self, value: int, field: str) -> None:
        """Write two bytes, big-endian, signed."""
        self._pack(_INT16, value, field)

    def int32(self, value: int, field: str) -> None:
        """Write four bytes, big-endian, signed."""
        self._pack(_INT32, value, field)

    def int64(self, value: int, field: str) -> None:
        """Write eight bytes, big-endian, signed."""
        self._pack(_INT64, value, field)

    def uint16(self, value: int, field: str) -> None:
        """Write two bytes, big-endian, unsigned."""
        self._pack(_UINT16, value, field)

    def uuid(self, value: str, field: str) -> None:
        """Write sixteen bytes, from the text that `Reader.uuid` returns."""
        try:
            data = urlsafe_b64decode(f"{value}==")
        except ValueError:  # not ASCII, or binascii.Error
            data = b""
        if urlsafe_b64encode(data) != f"{value}==".encode():
            raise self.error(f"{value!r} is not 16 bytes in URL-safe base64", field)
        self.out += data

    def boolean(self, *, value: bool) -> None:
        """Write one byte, 0 or 1."""
        self.out.append(1 if value else 0)

    def uvarint(self, value: int) -> None:
        """Write an unsigned varint."""
        while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    @abstractmethod
    def string_length(self, size: int) -> None:
        """Write the length of a string, -1 for null."""

    @abstractmethod
    def length(self, size: int) -> None:
        """Write the length of an array or of bytes, -1 for null."""

    @abstractmethod
    def tags(self, fields: Mapping[int, bytes]) -> None:
        """Write the tagged fields at the end of a structure; classic versions have none, and drop them."""

    def nullable_string(self, value: str | None, field: str) -> None:
        """Write UTF-8 text, or null."""
        if value is None:
            self.string_length(-1)
            return
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise self.error("not text that UTF-8 can carry", field) from None
        if len(data) > _MAX_STRING:
            raise self.error(f"{len(data)} bytes, Kafka allows {_MAX_STRING}", field)
        self.string_length(len(data))
        self.out += data

    def string(self, value: str, field: str) -> None:
        """Write UTF-8 text."""
        self.nullable_string(value, field)

    def octets(self, value: bytes) -> None:
        """Write bytes."""
        self.length(len(value))
        self.out += value


class ClassicWriter(Writer):
    """Writes classic versions, before a message became flexible."""

    __slots__ = ()

    def string_length(self, size: int) -> None:
        """Write two bytes."""
        self.int16(size, "length")

    def length(self, size: int) -> None:
        """Write four bytes."""
        self.int32(size, "length")

    def tags(self, fields: Mapping[int, bytes]) -> None:
        """Write nothing: classic versions have no tagged fields, and readers may ignore them."""


class FlexibleWriter(Writer):
    """Writes flexible versions: compact lengths, tagged fields (KIP-482)."""

    __slots__ = ()

    def length(self, size: int) -> None:
        """Write a varint of length plus one, so that zero is null."""
        self.uvarint(size + 1)

    string_length = length

    def tags(self, fields: Mapping[int, bytes]) -> None:
        """Write the tagged fields in ascending order."""
        self.uvarint(len(fields))
        for tag, data in sorted(fields.items()):
            self.uvarint(tag)
            self.uvarint(len(data))
            self.out += data
