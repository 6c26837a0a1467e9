"""The exactly-once producer switch (KIP-447) for confluent-kafka: group-wide, and never back.

Names load at their first use, so that operators' tools and the pure rooms need no confluent-kafka.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featuregate_confluent.models import Model as Model

__all__ = [
    "Model",
]

_ROOMS = {
    "Model": "models",
}


def __getattr__(name: str) -> object:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
