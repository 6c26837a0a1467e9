"""How a declared record becomes bytes and back.

A declaration of `featuregate.records.schema` is read once for each version; after that a record costs
about one call for each of its fields.
"""

from __future__ import annotations

import dataclasses
import struct
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from featuregate.records.schema import Flexible, In, Scalar, Tag
from featuregate.wire.readers import MOST_ELEMENTS, ClassicReader, FlexibleReader, Reader
from featuregate.wire.writers import ClassicWriter, FlexibleWriter, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from featuregate.records.schema import Key, Read, Structure, Value, Write

    _Put = Callable[[Structure, Any], None]

__all__ = ["Layout"]


class Layout:
    """How a key, or one version of a value, lies on the wire behind the number that begins it."""

    __slots__ = ("_flexible", "_plan", "_title")

    def __init__(self, cls: type[Structure], version: int, title: str, *, flexible: bool) -> None:
        self._flexible = flexible
        self._plan = _Plan(cls, version, flexible=flexible)
        self._title = title

    @classmethod
    def of_key(cls, key: type[Key]) -> Layout:
        """Lay a key out; keys have no versions."""
        return cls(key, 0, key.__name__, flexible=False)

    @classmethod
    def of_value(cls, value: type[Value], version: int) -> Layout:
        """Lay one version of a value out."""
        return cls(value, version, f"{value.__name__} v{version}", flexible=version >= value.FLEXIBLE_FROM)

    def decode(self, data: bytes, at: int) -> Any:
        """Read ``data[at:]``, all of it; `RemoteWireError` says where it does not parse."""
        reader = (FlexibleReader if self._flexible else ClassicReader)(data, self._title, at)
        reader.tags_left = MOST_ELEMENTS  # more than a message is believed: an assignment has one for each topic
        structure = self._plan.read(reader)
        reader.finish()
        return structure

    def encode(self, number: int, structure: Structure) -> bytes:
        """Write the number and the structure; `LocalWireError` where there are no bytes for them."""
        writer = (FlexibleWriter if self._flexible else ClassicWriter)(self._title)
        writer.int16(number, "number")
        self._plan.write(writer, structure)
        return bytes(writer.out)


class _Codec(NamedTuple):
    """How one field, or one element of an array, is read and written."""

    read: Read
    write: Write
    smallest: int
    """The fewest bytes that one can take."""


def _write_octets(writer: Writer, value: bytes, _: str) -> None:
    writer.octets(value)


_SIMPLE: Final[Mapping[tuple[Any, bool], tuple[_Codec, _Codec]]] = {
    (str, False): (_Codec(Reader.string, Writer.string, 2), _Codec(Reader.string, Writer.string, 1)),
    (str, True): (
        _Codec(Reader.nullable_string, Writer.nullable_string, 2),
        _Codec(Reader.nullable_string, Writer.nullable_string, 1),
    ),
    (bytes, False): (_Codec(Reader.octets, _write_octets, 4), _Codec(Reader.octets, _write_octets, 1)),
}
"""By type, and whether it may be null: of classic versions, and of flexible ones."""


class _Tagged(NamedTuple):
    """A tagged field."""

    name: str
    label: str
    codec: _Codec
    default: Any
    put: _Put


class _Plan:
    """The fields of one structure, in one version. ``label`` is what errors call a field, with those it lies in.

    Reading puts values into slots, past the ``__init__`` of a frozen dataclass: that one sets each field by its name,
    which takes about as long as everything else.
    """

    __slots__ = (
        "_cls",
        "_defaults",
        "_flexible",
        "_put_unknown",
        "_reads",
        "_tagged",
        "_unsayable",
        "_writes",
        "smallest",
    )

    def __init__(self, cls: type[Structure], version: int, *, flexible: bool, prefix: str = "") -> None:
        self._cls = cls
        self._flexible = flexible
        self._reads: list[tuple[_Put, Read, str]] = []
        self._writes: list[tuple[str, Write, str]] = []
        self._tagged: dict[int, _Tagged] = {}
        self._defaults: list[tuple[_Put, Any]] = []
        self._unsayable: list[tuple[str, str, Any]] = []
        self._put_unknown = _put(cls, "unknown_tags") if issubclass(cls, Flexible) else None
        self.smallest = int(flexible)  # the count of tagged fields
        hints = get_type_hints(cls, include_extras=True)
        for declared in dataclasses.fields(cls):
            if declared.name != "unknown_tags":
                self._add(declared, hints[declared.name], version, prefix)

    def _add(self, declared: dataclasses.Field[Any], hint: Any, version: int, prefix: str) -> None:
        name, label, put = declared.name, prefix + declared.name, _put(self._cls, declared.name)
        lives, tag = _mark(hint, In) or In(0), _mark(hint, Tag)
        is_there = lives.first <= version <= lives.last
        if tag or not is_there:
            self._defaults.append((put, declared.default))
        if not is_there:
            if not lives.ignorable:
                self._unsayable.append((name, label, declared.default))
            return
        codec = _codec(hint, version, label, flexible=self._flexible, tagged=bool(tag))
        if tag:
            self._tagged[tag.number] = _Tagged(name, label, codec, declared.default, put)
        else:
            self._reads.append((put, codec.read, label))
            self._writes.append((name, codec.write, label))
            self.smallest += codec.smallest

    def read(self, reader: Reader, _label: str = "") -> Any:
        """Read one structure."""
        structure = object.__new__(self._cls)
        for put, read, label in self._reads:
            put(structure, read(reader, label))
        for put, default in self._defaults:
            put(structure, default)
        if self._put_unknown:
            self._put_unknown(structure, self._read_tagged(reader, structure))
        return structure

    def _read_tagged(self, reader: Reader, structure: Structure) -> dict[int, bytes]:
        """Read the tagged fields, and give those that are not known."""
        unknown = {}
        for number, inner in reader.tagged().items():
            known = self._tagged.get(number)
            if known is None:
                unknown[number] = inner.rest()
            else:
                known.put(structure, known.codec.read(inner, known.label))
                inner.finish()
        return unknown

    def write(self, writer: Writer, structure: Any, _label: str = "") -> None:
        """Write one structure."""
        for name, label, default in self._unsayable:
            if getattr(structure, name) != default:
                raise writer.error("this version cannot say it", label)
        for name, write, label in self._writes:
            write(writer, getattr(structure, name), label)
        if self._flexible:
            writer.tags(self._tags(writer, structure))

    def _tags(self, writer: Writer, structure: Flexible) -> dict[int, bytes]:
        if taken := self._tagged.keys() & structure.unknown_tags.keys():
            raise writer.error(f"{sorted(taken)} are known, and have fields of their own", "unknown_tags")
        tags = dict(structure.unknown_tags)
        for number, known in self._tagged.items():
            value = getattr(structure, known.name)
            if value != known.default:
                inner = FlexibleWriter(writer.message)
                known.codec.write(inner, value, known.label)
                tags[number] = bytes(inner.out)
        return tags


def _put(cls: type[Structure], name: str) -> _Put:
    """Give what sets a field of a new structure."""
    put: _Put = getattr(cls, name).__set__
    return put


def _mark(hint: Any, kind: type[Any]) -> Any:
    """Find what a declaration says about a field; None where it says nothing."""
    return next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, kind)), None)


def _codec(hint: Any, version: int, label: str, *, flexible: bool, tagged: bool = False) -> _Codec:
    """Find how a declared type is read and written."""
    if scalar := _mark(hint, Scalar):
        return _Codec(scalar.read, scalar.write, scalar.size)
    if get_origin(hint) is Annotated:
        return _codec(hint.__origin__, version, label, flexible=flexible, tagged=tagged)
    choices = get_args(hint)
    nullable = NoneType in choices
    if nullable:
        (hint,) = (choice for choice in choices if choice is not NoneType)
    if simple := _SIMPLE.get((hint, nullable)):
        return simple[flexible]
    if get_origin(hint) is tuple:
        return _array(hint, version, label, flexible=flexible, nullable=nullable)
    inner = _Plan(hint, version, flexible=flexible, prefix=f"{label}.")
    if not nullable:
        return _Codec(inner.read, inner.write, inner.smallest)
    return _nullable_tagged_structure(inner) if tagged else _nullable_structure(inner)


def _array(hint: Any, version: int, label: str, *, flexible: bool, nullable: bool) -> _Codec:
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

    return _Codec(read, write, 1 if flexible else 4)


def _nullable_structure(inner: _Plan) -> _Codec:
    """Put a byte before a structure: negative for null, as in Kafka's generated code."""

    def read(reader: Reader, label: str) -> Any:
        return None if reader.int8(label) < 0 else inner.read(reader, label)

    def write(writer: Writer, structure: Structure | None, label: str) -> None:
        writer.int8(-1 if structure is None else 1, label)
        if structure is not None:
            inner.write(writer, structure, label)

    return _Codec(read, write, 1)


def _nullable_tagged_structure(inner: _Plan) -> _Codec:
    """Put a varint before a structure: zero for null. In a tagged field, Kafka's generated code has this instead."""

    def read(reader: Reader, label: str) -> Any:
        return inner.read(reader, label) if reader.uvarint(label) else None

    def write(writer: Writer, structure: Structure | None, label: str) -> None:
        writer.uvarint(structure is not None)
        if structure is not None:
            inner.write(writer, structure, label)

    return _Codec(read, write, 1)
