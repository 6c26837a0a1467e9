"""Aligned plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP: Final = "  "


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with cells padded to the width of their column and without trailing blanks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
