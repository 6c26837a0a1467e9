"""How many lines were read, and what became of them. Pure."""

from __future__ import annotations

from typing import NamedTuple


class LineCounts(NamedTuple):
    """Lines: ``read = rows + quarantined``."""

    read: int
    rows: int
    quarantined: int
