"""What charts over time have in common: a row for each name, with time from left to right, as SVG. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from html import escape
from typing import Final, NamedTuple

ROW: Final = 18
"""The height of a row in units of the SVG. All lengths are in these units."""
_SHADES: Final = 4


class RowsOverTime(NamedTuple):
    """The measures of a chart."""

    label: int
    """The width of the names."""
    width: int
    """The width of the time."""

    def chart(self, rows: int, label: str, start: datetime, end: datetime, parts: Iterable[str]) -> str:
        """Return a chart of some rows below the line with its first and its last time."""
        box = f"0 0 {self.label + self.width} {ROW * (rows + 1)}"
        ends = (
            f'<text class="tick first" x="{self.label}" y="12">{start:%d %b %H:%M}</text>'
            f'<text class="tick last" x="{self.label + self.width}" y="12">{end:%d %b %H:%M} UTC</text>'
        )
        head = f'<svg class="hours" viewBox="{box}" role="img" aria-label="{escape(label)}">'
        return f"{head}{ends}{''.join(parts)}</svg>"

    def empty_row(self, top: int, name: str, *, lost: bool = False) -> str:
        """Draw a name, which is HTML, and a row without a cell."""
        gap = f'<rect class="gap" x="{self.label}" y="{top + 2}" width="{self.width}" height="{ROW - 4}"/>'
        return row_name(self.label, top, name, lost=lost) + gap

    def cells(self, top: int, counts: Iterable[tuple[int, int]], columns: int, most: int, kind: str = "shade") -> str:
        """Draw a cell for each column with a count; the shade is that of the count."""
        cell = self.width / columns
        shades: defaultdict[int, list[str]] = defaultdict(list)
        for column, count in counts:
            if count:
                shade = max(1, math.ceil(_SHADES * share(count, most)))
                shades[shade].append(f"M{self.label + column * cell:.5g} {top + 2}h{cell:.3g}v{ROW - 4}h-{cell:.3g}z")
        return "".join(f'<path class="{kind}{shade}" d="{"".join(paths)}"/>' for shade, paths in sorted(shades.items()))


def row_name(right: int, top: int, name: str, *, lost: bool = False) -> str:
    """Draw the name of a row, which is HTML, to the left of its content."""
    return f'<text class="{"api lost" if lost else "api"}" x="{right - 8}" y="{top + 13}">{name}</text>'


def share(count: int, most: int) -> float:
    """Return a share on a logarithmic scale, so that one request is visible next to a million."""
    return math.log1p(count) / math.log1p(most) if count else 0.0
