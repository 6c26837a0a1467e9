"""Keys and values of records: classes made from the table of Kafka's schemas, ``record_schemas.json``. Pure.

A class has the name of its schema, as in ``from featuregate.records.schemas import OffsetCommitKey``, and its fields
have theirs, in snake case. A structure is an attribute of the class around it, as in Kafka's own code:
``GroupMetadataValue.MemberMetadata``. The table is that of the newest release, in the words of Kafka's schemas;
``scripts/coordinators.py`` writes it. Type checkers take the classes of messages for ``Any``.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple

from featuregate.catalog.load import load
from featuregate.wire.schema import (
    ZERO_UUID,
    Flexible,
    Int8,
    Int16,
    Int32,
    Int64,
    Structure,
    Tag,
    UInt16,
    Uuid,
    Versions,
    structure,
)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


@structure
class Key(Structure):
    """The key of a record. Keys are never flexible (KIP-915), so equal keys have equal bytes; keys are hashable."""

    RECORD_TYPE: ClassVar[int]
    """The number that begins the key. Kafka's schemas call it ``apiKey``, and up to 4.0 the version of the key."""


@structure
class Value(Flexible):
    """The value of a record."""

    VERSIONS: ClassVar[tuple[int, int]]
    """The lowest and the highest version that can be read, inclusive."""
    FLEXIBLE_FROM: ClassVar[int]
    """The first version with compact lengths and tagged fields."""


class TransactionState(IntEnum):
    """Values of ``transaction_status`` in a ``TransactionLogValue``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


def tagged_fields(value: Value) -> tuple[str, ...]:
    """Return the names of the tagged fields that are neither null nor the default: what older coordinators ignore.

    The name of a field inside a structure begins with that of the structure's field, as in
    ``assigned_partitions.assignment_epochs``. A field that is newer than this code is named by its number: ``tag 7``.
    """
    return tuple(dict.fromkeys(_tagged(value, "")))


def _tagged(decoded: Flexible, prefix: str) -> Iterator[str]:
    cls: Any = type(decoded)
    for name, default, is_tagged in _fields(cls):
        content = getattr(decoded, name)
        if is_tagged and content is not None and content != default:
            yield prefix + name
        if isinstance(content, Flexible):
            yield from _tagged(content, f"{prefix}{name}.")
        elif isinstance(content, tuple):
            for inner in content:
                if isinstance(inner, Flexible):
                    yield from _tagged(inner, f"{prefix}{name}.")
    yield from (f"{prefix}tag {number}" for number in decoded.unknown_tags)


@functools.cache
def _fields(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Return the name and the default of each field, and whether it is tagged."""
    return tuple(
        (field.name, field.default, any(isinstance(mark, Tag) for mark in getattr(field.type, "__metadata__", ())))
        for field in dataclasses.fields(cls)
    )


class _Type(NamedTuple):
    """A type of Kafka's schemas."""

    hint: Any
    """The type in Python."""
    zero: Any
    """The default of fields of the type."""


_TYPES: Final = {
    "int8": _Type(Int8, 0),
    "int16": _Type(Int16, 0),
    "uint16": _Type(UInt16, 0),
    "int32": _Type(Int32, 0),
    "int64": _Type(Int64, 0),
    "uuid": _Type(Uuid, ZERO_UUID),
    "string": _Type(str, ""),
    "bytes": _Type(bytes, b""),
}


def _message(name: str, schema: Mapping[str, Any]) -> type[Any]:
    """Make the class of a key or a value, and those of its structures."""
    types = dict(_TYPES)
    inner: dict[str, Any] = {}
    for each, fields in schema.get("commonStructs", {}).items():  # the innermost are the first
        cls = inner[each] = _class(Flexible, f"{name}.{each}", fields, types)
        types[each] = _Type(cls, cls(**{_snake(field["name"]): _type(field, types).zero for field in fields}))
    if "apiKey" in schema:
        return _class(Key, name, schema["fields"], types, RECORD_TYPE=schema["apiKey"])
    lowest, _, highest = schema["validVersions"].partition("-")
    inner |= {"VERSIONS": (int(lowest), int(highest or lowest)), "FLEXIBLE_FROM": int(schema["flexibleVersions"][:-1])}
    return _class(Value, name, schema["fields"], types, **inner)


def _class(
    base: type[Structure], qualname: str, fields: list[Mapping[str, Any]], types: Mapping[str, _Type], **attributes: Any
) -> type[Any]:
    hints = {}
    for field in fields:
        name = _snake(field["name"])
        hints[name] = _hint(field, types)
        if "default" in field:
            attributes[name] = None if field["default"] == "null" else field["default"]
        elif "versions" in field or "tag" in field:
            attributes[name] = _type(field, types).zero
    attributes |= {"__module__": __name__, "__qualname__": qualname, "__annotations__": hints}
    attributes["__doc__"] = f"Kafka's ``{qualname}``."
    return structure(type(qualname.rpartition(".")[2], (base,), attributes))


def _hint(field: Mapping[str, Any], types: Mapping[str, _Type]) -> Any:
    hint = _type(field, types).hint
    if "nullableVersions" in field:
        hint = hint | None
    marks: list[object] = [Tag(field["tag"])] if "tag" in field else []
    if "versions" in field:
        first, newer, _ = field["versions"].partition("+")
        last = {} if newer else {"last": int(first)}
        marks.append(Versions(int(first), **last, ignorable=field.get("ignorable", False)))
    return Annotated[hint, *marks] if marks else hint


def _type(field: Mapping[str, Any], types: Mapping[str, _Type]) -> _Type:
    element = field["type"].removeprefix("[]")
    found = types[element]
    return found if element == field["type"] else _Type(GenericAlias(tuple, (found.hint, ...)), ())


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


_TABLE: Final = load("record_schemas")
_CLASSES: Final = {name: _message(name, schema) for name, schema in _TABLE["messages"].items()}
TOPICS: Final[Mapping[str, tuple[tuple[type[Key], type[Value]], ...]]] = {
    topic: tuple((_CLASSES[key], _CLASSES[value]) for key, value in names) for topic, names in _TABLE["topics"].items()
}
"""The classes of key and value of each record type, by topic."""

globals().update(_CLASSES)
