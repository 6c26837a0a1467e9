"""Count what a maintainer carries: lines by room, long modules, public names.

.. code-block:: console

    $ python scripts/size.py
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = 350
"""Lines of a module that ask for a second look."""


def main() -> None:
    """Print the tables."""
    source = _lines("featuregate", "integrations")
    tests = _lines("tests")
    print(f"{sum(source.values()):,} lines of source, {sum(tests.values()):,} of tests\n")
    for room, lines in sorted(_by_room(source).items(), key=lambda row: -row[1]):
        print(f"{lines:8,}  {room}")
    print()
    for package in sorted(path.parent for path in source if path.name == "__init__.py"):
        if names := _public_names(package / "__init__.py"):
            print(f"{len(names):8}  public names of {package.relative_to(ROOT)}")
    longest = sorted((lines, path) for path, lines in {**source, **tests}.items() if lines > LONG)
    print(f"\n{len(longest)} modules have more than {LONG} lines")
    for lines, path in reversed(longest):
        print(f"{lines:8,}  {path.relative_to(ROOT)}")


def _lines(*folders: str) -> dict[Path, int]:
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path: len(path.read_text().splitlines()) for path in paths}


def _by_room(source: dict[Path, int]) -> Counter[str]:
    rooms: Counter[str] = Counter()
    for path, lines in source.items():
        parts = path.relative_to(ROOT).parts
        rooms["/".join(parts[:2]).removesuffix(".py")] += lines
    return rooms


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
    main()
