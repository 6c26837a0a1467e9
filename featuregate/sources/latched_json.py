"""Latched gates in the JSON of a view, as relays send it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.errors import ViewJsonError
from featuregate.gating.latches import LatchKey
from featuregate.json_values import JsonError, parse_json

if TYPE_CHECKING:
    from collections.abc import Collection

_FIELD: Final = "latched"
_MOST: Final = 1000
"""Gates of one relay."""


def with_latched(view: str, latched: Collection[LatchKey]) -> str:
    """Add latched gates to the JSON of a view; readers that do not know them skip them."""
    import json  # noqa: PLC0415 - see featuregate.view.json_text

    if not latched:
        return view
    gates = [key._asdict() for key in latched]
    return f"{view[:-1]}, {json.dumps(_FIELD)}: {json.dumps(gates)}}}"


def latched_from_json(text: str) -> frozenset[LatchKey]:
    """Read the latched gates from the JSON of a view.

    Raises
    ------
    ViewJsonError
        They are not what :func:`with_latched` writes, or too many; the error says where.
    """
    if f'"{_FIELD}"' not in text:  # most views: they are large, and need not be read twice
        return frozenset()
    try:
        fields = parse_json(text, "view").fields()
        gates = fields[_FIELD].items() if _FIELD in fields else []
        if len(gates) > _MOST:
            raise ViewJsonError(f"view.{_FIELD}", f"has {len(gates)} gates, and {_MOST} are allowed")
        return frozenset(LatchKey(gate.field("gate").text(), gate.field("requirement").text()) for gate in gates)
    except JsonError as error:
        raise ViewJsonError(error.where, error.problem) from error
