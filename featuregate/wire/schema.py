"""Message schemas in Python: one frozen dataclass for each of Kafka's schemas.

The fields have the order of the schema, and types that define the encoding: ``Int32``, ``str``, ``bytes``, ``Uuid``,
another `Structure`, ``tuple[..., ...]`` for an array, ``| None`` for a nullable field. `Versions` and `Tag` have the
meaning of ``versions``, ``ignorable`` and ``tag`` in Kafka's schemas (KIP-482). Type checkers see ``int`` and ``str``;
`featuregate.wire.codec` reads the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, TypeVar, dataclass_transform

from featuregate.wire.readers import Reader
from featuregate.wire.writers import Writer

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


class Versions(NamedTuple):
    """The versions that have a field, inclusive; a field without this mark is in all versions."""

    first: int
    last: int = 32767
    ignorable: bool = True
    """Whether encoding drops the field in a version without it; if not, encoding raises `LocalWireError`."""


class Tag(NamedTuple):
    """The number of a tagged field."""

    number: int


class Before(NamedTuple):
    """A field that is encoded otherwise in versions before ``first``."""

    first: int
    scalar: Scalar


class FixedVersion(NamedTuple):
    """The version whose fields a structure has, in each version of the message around it."""

    version: int


class Structure:
    """Base of messages, of keys and values of records, and of the structures in them.

    It has the methods that `dataclass` writes into each class. That takes three quarters of the time in which a class
    is made, and a command waits for the classes of its messages.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init__(self, **values: Any) -> None:
        """Take the value of each field by its name; a field without a default must have one."""
        for each in fields(self):
            value = values.pop(each.name) if each.name in values else default_of(each)
            if value is MISSING:
                raise TypeError(f"{type(self).__name__}: {each.name} is missing")
            object.__setattr__(self, each.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(self))

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, each.name) for each in fields(self)]))

    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        return partial(type(self), **{each.name: getattr(self, each.name) for each in fields(self)}), ()


def default_of(declared: Field[Any]) -> Any:
    """Return the default of a field, ``MISSING`` where it has none."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


T = TypeVar("T", bound=Structure)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def structure(cls: type[T]) -> type[T]:
    """Make a subclass of `Structure` a frozen dataclass with slots, whose parameters are keywords."""
    return dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)


@structure
class Flexible(Structure):
    """A structure that ends with tagged fields, at least in its newer versions."""

    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Tagged fields that are newer than this code, as they came; encoding writes them back."""
