"""Each check is on the page, and has tests that show its rows whole."""

import ast
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from fleet_checks import CHECKS
from told_rows import TRANSCRIPT

from featuregate_fleet.readiness import checks
from featuregate_fleet.readiness.rows import AT_ONE_TIME

ROW = re.compile(r"^(ok|warn|stale|unknown|block) ([a-z-]+), ", re.MULTILINE)
SHOWN = {(name, verdict) for verdict, name in ROW.findall(TRANSCRIPT.read_text())}
"""Checks and their verdicts, as the tests of rows compare them."""


def names_of_checks() -> set[str]:
    found: set[object] = set()
    for each in iter_modules(checks.__path__, f"{checks.__name__}."):
        module = import_module(each.name)
        assert module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            match node:
                case (
                    ast.keyword("check", given)
                    | ast.Call(ast.Name("Row" | "_row" | "client_row"), [given, *_])
                    | ast.Call(ast.Name("partial"), [ast.Name("Row"), given])
                ):
                    of_module = getattr(module, ast.unparse(given), None)
                    found.add(given.value if isinstance(given, ast.Constant) else of_module)
    return {name for name in found if isinstance(name, str)}


def test_each_check_is_known():
    """The page is written from the checks that are known."""
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    assert set(names) == names_of_checks()
    assert set(names) > AT_ONE_TIME


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_rows_of_a_check_are_shown(check):
    """A check blocks in a test if the page says when it blocks."""
    verdicts = {verdict for name, verdict in SHOWN if name == check.name}
    assert verdicts
    assert ("block" in verdicts) == bool(check.blocks)
