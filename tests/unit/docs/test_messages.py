"""What users read of the code, help, errors and logs, is written as Kafka's and Python's own documentation is."""

import ast
import re
from collections.abc import Callable, Iterator

import pytest
from doc_pages import ROOT
from size import _pages

pytestmark = pytest.mark.no_cover

HABITS = re.compile(
    r"\bso (?:many|long|much)\b(?! as\b| that\b)|\banew\b|\bbeside\b|\btold\b|\bstands? for\b|\bwhoever\b|\bbefell\b"
    r"|(?<!there )(?<!There )\b(?:is|are) no (?!longer\b|more\b|one\b)\w+"
)
"""A noun that is hidden, and words that no other documentation uses. "is no number" is "is not a number"."""
NO_PROSE = re.compile(r"^ *```(?!\{).*?^ *```$|\]\([^)]*\)|^\w+/[\w-]+$", re.MULTILINE | re.DOTALL)
"""Code, addresses of links, and lines of the menu."""


def messages(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def habits(source: str) -> list[str]:
    return [found.group() for text in messages(source) for found in HABITS.finditer(text)]


@pytest.mark.parametrize("texts", [messages, docstrings])
def test_no_message_and_no_docstring_has_a_habit_of_our_own(texts: Callable[[str], Iterator[str]]) -> None:
    """A reader should not have to guess what is meant, and docstrings are read by those who are new to a package."""
    files = [path for root in ("featuregate", "integrations") for path in (ROOT / root).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): HABITS.findall("\n".join(texts(path.read_text()))) for path in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_page_has_a_habit_of_our_own() -> None:
    """Apart from code and the addresses of links."""
    found = {str(page.relative_to(ROOT)): HABITS.findall(NO_PROSE.sub("", page.read_text())) for page in _pages()}
    assert {name: words for name, words in found.items() if words} == {}


def test_a_habit_is_found_wherever_it_comes_back() -> None:
    """In a text and in part of one; not in a docstring, and not where the words mean something else."""
    assert habits('raise ValueError(f"{x!r} is no number")') == ["is no number"]
    assert habits('help = "wait so long"') == ["so long"]
    assert habits('"""Wait so long."""') == []
    assert habits('x = "there is no such file", "as long as so many as", "which is no longer served"') == []
