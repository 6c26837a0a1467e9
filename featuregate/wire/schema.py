"""Message schemas in Python: one frozen dataclass for each of Kafka's schemas.

The fields have the order of the schema, and types that define the encoding: ``Int32``, ``str``, ``bytes``, ``Uuid``,
another `Structure`, ``tuple[..., ...]`` for an array, ``| None`` for a nullable field. `Versions` and `Tag` have the
meaning of ``versions``, ``ignorable`` and ``tag`` in Kafka's schemas (KIP-482). Type checkers see ``int`` and ``str``;
`featuregate.wire.codec` reads the rest.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar, dataclass_transform

from featuregate.values import dataclass, field
from featuregate.wire.readers import Reader
from featuregate.wire.writers import Writer

if TYPE_CHECKING:
    from dataclasses import Field

Read = Callable[[Reader, str], Any]
Write = Callable[[Writer, Any, str], None]

ZERO_UUID: Final = "A" * 22
"""Kafka's ``Uuid.ZERO_UUID``: no topic id."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A primitive type that is the same in every version."""

    name: str
    """The name in Kafka's schemas."""
    read: Read
    write: Write
    size: int
    letter: str = ""
    """Format character of `struct`, where there is one: then an array is unpacked in one call."""


def _write_boolean(writer: Writer, value: bool, _: str) -> None:  # noqa: FBT001 - a `Write`
    writer.boolean(value=value)


Boolean = Annotated[bool, Scalar("bool", Reader.boolean, _write_boolean, 1)]
Int8 = Annotated[int, Scalar("int8", Reader.int8, Writer.int8, 1, "b")]
Int16 = Annotated[int, Scalar("int16", Reader.int16, Writer.int16, 2, "h")]
UInt16 = Annotated[int, Scalar("uint16", Reader.uint16, Writer.uint16, 2, "H")]
Int32 = Annotated[int, Scalar("int32", Reader.int32, Writer.int32, 4, "i")]
Int64 = Annotated[int, Scalar("int64", Reader.int64, Writer.int64, 8, "q")]
Uuid = Annotated[str, Scalar("uuid", Reader.uuid, Writer.uuid, 16)]
"""As Kafka prints it: URL-safe base64 without padding, 22 characters."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that have a field, inclusive; a field without this mark is in all versions."""

    first: int
    last: int = 32767
    ignorable: bool = True
    """Whether encoding drops the field in a version without it; if not, encoding raises `LocalWireError`."""


@dataclass(frozen=True, slots=True)
class Tag:
    """The number of a tagged field."""

    number: int


@dataclass(frozen=True, slots=True)
class Before:
    """A field that is encoded otherwise in versions before ``first``."""

    first: int
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class FixedVersion:
    """The version whose fields a structure has, in each version of the message around it."""

    version: int


class Structure:
    """Base of messages, of keys and values of records, and of the structures in them."""

    __slots__ = ()
    __dataclass_fields__: "ClassVar[dict[str, Field[Any]]]"


T = TypeVar("T", bound=Structure)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def structure(cls: type[T]) -> type[T]:
    """Make a subclass of `Structure` a frozen dataclass with slots, whose parameters are keywords."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


@structure
class Flexible(Structure):
    """A structure that ends with tagged fields, at least in its newer versions."""

    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Tagged fields that are newer than this code, as they came; encoding writes them back."""
