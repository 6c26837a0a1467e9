"""Count what a maintainer carries, and hold each room to its budget in ``scripts/budgets.toml``.

.. code-block:: console

    $ python scripts/size.py

prints lines by room beside the budget, long modules and public names, and fails where a count is above its budget. A
capability comes with what it replaces; where that is not enough, the commit that raises a budget says what it buys.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).parents[1]
BUDGETS = ROOT / "scripts" / "budgets.toml"
LONG = 350
"""Lines of a module that ask for a second look."""


class Count(NamedTuple):
    """What there is of one thing, and how much of it there may be."""

    what: str
    used: int
    budget: int

    @property
    def is_above(self) -> bool:
        """Whether there is more than there may be."""
        return self.used > self.budget

    def __str__(self) -> str:
        """Return a row of the table."""
        return f"{self.used:8,} of {self.budget:7,}  {self.what}{'  ABOVE ITS BUDGET' if self.is_above else ''}"


def main() -> int:
    """Print the tables; return 1 where a count is above its budget."""
    counts = list(against_budgets(tomllib.loads(BUDGETS.read_text())))
    print(*counts, sep="\n")
    source = _lines("featuregate", "integrations")
    print()
    for package in sorted(path.parent for path in source if path.name == "__init__.py"):
        if names := _public_names(package / "__init__.py"):
            print(f"{len(names):8}  public names of {package.relative_to(ROOT)}")
    longest = sorted((lines, path) for path, lines in {**source, **_lines("tests")}.items() if lines > LONG)
    print(f"\n{len(longest)} modules have more than {LONG} lines")
    for lines, path in reversed(longest):
        print(f"{lines:8,}  {path.relative_to(ROOT)}")
    above = [count.what for count in counts if count.is_above]
    if above:
        print(f"\nAbove the budget: {', '.join(above)}. Delete what goes, or raise it in {BUDGETS.relative_to(ROOT)}.")
    return 1 if above else 0


def against_budgets(budgets: Mapping[str, Mapping[str, int]]) -> Iterator[Count]:
    """Yield each count beside its budget: rooms and their sum, tests, prose, and what users meet."""
    source = _lines("featuregate", "integrations")
    rooms = dict.fromkeys(budgets["source"], 0)
    for path, lines in source.items():
        rooms[_room_of(path, rooms)] += lines
    yield from (Count(f"lines of {room}", lines, budgets["source"][room]) for room, lines in rooms.items())
    counted = {
        "lines of source": sum(source.values()),
        "lines of tests": sum(_lines("tests").values()),
        "words of prose": sum(map(_words, _pages())),
        "commands": sum(1 for _ in _commands(_parser())),
        "parameters of Discoverer": _parameters(),
    }
    yield from (Count(what, used, budgets["together"][what]) for what, used in counted.items())


def _lines(*folders: str) -> dict[Path, int]:
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path: len(path.read_text().splitlines()) for path in paths}


def _room_of(path: Path, rooms: Mapping[str, int]) -> str:
    """Return the room with the longest name that the file lies in; KeyError where the budgets name none."""
    name = path.relative_to(ROOT).as_posix()
    inside = [room for room in rooms if any(name.startswith(part) for part in room.split(" + "))]
    return max(inside, key=len) if inside else name


def _pages() -> list[Path]:
    """Return the pages that people write: not the changelog, and none that says in its first lines what wrote it."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    left_out = ("changelog", "_build")
    return [page for page in pages if not any(part in str(page) for part in left_out) and not _is_generated(page)]


def _is_generated(page: Path) -> bool:
    return page.read_text().startswith("<!-- generated")


def _words(page: Path) -> int:
    """Count the words, without those of tables that ``docs/tables.py`` writes between two comments."""
    text = re.sub(r"<!-- [\w]+, made by docs/tables\.py -->.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    return len(text.split())


def _parser() -> argparse.ArgumentParser:
    from featuregate.cli.arguments.parser import all_plugins, build_parser  # noqa: PLC0415 - the package may not be there

    return build_parser(all_plugins())


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield each command that runs something, so not a group of commands."""
    groups = [action for action in parser._actions if isinstance(action.choices, dict)]  # noqa: SLF001 - argparse has no other list
    if not groups:
        yield parser.prog
    for group in groups:
        for inner in group.choices.values():
            yield from _commands(inner)


def _parameters() -> int:
    import featuregate  # noqa: PLC0415 - the package may not be there

    return len(inspect.signature(featuregate.Discoverer).parameters)


def _public_names(path: Path) -> list[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            return (
                [str(name) for name in ast.literal_eval(node.value)]
                if isinstance(node.value, ast.List | ast.Tuple)
                else []
            )
    return []


if __name__ == "__main__":
    sys.exit(main())
