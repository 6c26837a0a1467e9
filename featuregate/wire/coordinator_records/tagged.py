"""Which tagged fields a value has: what a coordinator that does not know them ignores (KIP-915)."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, get_type_hints

from featuregate.wire.coordinator_records.schema import Flexible, Tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.wire.coordinator_records.schema import Value

__all__ = ["tagged_fields"]


def tagged_fields(value: Value) -> tuple[str, ...]:
    """Name the tagged fields in which a value says anything but null or the default.

    A field of an inner structure goes behind the name of the field that it lies in, as in
    ``assigned_partitions.assignment_epochs``; one that is newer than this code has its number alone, as in ``tag 7``.
    """
    return tuple(dict.fromkeys(_tagged(value, "")))


def _tagged(structure: Flexible, prefix: str) -> Iterator[str]:
    cls: Any = type(structure)
    tags = _tags(cls)
    for field in dataclasses.fields(structure):
        said = getattr(structure, field.name)
        if field.name in tags and said is not None and said != field.default:
            yield prefix + field.name
        for inner in said if isinstance(said, tuple) else (said,):
            if isinstance(inner, Flexible):
                yield from _tagged(inner, f"{prefix}{field.name}.")
    yield from (f"{prefix}tag {number}" for number in structure.unknown_tags)


@functools.cache
def _tags(cls: Any) -> frozenset[str]:
    hints = get_type_hints(cls, include_extras=True)
    return frozenset(
        name for name, hint in hints.items() if any(isinstance(mark, Tag) for mark in getattr(hint, "__metadata__", ()))
    )
