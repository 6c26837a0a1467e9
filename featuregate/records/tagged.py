"""Which tagged fields a value has: what a coordinator that does not know them ignores (KIP-915)."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from featuregate.records.schema import Flexible, Tag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from featuregate.records.schema import Value

    V = TypeVar("V", bound=Value)

__all__ = ["keep_tagged", "tagged_fields"]


def tagged_fields(value: Value) -> tuple[str, ...]:
    """Name the tagged fields in which a value says anything but null or the default.

    A field of an inner structure goes behind the name of the field that it lies in, as in
    ``assigned_partitions.assignment_epochs``; one that is newer than this code has its number alone, as in ``tag 7``.
    """
    return tuple(dict.fromkeys(_tagged(value, "")))


def keep_tagged(value: V, known: Collection[str]) -> V:
    """Give a value as one sees it who knows these tagged fields alone, named as `tagged_fields` names them."""
    kept: V = _keep(value, known, "")
    return kept


def _keep(structure: Any, known: Collection[str], prefix: str) -> Any:
    cls: Any = type(structure)
    tags = _tags(cls)
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(structure):
        said, label = getattr(structure, field.name), prefix + field.name
        if field.name in tags and label not in known:
            changes[field.name] = field.default
        elif isinstance(said, Flexible):
            changes[field.name] = _keep(said, known, f"{label}.")
        elif isinstance(said, tuple) and said and isinstance(said[0], Flexible):
            changes[field.name] = tuple([_keep(inner, known, f"{label}.") for inner in said])
    changes["unknown_tags"] = {
        number: data for number, data in structure.unknown_tags.items() if f"{prefix}tag {number}" in known
    }
    return dataclasses.replace(structure, **changes)


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
