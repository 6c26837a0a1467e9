"""``matrix``: compare the features and APIs of brokers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, product
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.cluster import discover_view
from featuregate.cli.exit_codes import OK, UNKNOWN
from featuregate.cli.output import aligned, supports_colour
from featuregate.printable import printable
from featuregate.view.cluster_view import View, failures, named
from featuregate.view.matrix import ABSENT, Group, MatrixRow, compare

if TYPE_CHECKING:
    import argparse

    from featuregate.view.answers import BrokerAnswer

TITLES: Final = {"finalized": "FINALIZED LEVEL", "supported": "SUPPORTED LEVELS", "api": "API VERSIONS"}
DIFFERS: Final = " *"
MAX_HEADING: Final = 24
"""Characters; longer headings become a letter, explained below the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Brokers with the same value in every row."""

    name: str
    """Their ids or addresses; a letter and the number of brokers where that is too long."""
    members: str
    """All their ids or addresses."""
    index: int
    """The index of the first of them in `Row.values`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTable:
    """The rows and columns that are shown of a view."""

    view: View
    rows: tuple[MatrixRow, ...]
    columns: tuple[Column, ...]
    hidden: int
    """The number of APIs without a row, because all brokers agree on them."""


def run(args: argparse.Namespace) -> int:
    """Ask every broker, and print the matrix."""
    view = discover_view(args)
    matrix = build(view, all_apis=args.all)
    if args.output == "json":
        print(json.dumps(to_json(matrix), indent=2))
    elif not (supports_colour(sys.stdout) and paint(matrix)):
        print("\n".join(to_text(matrix)))
    return UNKNOWN if view.missing else OK


def build(view: View, *, all_apis: bool) -> MatrixTable:
    """Return the rows of every feature and of the APIs in which brokers differ, or of ``all_apis``."""
    found = compare(view, all_apis=all_apis)
    return MatrixTable(view=view, rows=found.rows, columns=_columns(found.groups), hidden=found.hidden)


def to_text(matrix: MatrixTable) -> list[str]:
    """Return the lines without colour."""
    table: list[list[str]] = []
    for title, rows in _sections(matrix):
        if table:
            table.append([""] * len(table[0]))
        table.append(_heading(title, matrix))
        table += (_cells(row, matrix) for row in rows)
    return [_summary(matrix), "", *(aligned(table) if table else ()), *_footnotes(matrix)]


def to_json(matrix: MatrixTable) -> dict[str, Any]:
    """Return the matrix as plain values: levels as numbers, ranges as ``[min, max]``, brokers by id or address."""
    answering = [broker for broker in matrix.view.brokers if broker.answered]
    return {
        "cluster_id": matrix.view.cluster_id,
        "epoch": matrix.view.epoch,
        "brokers": [
            {
                "node_id": broker.node_id,
                "address": broker.address,
                "epoch": broker.epoch,
                "failure": broker.failure and {"kind": broker.failure.kind, "text": broker.failure.text},
            }
            for broker in matrix.view.brokers
        ],
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "cluster": _json_value(row, row.cluster),
                "differs": row.differs,
                "brokers": {
                    _key(broker): _json_value(row, value) for broker, value in zip(answering, row.values, strict=True)
                },
            }
            for row in matrix.rows
        ],
    }


def paint(matrix: MatrixTable) -> bool:
    """Print the matrix in colour if rich is installed; return whether it is."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra, and slow to import
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415
    except ImportError:
        return False
    console = Console(highlight=False)
    console.print(Text(_summary(matrix), style="bold"))
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
    for note in _footnotes(matrix):
        console.print(Text(note, style="red" if note.startswith("no answer") else "dim"))
    return True


def _columns(groups: Iterable[Group]) -> tuple[Column, ...]:
    """Name groups of brokers, so that a thousand brokers fit a terminal."""
    columns = []
    for letter, group in zip(_letters(), groups, strict=False):
        members = printable(group.members)
        name = members if len(members) <= MAX_HEADING else f"{letter} ({len(group.brokers)})"
        columns.append(Column(name=name, members=members, index=group.index))
    return tuple(columns)


def _letters() -> Iterator[str]:
    """Yield A to Z, then AA and so on."""
    for length in count(1):
        yield from map("".join, product(ascii_uppercase, repeat=length))


def _sections(matrix: MatrixTable) -> Iterator[tuple[str, list[MatrixRow]]]:
    for kind, title in TITLES.items():
        if rows := [row for row in matrix.rows if row.kind == kind]:
            yield title, rows


def _heading(title: str, matrix: MatrixTable) -> list[str]:
    return [title, "CLUSTER", *(column.name for column in matrix.columns)]


def _cells(row: MatrixRow, matrix: MatrixTable) -> list[str]:
    name = printable(row.name) + (DIFFERS if row.differs else "")
    values = (row.values[column.index] for column in matrix.columns)
    return [name, row.text(row.cluster), *(row.text(value) for value in values)]


def _json_value(row: MatrixRow, value: tuple[int, ...] | None) -> int | list[int] | None:
    if value is None:
        return None
    return value[0] if row.kind == "finalized" else list(value)


def _key(broker: BrokerAnswer) -> str:
    return broker.address if broker.node_id is None else str(broker.node_id)


def _summary(matrix: MatrixTable) -> str:
    view = matrix.view
    epoch = f"epoch {view.epoch}" if view.epoch >= 0 else "no epoch"
    answered = len(view.brokers) - len(view.missing)
    cluster = printable(view.cluster_id) if view.cluster_id else "without an id"
    return f"cluster {cluster}, {epoch}: {answered} of {len(view.brokers)} {view.role}s answered"


def _footnotes(matrix: MatrixTable) -> Iterator[str]:
    if matrix.hidden:
        yield ""
        yield f"not shown, because all brokers agree: {matrix.hidden} APIs (--all shows them)"
    if any(row.differs for row in matrix.rows):
        yield ""
        yield "*: brokers differ"
    if lettered := [column for column in matrix.columns if column.name != column.members]:
        yield ""
        yield from (f"{column.name}: {matrix.view.role}s {column.members}" for column in lettered)
    if matrix.view.missing:
        yield ""
    for failure, brokers in failures(matrix.view).items():
        yield f"no answer: {printable(named(brokers))}: {printable(failure.text)}"
