"""What users read of the code, help, errors and logs, is written as Kafka's and Python's own documentation is."""

import ast
import re
from collections.abc import Iterator

import pytest
from doc_pages import ROOT

pytestmark = pytest.mark.no_cover

HABITS = re.compile(
    r"\bso (?:many|long|much)\b(?! as\b| that\b)|\banew\b|\bbeside\b|\btold\b|\bstands? for\b|\bwhoever\b|\bbefell\b"
    r"|(?<!there )(?<!There )\b(?:is|are) no (?!longer\b|more\b|one\b)\w+"
)
"""A noun that is hidden, and words that no other documentation uses. "is no number" is "is not a number"."""


def messages(source: str) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module, also those of attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def habits(source: str) -> list[str]:
    return [found.group() for text in messages(source) for found in HABITS.finditer(text)]


def test_no_message_has_a_habit_of_our_own() -> None:
    """A reader should not have to guess what is meant."""
    files = [path for root in ("featuregate", "integrations") for path in (ROOT / root).rglob("*.py")]
    assert {str(path.relative_to(ROOT)): found for path in files if (found := habits(path.read_text()))} == {}


@pytest.mark.parametrize("package", ["featuregate_relay", "featuregate_fleet", "featuregate_confluent/member"])
def test_no_docstring_has_a_habit_of_our_own(package: str) -> None:
    """Docstrings are read by those who are new to a package."""
    files = list((ROOT / "integrations" / package).rglob("*.py"))
    assert files
    found = {
        (path.name, habit.group())
        for path in files
        for text in docstrings(path.read_text())
        for habit in HABITS.finditer(text)
    }
    assert found == set()


@pytest.mark.parametrize("page", ["fleet", "relay", "producer-switch"])
def test_no_page_of_the_packages_has_a_habit_of_our_own(page: str) -> None:
    """The pages explain the same packages."""
    assert HABITS.findall((ROOT / f"docs/explanation/{page}.md").read_text()) == []


def test_a_habit_is_found_wherever_it_comes_back() -> None:
    """In a text and in part of one; not in a docstring, and not where the words mean something else."""
    assert habits('raise ValueError(f"{x!r} is no number")') == ["is no number"]
    assert habits('help = "wait so long"') == ["so long"]
    assert habits('"""Wait so long."""') == []
    assert habits('x = "there is no such file", "as long as so many as", "which is no longer served"') == []
