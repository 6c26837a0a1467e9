"""``matrix``: what each broker says, side by side, and where they differ."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from itertools import count, product
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final, Literal

from featuregate.catalog import api_name, level_name
from featuregate.cli.cluster import discover_view
from featuregate.cli.exit_codes import OK, UNKNOWN
from featuregate.cli.output import printable, supports_colour
from featuregate.cli.tables import aligned, runs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View

__all__ = ["Group", "Line", "Matrix", "build", "run", "to_json", "to_text"]

Kind = Literal["finalized", "supported", "api"]
TITLES: Final[dict[Kind, str]] = {
    "finalized": "FINALIZED LEVEL",
    "supported": "SUPPORTED LEVELS",
    "api": "API VERSIONS",
}
NOTHING: Final = "-"
DIFFERS: Final = " *"
WIDEST_HEADING: Final = 24
"""Characters; what is longer stands below the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One feature or API: what holds for the cluster, and what each broker says."""

    kind: Kind
    name: str
    cluster: tuple[int, ...] | None
    """A finalized level, or the lowest and highest of a range; None where nothing holds, or nothing is known."""
    said: tuple[tuple[int, ...] | None, ...]
    """The same of each broker that answered, in the order of the view."""

    @property
    def differs(self) -> bool:
        """Whether the brokers do not all say the same."""
        return len(set(self.said)) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Brokers that say the same about every line that is shown: one column."""

    name: str
    """Their ids or addresses, or a letter and their number where those are too many."""
    members: str
    """All of their ids or addresses."""
    column: int
    """Where they stand in `Line.said`: where the first of them does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All that is shown of a view."""

    view: View
    lines: tuple[Line, ...]
    groups: tuple[Group, ...]
    unshown: int
    """How many APIs are left out because all brokers agree on them."""


def run(args: argparse.Namespace) -> int:
    """Ask every broker, and print the matrix."""
    view = discover_view(args)
    matrix = build(view, everything=args.all)
    if args.output == "json":
        print(json.dumps(to_json(matrix), indent=2))
    elif not (supports_colour(sys.stdout) and paint(matrix)):
        print("\n".join(to_text(matrix)))
    return UNKNOWN if view.missing else OK


def build(view: View, *, everything: bool) -> Matrix:
    """Lay out a view: every feature, and the APIs that differ, or ``everything``."""
    heard = [broker for broker in view.brokers if broker.answered]
    apis = tuple(_apis(view, heard))
    shown = apis if everything else tuple(line for line in apis if line.differs)
    lines = (*_finalized(view, heard), *_supported(view, heard), *shown)
    return Matrix(view=view, lines=lines, groups=_groups(heard, lines), unshown=len(apis) - len(shown))


def to_text(matrix: Matrix) -> list[str]:
    """Return the lines to print where there is no colour."""
    table: list[list[str]] = []
    for title, lines in _sections(matrix):
        if table:
            table.append([""] * len(table[0]))
        table.append(_heading(title, matrix))
        table += (_cells(line, matrix) for line in lines)
    return [_summary(matrix), "", *(aligned(table) if table else ()), *_remarks(matrix)]


def to_json(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix as plain values: levels as numbers, ranges as ``[min, max]``, brokers by id or address."""
    heard = [broker for broker in matrix.view.brokers if broker.answered]
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
                "kind": line.kind,
                "name": line.name,
                "cluster": _plain(line, line.cluster),
                "differs": line.differs,
                "brokers": {_key(broker): _plain(line, said) for broker, said in zip(heard, line.said, strict=True)},
            }
            for line in matrix.lines
        ],
    }


def paint(matrix: Matrix) -> bool:
    """Print the matrix in colour, if rich is installed; returns whether it did."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra, and slow to import
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415
    except ImportError:
        return False
    console = Console(highlight=False)
    console.print(Text(_summary(matrix), style="bold"))
    for title, lines in _sections(matrix):
        table = Table(box=None, header_style="dim", pad_edge=False)
        for heading in _heading(title, matrix):
            table.add_column(Text(heading), overflow="fold")
        for line in lines:
            name, cluster, *cells = _cells(line, matrix)
            style = "yellow" if line.differs else ""
            painted = (Text(cell, style="red" if cell == NOTHING and line.differs else style) for cell in cells)
            table.add_row(Text(name, style=style), Text(cluster, style="bold"), *painted)
        console.print()
        console.print(table)
    for remark in _remarks(matrix):
        console.print(Text(remark, style="red" if remark.startswith("silent") else "dim"))
    return True


def _finalized(view: View, heard: Sequence[BrokerAnswer]) -> Iterator[Line]:
    for name in sorted({name for broker in heard for name in broker.finalized} | set(view.finalized)):
        level = view.level(name)
        yield Line(
            kind="finalized",
            name=name,
            cluster=None if level is None else (level,),
            said=tuple((broker.finalized.get(name, 0),) if broker.epoch >= 0 else None for broker in heard),
        )


def _supported(view: View, heard: Sequence[BrokerAnswer]) -> Iterator[Line]:
    for name in sorted({name for broker in heard for name in broker.supported}):
        said = tuple(broker.supported.get(name) for broker in heard)
        yield Line(kind="supported", name=name, cluster=view.feature(name), said=said)


def _apis(view: View, heard: Sequence[BrokerAnswer]) -> Iterator[Line]:
    for key in sorted({key for broker in heard for key in broker.api_ranges}):
        shared = view.api(key)
        yield Line(
            kind="api",
            name=api_name(key),
            cluster=None if shared is None else (shared.min, shared.max),
            said=tuple(broker.api_ranges.get(key) for broker in heard),
        )


def _groups(heard: Sequence[BrokerAnswer], lines: Sequence[Line]) -> tuple[Group, ...]:
    """Brokers that say the same share a column, so that a thousand of them fit a terminal."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for column in range(len(heard)):
        alike.setdefault(tuple(line.said[column] for line in lines), []).append(column)
    groups = []
    for letter, columns in zip(_letters(), alike.values(), strict=False):
        members = _members([heard[at] for at in columns])
        name = members if len(members) <= WIDEST_HEADING else f"{letter} ({len(columns)})"
        groups.append(Group(name=name, members=members, column=columns[0]))
    return tuple(groups)


def _letters() -> Iterator[str]:
    """Yield A to Z, then AA and so on."""
    for length in count(1):
        yield from map("".join, product(ascii_uppercase, repeat=length))


def _members(brokers: Sequence[BrokerAnswer]) -> str:
    numbers = runs(broker.node_id for broker in brokers if broker.node_id is not None)
    addresses = [printable(broker.address) for broker in brokers if broker.node_id is None]
    return ",".join([numbers, *addresses] if numbers else addresses)


def _sections(matrix: Matrix) -> Iterator[tuple[str, list[Line]]]:
    for kind, title in TITLES.items():
        if lines := [line for line in matrix.lines if line.kind == kind]:
            yield title, lines


def _heading(title: str, matrix: Matrix) -> list[str]:
    return [title, "CLUSTER", *(group.name for group in matrix.groups)]


def _cells(line: Line, matrix: Matrix) -> list[str]:
    said = (line.said[group.column] for group in matrix.groups)
    name = printable(line.name) + (DIFFERS if line.differs else "")
    return [name, _words(line, line.cluster), *(_words(line, each) for each in said)]


def _words(line: Line, said: tuple[int, ...] | None) -> str:
    if said is None or (line.kind == "finalized" and said == (0,)):
        return NOTHING
    names = [str(number) if line.kind == "api" else level_name(line.name, number) for number in said]
    return names[0] if len(set(names)) == 1 else "..".join(names)


def _plain(line: Line, said: tuple[int, ...] | None) -> int | list[int] | None:
    if said is None:
        return None
    return said[0] if line.kind == "finalized" else list(said)


def _key(broker: BrokerAnswer) -> str:
    return broker.address if broker.node_id is None else str(broker.node_id)


def _summary(matrix: Matrix) -> str:
    view = matrix.view
    epoch = f"epoch {view.epoch}" if view.epoch >= 0 else "no epoch"
    answered = len(view.brokers) - len(view.missing)
    cluster = printable(view.cluster_id) if view.cluster_id else "without an id"
    return f"cluster {cluster}, {epoch}: {answered} of {len(view.brokers)} {view.role}s answered"


def _remarks(matrix: Matrix) -> Iterator[str]:
    if matrix.unshown:
        yield ""
        yield f"not shown, because all agree on them: {matrix.unshown} APIs (--all shows them)"
    if any(line.differs for line in matrix.lines):
        yield ""
        yield "*: not the same everywhere"
    if lettered := [group for group in matrix.groups if group.name != group.members]:
        yield ""
        yield from (f"{group.name}: {matrix.view.role}s {group.members}" for group in lettered)
    if matrix.view.missing:
        yield ""
    for broker in matrix.view.missing:
        why = broker.failure.text if broker.failure else "no answer"
        yield f"silent: {printable(broker.name)}: {printable(why)}"
