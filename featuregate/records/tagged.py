"""Tagged fields of values: a coordinator ignores those that it does not know (KIP-915)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_type_hints

from featuregate.wire.schema import Flexible, Tag

if TYPE_CHECKING:
    from featuregate.records.key_value import Value


def tagged_fields(value: Value) -> tuple[str, ...]:
    """Return the names of the tagged fields that are neither null nor the default.

    The name of a field inside a structure begins with that of the structure's field, as in
    ``assigned_partitions.assignment_epochs``. A field that is newer than this code is named by its number: ``tag 7``.
    """
    return tuple(dict.fromkeys(_tagged(value, "")))


def _tagged(structure: Flexible, prefix: str) -> Iterator[str]:
    cls: Any = type(structure)
    for name, default, tagged in _fields(cls):
        content = getattr(structure, name)
        if tagged and content is not None and content != default:
            yield prefix + name
        if isinstance(content, Flexible):
            yield from _tagged(content, f"{prefix}{name}.")
        elif isinstance(content, tuple):
            for inner in content:
                if isinstance(inner, Flexible):
                    yield from _tagged(inner, f"{prefix}{name}.")
    yield from (f"{prefix}tag {number}" for number in structure.unknown_tags)


@functools.cache
def _fields(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Return the name and the default of each field, and whether it is tagged."""
    tags = _tags(cls)
    return tuple((field.name, field.default, field.name in tags) for field in dataclasses.fields(cls))


@functools.cache
def _tags(cls: Any) -> frozenset[str]:
    hints = get_type_hints(cls, include_extras=True)
    return frozenset(
        name for name, hint in hints.items() if any(isinstance(mark, Tag) for mark in getattr(hint, "__metadata__", ()))
    )
