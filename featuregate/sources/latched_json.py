"""Latched gates and holds in the JSON of a view, as relays send it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from featuregate.errors import ViewJsonError
from featuregate.gating.holds import Holds, explained_holds
from featuregate.gating.latches import LatchKey
from featuregate.json_values import JsonError, JsonValue, parse_json
from featuregate.printable import shown

R = TypeVar("R")
T = TypeVar("T")

_LATCHED: Final = "latched"
_HOLDS: Final = "holds"
_MOST: Final = 1000
"""Gates of one relay."""
RELAY: Final = "the relay"


def with_latched(view: str, latched: Collection[LatchKey], holds: Mapping[str, str] = MappingProxyType({})) -> str:
    """Add latched gates, and where and why gates are held, to the JSON of a view; other readers skip both."""
    import json  # noqa: PLC0415 - see featuregate.view.json_text

    fields = {_LATCHED: [key._asdict() for key in latched], _HOLDS: dict(holds)}
    text = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items() if value)
    return f"{view[:-1]}{text}}}" if text else view


def latched_from_json(text: str) -> frozenset[LatchKey]:
    """Read the latched gates from the JSON of a view.

    Raises
    ------
    ViewJsonError
        They are not what :func:`with_latched` writes, or too many; the error says where.
    """
    return frozenset(_read(text, _LATCHED, JsonValue.items, _key))


def holds_from_json(text: str) -> Holds:
    """Read the holds from the JSON of a view; they are fit for a log. Raises as :func:`latched_from_json`."""
    found = _read(text, _HOLDS, lambda holds: list(holds.fields().items()), lambda hold: (hold[0], hold[1].text()))
    return explained_holds({gate: shown(why) for gate, why in found}, RELAY)


def _key(gate: JsonValue) -> LatchKey:
    return LatchKey(gate.field("gate").text(), gate.field("requirement").text())


def _read(text: str, field: str, rows_of: Callable[[JsonValue], list[R]], read: Callable[[R], T]) -> list[T]:
    if f'"{field}"' not in text:  # most views: they are large, and need not be read twice
        return []
    try:
        fields = parse_json(text, "view").fields()
        rows = rows_of(fields[field]) if field in fields else []
        if len(rows) > _MOST:
            raise ViewJsonError(f"view.{field}", f"has {len(rows)} gates, and {_MOST} are allowed")
        return [read(row) for row in rows]
    except JsonError as error:
        raise ViewJsonError(error.where, error.problem) from error
