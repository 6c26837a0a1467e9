"""Aligned plain text, and short forms of lists of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["aligned", "runs"]

_GAP: Final = "  "


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with cells padded to the width of their column and without trailing blanks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def runs(numbers: Iterable[int]) -> str:
    """Return the short form of a list of integers: 1, 2, 3 and 7 are ``1-3,7``."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
