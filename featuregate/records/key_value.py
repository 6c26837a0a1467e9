"""What all keys and values of coordinators' records have in common."""

from typing import ClassVar

from featuregate.wire.schema import Flexible, Structure, structure


@structure
class Key(Structure):
    """The key of a record. Keys are never flexible (KIP-915), so equal keys have equal bytes; keys are hashable."""

    RECORD_TYPE: ClassVar[int]
    """The number that begins the key. Kafka's schemas call it ``apiKey``, and up to 4.0 the version of the key."""


@structure
class Value(Flexible):
    """The value of a record."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """The lowest and the highest version that can be read, inclusive."""
    FLEXIBLE_FROM: ClassVar[int] = 0
    """The first version with compact lengths and tagged fields."""
