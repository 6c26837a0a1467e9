"""``matrix``: compare the features and APIs of brokers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import count, product
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.cluster import discover_view
from featuregate.cli.exit_codes import OK, UNKNOWN
from featuregate.cli.output import aligned, supports_colour
from featuregate.printable import printable
from featuregate.view.cluster_view import View, failures, named
from featuregate.view.matrix import ABSENT, Group, Matrix, MatrixRow, compare

if TYPE_CHECKING:
    import argparse

TITLES: Final = {"finalized": "FINALIZED LEVEL", "supported": "SUPPORTED LEVELS", "api": "API VERSIONS"}
DIFFERS: Final = " *"
MAX_HEADING: Final = 24
"""Characters; longer headings become a letter, explained below the table."""


def run(args: argparse.Namespace) -> int:
    """Ask every broker, and print the matrix."""
    view = discover_view(args)
    matrix = compare(view, all_apis=args.all)
    if args.output == "json":
        print(json.dumps(to_json(view, matrix), indent=2))
    elif not (supports_colour(sys.stdout) and paint(view, matrix)):
        print("\n".join(to_text(view, matrix)))
    return UNKNOWN if view.missing else OK


def to_text(view: View, matrix: Matrix) -> list[str]:
    """Return the lines without colour."""
    table: list[list[str]] = []
    for title, rows in _sections(matrix):
        if table:
            table.append([""] * len(table[0]))
        table.append(_heading(title, matrix))
        table += (_cells(row, matrix) for row in rows)
    return [_summary(view), "", *(aligned(table) if table else ()), *_footnotes(view, matrix)]


def to_json(view: View, matrix: Matrix) -> dict[str, Any]:
    """Return the matrix as plain values: levels as numbers, ranges as ``[min, max]``, brokers by id or address."""
    return {
        "cluster_id": view.cluster_id,
        "epoch": view.epoch,
        "brokers": [
            {
                "node_id": broker.node_id,
                "address": broker.address,
                "epoch": broker.epoch,
                "failure": broker.failure and {"kind": broker.failure.kind, "text": broker.failure.text},
            }
            for broker in view.brokers
        ],
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "cluster": _json_value(row, row.cluster),
                "differs": row.differs,
                "brokers": {
                    broker.address if broker.node_id is None else str(broker.node_id): _json_value(row, value)
                    for broker, value in zip(view.answering, row.values, strict=True)
                },
            }
            for row in matrix.rows
        ],
    }


def paint(view: View, matrix: Matrix) -> bool:
    """Print the matrix in colour if rich is installed; return whether it is."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra, and slow to import
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415
    except ImportError:
        return False
    console = Console(highlight=False)
    console.print(Text(_summary(view), style="bold"))
    for title, rows in _sections(matrix):
        table = Table(box=None, header_style="dim", pad_edge=False)
        for heading in _heading(title, matrix):
            table.add_column(Text(heading), overflow="fold")
        for row in rows:
            name, cluster, *cells = _cells(row, matrix)
            style = "yellow" if row.differs else ""
            painted = (Text(cell, style="red" if cell == ABSENT and row.differs else style) for cell in cells)
            table.add_row(Text(name, style=style), Text(cluster, style="bold"), *painted)
        console.print()
        console.print(table)
    for note in _footnotes(view, matrix):
        console.print(Text(note, style="red" if note.startswith("no answer") else "dim"))
    return True


def _names(groups: Sequence[Group]) -> list[str]:
    """Return the headings of groups of brokers, so that a thousand brokers fit a terminal.

    They are the ids or addresses of the brokers; a letter and the number of brokers where that is too long.
    """
    lettered = zip(groups, (printable(group.members) for group in groups), _letters(), strict=False)
    return [
        members if len(members) <= MAX_HEADING else f"{letter} ({len(group.brokers)})"
        for group, members, letter in lettered
    ]


def _letters() -> Iterator[str]:
    """Yield A to Z, then AA and so on."""
    for length in count(1):
        yield from map("".join, product(ascii_uppercase, repeat=length))


def _sections(matrix: Matrix) -> Iterator[tuple[str, list[MatrixRow]]]:
    for kind, title in TITLES.items():
        if rows := [row for row in matrix.rows if row.kind == kind]:
            yield title, rows


def _heading(title: str, matrix: Matrix) -> list[str]:
    return [title, "CLUSTER", *_names(matrix.groups)]


def _cells(row: MatrixRow, matrix: Matrix) -> list[str]:
    name = printable(row.name) + (DIFFERS if row.differs else "")
    values = (row.values[group.index] for group in matrix.groups)
    return [name, row.text(row.cluster), *(row.text(value) for value in values)]


def _json_value(row: MatrixRow, value: tuple[int, ...] | None) -> int | list[int] | None:
    if value is None:
        return None
    return value[0] if row.kind == "finalized" else list(value)


def _summary(view: View) -> str:
    epoch = f"epoch {view.epoch}" if view.epoch >= 0 else "no epoch"
    answered = len(view.brokers) - len(view.missing)
    cluster = printable(view.cluster_id) if view.cluster_id else "without an id"
    return f"cluster {cluster}, {epoch}: {answered} of {len(view.brokers)} {view.role}s answered"


def _footnotes(view: View, matrix: Matrix) -> Iterator[str]:
    if matrix.hidden:
        yield ""
        yield f"not shown, because all brokers agree: {matrix.hidden} APIs (--all shows them)"
    if any(row.differs for row in matrix.rows):
        yield ""
        yield "*: brokers differ"
    names = zip(_names(matrix.groups), (printable(group.members) for group in matrix.groups), strict=True)
    if lettered := [f"{name}: {view.role}s {members}" for name, members in names if name != members]:
        yield from ("", *lettered)
    if view.missing:
        yield ""
    for failure, brokers in failures(view).items():
        yield f"no answer: {printable(named(brokers))}: {printable(failure.text)}"
