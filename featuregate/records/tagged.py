"""Tagged fields of values: a coordinator ignores those that it does not know (KIP-915)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from featuregate.wire.schema import Flexible, Tag

if TYPE_CHECKING:
    from featuregate.records.key_value import Value

    V = TypeVar("V", bound=Value)


def tagged_fields(value: Value) -> tuple[str, ...]:
    """Return the names of the tagged fields that are neither null nor the default.

    The name of a field inside a structure begins with that of the structure's field, as in
    ``assigned_partitions.assignment_epochs``. A field that is newer than this code is named by its number: ``tag 7``.
    """
    return tuple(dict.fromkeys(_tagged(value, "")))


def keep_tagged_fields(value: V, known: Collection[str]) -> V:
    """Return the value with only these tagged fields, which have the names that `tagged_fields` gives."""
    kept: V = _keep(value, known, "")
    return kept


def _keep(structure: Any, known: Collection[str], prefix: str) -> Any:
    cls: Any = type(structure)
    tags = _tags(cls)
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(structure):
        content, label = getattr(structure, field.name), prefix + field.name
        if field.name in tags and label not in known:
            changes[field.name] = field.default
        elif isinstance(content, Flexible):
            changes[field.name] = _keep(content, known, f"{label}.")
        elif isinstance(content, tuple) and content and isinstance(content[0], Flexible):
            changes[field.name] = tuple([_keep(inner, known, f"{label}.") for inner in content])
    changes["unknown_tags"] = {
        number: data for number, data in structure.unknown_tags.items() if f"{prefix}tag {number}" in known
    }
    return dataclasses.replace(structure, **changes)


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
