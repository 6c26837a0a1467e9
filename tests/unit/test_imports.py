"""Each module is imported once by a file: names for types stand with the others, since it is loaded anyway."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Iterator

import pytest
from doc_pages import ROOT

ROOTS = ("featuregate", "integrations", "tests", "examples", "benchmarks", "scripts")


def imports_of(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and statement.names[0].asname is None:  # these have lines of their own
            yield "." * statement.level + (statement.module or "")
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from imports_of(statement.body)


@pytest.mark.parametrize("root", ROOTS)
def test_no_module_is_imported_twice_by_a_file(root: str) -> None:
    """Once for values and once for types: ruff does not ask for that, and a reader would look in two places."""
    twice = {
        str(path.relative_to(ROOT)): names
        for path in (ROOT / root).rglob("*.py")
        if (names := [name for name, n in Counter(imports_of(ast.parse(path.read_text()).body)).items() if n > 1])
    }
    assert twice == {}


@pytest.mark.parametrize("root", ["examples", "scripts"])
def test_programs_that_no_type_checker_reads_import_what_is_there(root: str) -> None:
    """A name that has moved would end an example when somebody starts it."""
    missing = {
        f"{path.relative_to(ROOT)}: {found.module}.{name.name}"
        for path in (ROOT / root).rglob("*.py")
        for found in ast.walk(ast.parse(path.read_text()))
        if isinstance(found, ast.ImportFrom) and (found.module or "").startswith("featuregate")
        for name in found.names
        if not hasattr(importlib.import_module(str(found.module)), name.name)
    }
    assert not missing
