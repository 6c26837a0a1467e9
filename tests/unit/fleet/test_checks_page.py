"""The page names for each check a test in which it blocks, and one in which it passes; all of them exist."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from featuregate_fleet.readiness import checks

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
SECTION = "\n## Which test shows a check at work\n"
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAMED = re.compile(r"`(?:\.\.\._)?(\w+(?:\.py)?)`")


def names_of_checks() -> set[str]:
    """Return what the rows of all checks say by ``check=``."""
    found: set[str] = set()
    for each in iter_modules(checks.__path__, f"{checks.__name__}."):
        module = import_module(each.name)
        assert module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.keyword) and node.arg == "check":
                assert isinstance(node.value, ast.Constant | ast.Name)
                given = node.value
                found.add(str(given.value if isinstance(given, ast.Constant) else getattr(module, given.id)))
    return found


def test_each_check_has_its_tests():
    """A check that is new has to say how it is proved, and a test that was renamed is noticed."""
    page = (ROOT / "docs/explanation/fleet.md").read_text()
    rows = ROW.findall(page.partition(SECTION)[2].partition("\n## ")[0])
    assert {name for name, *_ in rows} == names_of_checks()
    files = [*(TESTS / "unit/fleet").glob("*.py"), *(TESTS / "live/fleet").glob("*.py")]
    known = {path.name for path in files}
    tests = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    for name, blocks, passes in rows:
        for cell in (blocks, passes):
            named = NAMED.findall(cell)
            assert named or "the same" in cell, name
            assert [one for one in named if one not in known and not any(t.endswith(f"_{one}") for t in tests)] == []
