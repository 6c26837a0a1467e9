"""Tables of the reference that are made from the code, so that they cannot lag behind it. Used by conf.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate import presets
from featuregate.config import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["configuration_keys", "preset_table"]


def configuration_keys() -> str:
    """Return every property that is read: its spellings, what it may say, what it means."""
    rows = (
        (
            ", ".join(f"`{spelling}`" for spelling in key.spellings),
            " or ".join(f"`{choice}`" for choice in key.choices if choice) or key.kind,
            f"`{key.default}`" if key.default else "",
            key.meaning,
        )
        for key in KEYS
    )
    return _table(("property", "value", "default", "meaning"), rows)


def preset_table() -> str:
    """Return every preset: its name, title, requirement, source, and what it does not prove."""
    rows = (
        (f"`{preset.name}`", preset.title, f"`{preset}`", "; ".join(preset.sources), preset.note)
        for preset in presets.all()
    )
    return _table(("preset", "what it allows", "requirement", "source", "what it does not prove"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
