"""Aligned plain text, and runs of numbers in few words. No terminal is touched here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["aligned", "runs"]

_GAP: Final = "  "


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, its cells padded to the widest of their column. Nothing trails at the end."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def runs(numbers: Iterable[int]) -> str:
    """Name whole numbers in few words: 1, 2, 3 and 7 are ``1-3,7``."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
