"""How records are declared: one frozen dataclass for each of Kafka's schemas.

Its fields stand in the order of the schema, with types that say how they lie on the wire: ``Int32``, ``str``,
``bytes``, ``Uuid``, another `Structure`, ``tuple[..., ...]`` for an array, ``| None`` for what may be null. `In` and
`Tag` say in which versions a field exists, and that it is a tagged one (KIP-482). Type checkers see ``int`` and
``str``; `featuregate.records.layout` sees the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from featuregate.wire.readers import Reader
from featuregate.wire.writers import Writer

__all__ = [
    "ZERO_UUID",
    "Flexible",
    "In",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Key",
    "Scalar",
    "Structure",
    "Tag",
    "UInt16",
    "Uuid",
    "Value",
]

Read = Callable[[Reader, str], Any]
Write = Callable[[Writer, Any, str], None]

ZERO_UUID: Final = "A" * 22
"""Kafka's ``Uuid.ZERO_UUID``: no topic id."""


class Scalar(NamedTuple):
    """A primitive type that is the same in every version."""

    name: str
    """What Kafka's schemas call it."""
    read: Read
    write: Write
    size: int
    letter: str = ""
    """In `struct`'s alphabet, where it has one: then an array of them is unpacked at once."""


Int8 = Annotated[int, Scalar("int8", Reader.int8, Writer.int8, 1, "b")]
Int16 = Annotated[int, Scalar("int16", Reader.int16, Writer.int16, 2, "h")]
UInt16 = Annotated[int, Scalar("uint16", Reader.uint16, Writer.uint16, 2, "H")]
Int32 = Annotated[int, Scalar("int32", Reader.int32, Writer.int32, 4, "i")]
Int64 = Annotated[int, Scalar("int64", Reader.int64, Writer.int64, 8, "q")]
Uuid = Annotated[str, Scalar("uuid", Reader.uuid, Writer.uuid, 16)]
"""In the text that Kafka shows: URL-safe base64 without padding, 22 characters."""


class In(NamedTuple):
    """The versions that have a field, inclusive; where there is no mark, all have it."""

    first: int
    last: int = 32767
    ignorable: bool = True
    """Whether a version without the field drops what it says; if not, encoding such a value is refused."""


class Tag(NamedTuple):
    """The number of a tagged field."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What keys, values and the structures inside of values have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Structure):
    """Says whose state a record is. Keys are never flexible (KIP-915), so equal keys are equal bytes; they hash."""

    RECORD_TYPE: ClassVar[int]
    """The number that begins the key. Kafka's schemas call it ``apiKey``, and up to 4.0 the version of the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flexible(Structure):
    """A structure that ends with tagged fields, at least in its newer versions."""

    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Tagged fields that are newer than this code, as they came; encoding writes them back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Flexible):
    """What a record says."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """The lowest and the highest version that we read, inclusive."""
    FLEXIBLE_FROM: ClassVar[int] = 0
    """The first version with compact lengths and tagged fields."""
