"""Encode and decode the structures of `featuregate.wire.schema`.

A codec reads a schema once for each version; after that a structure costs about one call for each field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_args, get_origin

from featuregate.budgets import MOST_TAGS
from featuregate.values import default_of, fields
from featuregate.wire.readers import ClassicReader, FlexibleReader, Reader
from featuregate.wire.schema import Before, FixedVersion, Flexible, Read, Scalar, Structure, Tag, Versions, Write
from featuregate.wire.writers import ClassicWriter, FlexibleWriter, Writer

if TYPE_CHECKING:
    from dataclasses import Field

    _SetField = Callable[[Structure, Any], None]


class _FieldCodec(NamedTuple):
    """Reads and writes one field, or one element of an array."""

    read: Read
    write: Write
    smallest: int
    """The fewest bytes that the field takes."""


def _write_octets(writer: Writer, value: bytes, _: str) -> None:
    writer.octets(value)


_SIMPLE: Final[Mapping[tuple[Any, bool], tuple[_FieldCodec, _FieldCodec]]] = {
    (str, False): (_FieldCodec(Reader.string, Writer.string, 2), _FieldCodec(Reader.string, Writer.string, 1)),
    (str, True): (
        _FieldCodec(Reader.nullable_string, Writer.nullable_string, 2),
        _FieldCodec(Reader.nullable_string, Writer.nullable_string, 1),
    ),
    (bytes, False): (_FieldCodec(Reader.octets, _write_octets, 4), _FieldCodec(Reader.octets, _write_octets, 1)),
}
"""By type and whether it is nullable: the codecs of classic versions and of flexible versions."""


class _Tagged(NamedTuple):
    name: str
    label: str
    codec: _FieldCodec
    default: Any
    set_field: _SetField


class StructureCodec:
    """The fields of one structure, in one version. Errors name a field by its ``label``, the path to the field.

    Reading sets the slots directly. The ``__init__`` of a structure sets each field by its name, which takes
    about as long as the rest of the decoding.
    """

    __slots__ = (
        "_cls",
        "_defaults",
        "_flexible",
        "_reads",
        "_required_defaults",
        "_set_unknown",
        "_tagged",
        "_writes",
        "smallest",
    )

    def __init__(self, cls: type[Structure], version: int, *, flexible: bool, prefix: str = "") -> None:
        self._cls = cls
        self._flexible = flexible
        self._reads: list[tuple[_SetField, Read, str]] = []
        self._writes: list[tuple[str, Write, str]] = []
        self._tagged: dict[int, _Tagged] = {}
        self._defaults: list[tuple[_SetField, Any]] = []
        self._required_defaults: list[tuple[str, str, Any]] = []
        self._set_unknown = _setter(cls, "unknown_tags") if issubclass(cls, Flexible) else None
        self.smallest = int(flexible)  # the count of tagged fields
        for declared in fields(cls):
            if declared.name != "unknown_tags":
                self._add(declared, version, prefix)

    def _add(self, declared: Field[Any], version: int, prefix: str) -> None:
        hint = declared.type  # no text: modules with schemas evaluate their annotations, which takes no time here
        name, label, set_field = declared.name, prefix + declared.name, _setter(self._cls, declared.name)
        versions, tag = _mark(hint, Versions) or Versions(0), _mark(hint, Tag)
        is_there = versions.first <= version <= versions.last
        default = default_of(declared)  # structures share it: they are frozen, and mappings in them never change
        if tag or not is_there:
            self._defaults.append((set_field, default))
        if not is_there:
            if not versions.ignorable:
                self._required_defaults.append((name, label, default))
            return
        codec = _codec(hint, version, label, flexible=self._flexible, tagged=bool(tag))
        if tag:
            self._tagged[tag.number] = _Tagged(name, label, codec, default, set_field)
        else:
            self._reads.append((set_field, codec.read, label))
            self._writes.append((name, codec.write, label))
            self.smallest += codec.smallest

    def decode(self, data: bytes, title: str, at: int = 0, *, most_tags: int = MOST_TAGS) -> Any:
        """Decode all of ``data[at:]``; raises `RemoteWireError` with the place that does not parse."""
        reader = (FlexibleReader if self._flexible else ClassicReader)(data, title, at)
        reader.tags_left = most_tags
        structure = self.read(reader)
        reader.finish()
        return structure

    def encode(self, structure: Structure, title: str, number: int | None = None) -> bytes:
        """Encode a structure, behind a number if given. Raises `LocalWireError`: this version cannot hold a value."""
        writer = (FlexibleWriter if self._flexible else ClassicWriter)(title)
        if number is not None:
            writer.int16(number, "number")
        self.write(writer, structure)
        return bytes(writer.out)

    def read(self, reader: Reader, _label: str = "") -> Any:
        """Read one structure."""
        structure = object.__new__(self._cls)
        for set_field, read, label in self._reads:
            set_field(structure, read(reader, label))
        for set_field, default in self._defaults:
            set_field(structure, default)
        if self._set_unknown:
            self._set_unknown(structure, self._read_tagged(reader, structure))
        return structure

    def _read_tagged(self, reader: Reader, structure: Structure) -> dict[int, bytes]:
        unknown = {}
        for number, inner in reader.tagged().items():
            known = self._tagged.get(number)
            if known is None:
                unknown[number] = inner.rest()
            else:
                known.set_field(structure, known.codec.read(inner, known.label))
                inner.finish()
        return unknown

    def write(self, writer: Writer, structure: Any, _label: str = "") -> None:
        """Write one structure."""
        for name, label, default in self._required_defaults:
            if getattr(structure, name) != default:
                raise writer.error("this version has no such field", label)
        for name, write, label in self._writes:
            write(writer, getattr(structure, name), label)
        if self._flexible:
            writer.tags(self._tags(writer, structure))

    def _tags(self, writer: Writer, structure: Flexible) -> dict[int, bytes]:
        if taken := self._tagged.keys() & structure.unknown_tags.keys():
            raise writer.error(f"{sorted(taken)} are known tags, which have their own fields", "unknown_tags")
        tags = dict(structure.unknown_tags)
        for number, known in self._tagged.items():
            value = getattr(structure, known.name)
            if value != known.default:
                inner = FlexibleWriter(writer.message)
                known.codec.write(inner, value, known.label)
                tags[number] = bytes(inner.out)
        return tags


def _setter(cls: type[Structure], name: str) -> _SetField:
    set_field: _SetField = getattr(cls, name).__set__
    return set_field


def _mark(hint: Any, kind: type[Any]) -> Any:
    """Return the mark of this kind of a field's type; None where there is none."""
    return next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, kind)), None)


def _codec(hint: Any, version: int, label: str, *, flexible: bool, tagged: bool = False) -> _FieldCodec:
    older = _mark(hint, Before)
    if scalar := older.scalar if older and version < older.first else _mark(hint, Scalar):
        return _FieldCodec(scalar.read, scalar.write, scalar.size)
    if get_origin(hint) is Annotated:
        fixed = _mark(hint, FixedVersion)
        return _codec(hint.__origin__, fixed.version if fixed else version, label, flexible=flexible, tagged=tagged)
    choices = get_args(hint)
    nullable = NoneType in choices
    if nullable:
        (hint,) = (choice for choice in choices if choice is not NoneType)
    if simple := _SIMPLE.get((hint, nullable)):
        return simple[flexible]
    if get_origin(hint) is tuple:
        return _array(hint, version, label, flexible=flexible, nullable=nullable)
    inner = StructureCodec(hint, version, flexible=flexible, prefix=f"{label}.")
    if nullable:
        return _nullable_structure(inner, tagged=tagged)
    return _FieldCodec(inner.read, inner.write, inner.smallest)


def _array(hint: Any, version: int, label: str, *, flexible: bool, nullable: bool) -> _FieldCodec:
    element = get_args(hint)[0]
    codec = _codec(element, version, label, flexible=flexible)
    scalar = _mark(element, Scalar)
    letter = scalar.letter if scalar else ""
    count = Reader.nullable_count if nullable else Reader.count

    def read(reader: Reader, label: str) -> tuple[Any, ...] | None:
        size = count(reader, label, codec.smallest)
        if size is None:
            return None
        if letter:
            return struct.unpack_from(f">{size}{letter}", reader.buffer, reader.take(size * codec.smallest, label))
        return tuple([codec.read(reader, label) for _ in range(size)])

    def write(writer: Writer, values: tuple[Any, ...] | None, label: str) -> None:
        writer.length(-1 if values is None else len(values))
        for value in values or ():
            codec.write(writer, value, label)

    return _FieldCodec(read, write, 1 if flexible else 4)


def _nullable_structure(inner: StructureCodec, *, tagged: bool) -> _FieldCodec:
    """Encode null before the structure, as Kafka's generated code does: a negative byte, in a tagged field a varint."""

    def read(reader: Reader, label: str) -> Any:
        is_there = reader.uvarint(label) if tagged else reader.int8(label) >= 0
        return inner.read(reader, label) if is_there else None

    def write(writer: Writer, structure: Structure | None, label: str) -> None:
        if tagged:
            writer.uvarint(structure is not None)
        else:
            writer.int8(-1 if structure is None else 1, label)
        if structure is not None:
            inner.write(writer, structure, label)

    return _FieldCodec(read, write, 1)
