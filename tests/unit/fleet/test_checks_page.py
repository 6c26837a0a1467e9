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
WORST_OF_OTHERS = {"unknown": "UNKNOWN", "warning": "WARN"}
"""The worst verdict of a check that never blocks, by the word for it."""
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


def rows_of_the_page() -> list[tuple[str, str, str]]:
    """Return each check with the cells of its tests."""
    page = (ROOT / "docs/explanation/fleet.md").read_text()
    return ROW.findall(page.partition(SECTION)[2].partition("\n## ")[0])


def sources() -> dict[str, str]:
    """Return the source of each unit test by its name, with its parameters."""
    found: dict[str, str] = {}
    for path in (TESTS / "unit/fleet").glob("*.py"):
        lines = path.read_text().splitlines()
        for node in ast.parse("\n".join(lines)).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def test_each_check_has_its_verdicts_on_the_page():
    """What it blocks, and of what it warns."""
    page = (ROOT / "docs/explanation/fleet.md").read_text()
    table = page.partition("| check | blocks | is a warning, or unknown |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == names_of_checks()


def test_each_check_has_its_tests():
    """A check that is new has to say how it is proved, and a test that was renamed is noticed."""
    rows = rows_of_the_page()
    assert {name for name, *_ in rows} == names_of_checks()
    files = [*(TESTS / "unit/fleet").glob("*.py"), *(TESTS / "live/fleet").glob("*.py")]
    known = {path.name for path in files}
    tests = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    for name, blocks, passes in rows:
        for cell in (blocks, passes):
            named = NAMED.findall(cell)
            assert named or "the same" in cell, name
            assert [one for one in named if one not in known and not any(t.endswith(f"_{one}") for t in tests)] == []


def test_the_tests_of_a_check_look_at_the_verdicts_that_the_page_gives_them():
    """The first at a block, or at what the page has in place of it, and the second at a row that passes."""
    tests = sources()
    for name, blocks, passes in rows_of_the_page():
        in_first, in_second = (
            "".join(text for one in NAMED.findall(cell) for test, text in tests.items() if test.endswith(f"_{one}"))
            for cell in (blocks, passes)
        )
        worst = next((verdict for word, verdict in WORST_OF_OTHERS.items() if word in blocks), "BLOCK")
        assert f"Verdict.{worst}" in in_first, name
        second = in_second + (in_first if "the same" in passes else "")
        assert re.search(r"Verdict\.(OK|WARN)|== \[\]|== \{\}|set\(\)|\bnot \[", second), name
