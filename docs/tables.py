"""Tables of the reference that are made from the code, so that they cannot lag behind it. Used by conf.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate import presets
from featuregate.config import KEYS
from featuregate_confluent.remedies import BY_FLAG, BY_NAME, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["configuration_keys", "flag_table", "preset_table", "remedy_table"]


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


def remedy_table() -> str:
    """Return every error that has a remedy of its own, the mildest remedy first."""
    rows = (
        (f"`{name}`", remedy.value, row.reason)
        for remedy in Remedy
        for name, row in sorted(BY_NAME.items())
        if row.remedy is remedy
    )
    return _table(("error", "remedy", "why"), rows)


def flag_table() -> str:
    """Return what an error of any other name goes by."""
    rows = ((f"`{flag}`" if flag else "none of them", row.remedy.value, row.reason) for flag, row in BY_FLAG.items())
    return _table(("flag", "remedy", "why"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
