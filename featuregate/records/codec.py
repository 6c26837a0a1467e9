"""Encode and decode keys, and values behind the numbers of their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate.budgets import MOST_ELEMENTS
from featuregate.wire.codec import StructureCodec
from featuregate.wire.readers import ClassicReader, FlexibleReader
from featuregate.wire.writers import ClassicWriter, FlexibleWriter

if TYPE_CHECKING:
    from featuregate.records.key_value import Key, Value
    from featuregate.wire.schema import Structure


class Codec:
    """Encodes and decodes a key, or one version of a value, behind the number that begins it."""

    __slots__ = ("_flexible", "_structure", "_title")

    def __init__(self, cls: type[Structure], version: int, title: str, *, flexible: bool) -> None:
        self._flexible = flexible
        self._structure = StructureCodec(cls, version, flexible=flexible)
        self._title = title

    @classmethod
    def of_key(cls, key: type[Key]) -> Codec:
        """Make the codec of a key; keys have no versions."""
        return cls(key, 0, key.__name__, flexible=False)

    @classmethod
    def of_value(cls, value: type[Value], version: int) -> Codec:
        """Make the codec of one version of a value."""
        return cls(value, version, f"{value.__name__} v{version}", flexible=version >= value.FLEXIBLE_FROM)

    def decode(self, data: bytes, at: int) -> Any:
        """Decode all of ``data[at:]``; raises `RemoteWireError` with the place that does not parse."""
        reader = (FlexibleReader if self._flexible else ClassicReader)(data, self._title, at)
        reader.tags_left = MOST_ELEMENTS  # more than in a message: an assignment has one for each topic
        structure = self._structure.read(reader)
        reader.finish()
        return structure

    def encode(self, number: int, structure: Structure) -> bytes:
        """Encode the number and the structure; raises `LocalWireError` where this version cannot hold a field."""
        writer = (FlexibleWriter if self._flexible else ClassicWriter)(self._title)
        writer.int16(number, "number")
        self._structure.write(writer, structure)
        return bytes(writer.out)
