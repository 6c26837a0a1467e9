"""The table of the page on compatibility that the proof writes: releases of PySpark by capabilities. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN = "<!-- PySpark table begins: make proof ONLY=spark writes it -->\n"
END = "<!-- PySpark table ends -->\n"


def with_column(page: str, release: str, cells: Mapping[str, str]) -> str:
    """Return the page with one column of the table replaced, or added; the columns are in the order of releases."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    columns = _read(table) | {release: dict(cells)}
    order = sorted(columns, key=lambda each: [int(number) for number in each.split(".")])
    rows = list(dict.fromkeys(name for each in order for name in columns[each]))
    lines = [["with PySpark", *order], ["---"] * (len(order) + 1)]
    lines += [[name, *(columns[each].get(name, "not run") for each in order)] for name in rows]
    return before + BEGIN + "".join(f"| {' | '.join(line)} |\n" for line in lines) + END + after


def _read(table: str) -> dict[str, dict[str, str]]:
    """Return the columns of a table, by release."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    if not rows:
        return {}
    head, _, *body = rows
    return {release: {row[0]: row[number] for row in body} for number, release in enumerate(head[1:], 1)}
