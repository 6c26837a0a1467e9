"""Message schemas in Python: one frozen dataclass for each of Kafka's schemas.

The fields have the order of the schema, and types that define the encoding: ``Int32``, ``str``, ``bytes``, ``Uuid``,
another `Structure`, ``tuple[..., ...]`` for an array, ``| None`` for a nullable field. `Versions` and `Tag` have the
meaning of ``versions``, ``ignorable`` and ``tag`` in Kafka's schemas (KIP-482). Type checkers see ``int`` and ``str``;
`featuregate.records.codec` reads the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from featuregate.wire.readers import Reader
from featuregate.wire.writers import Writer

__all__ = [
    "ZERO_UUID",
    "Flexible",
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
    "Versions",
]

Read = Callable[[Reader, str], Any]
Write = Callable[[Writer, Any, str], None]

ZERO_UUID: Final = "A" * 22
"""Kafka's ``Uuid.ZERO_UUID``: no topic id."""


class Scalar(NamedTuple):
    """A primitive type that is the same in every version."""

    name: str
    """The name in Kafka's schemas."""
    read: Read
    write: Write
    size: int
    letter: str = ""
    """Format character of `struct`, where there is one: then an array is unpacked in one call."""


Int8 = Annotated[int, Scalar("int8", Reader.int8, Writer.int8, 1, "b")]
Int16 = Annotated[int, Scalar("int16", Reader.int16, Writer.int16, 2, "h")]
UInt16 = Annotated[int, Scalar("uint16", Reader.uint16, Writer.uint16, 2, "H")]
Int32 = Annotated[int, Scalar("int32", Reader.int32, Writer.int32, 4, "i")]
Int64 = Annotated[int, Scalar("int64", Reader.int64, Writer.int64, 8, "q")]
Uuid = Annotated[str, Scalar("uuid", Reader.uuid, Writer.uuid, 16)]
"""As Kafka prints it: URL-safe base64 without padding, 22 characters."""


class Versions(NamedTuple):
    """The versions that have a field, inclusive; a field without this mark is in all versions."""

    first: int
    last: int = 32767
    ignorable: bool = True
    """Whether encoding drops the field in a version without it; if not, encoding raises `LocalWireError`."""


class Tag(NamedTuple):
    """The number of a tagged field."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Base of keys, values and the structures in values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Structure):
    """The key of a record. Keys are never flexible (KIP-915), so equal keys have equal bytes; keys are hashable."""

    RECORD_TYPE: ClassVar[int]
    """The number that begins the key. Kafka's schemas call it ``apiKey``, and up to 4.0 the version of the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flexible(Structure):
    """A structure that ends with tagged fields, at least in its newer versions."""

    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Tagged fields that are newer than this code, as they came; encoding writes them back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Flexible):
    """The value of a record."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """The lowest and the highest version that can be read, inclusive."""
    FLEXIBLE_FROM: ClassVar[int] = 0
    """The first version with compact lengths and tagged fields."""
