"""A page is whole as plain Markdown, as a code host shows it: no role and no directive stands for a part of it."""

import inspect
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from doc_pages import EVERY, ROOT, name
from names import NAMED, RAISES, calls_of, calls_table
from tables import MARKED, TABLES, with_tables

DOCS = ROOT / "docs"
MOST_UNNAMED = 4
PAGES = sorted({*EVERY, *ROOT.glob("*.md"), *(ROOT / "integrations").glob("*.md")})
FENCE = re.compile(r"^ *(?P<mark>`{3,}|:{3,})(?P<kind>[^\n]*)\n.*?^ *(?P=mark) *$", re.MULTILINE | re.DOTALL)
ONLY_OF_SPHINX = re.compile(r"\{(eval-rst|toctree|include)\}")
"""The reference of the code, the menu, and the two files that stand at the root: nothing in Markdown can be these."""
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_needs_no_sphinx_to_be_read(page: Path) -> None:
    """No role, directive, substitution or link without a text, all of which a code host shows raw."""
    kinds = [found["kind"] for found in FENCE.finditer(page.read_text(encoding="utf-8"))]
    assert [kind for kind in kinds if kind.startswith("{") and not ONLY_OF_SPHINX.match(kind)] == []
    text = prose(page)
    assert re.findall(r"\{[a-z:]+\}`[^`\s][^`]*`", re.sub(r"`[^`]*\{[a-z:]+\}`", "", text)) == []
    assert re.findall(r"^:{3,}.*|^\([\w-]+\)=$", text, re.MULTILINE) == []
    assert re.findall(r"\{\{.*?\}\}", CODE.sub("", text)) == []
    assert re.findall(r"\[\]\([^)]*\)", text) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    """Relative to the page, as a code host follows them."""
    links = LINK.findall(CODE.sub("", prose(page)))
    assert [link for link in links if not (page.parent / unquote(link)).exists()] == []


def test_pages_that_code_names_are_there() -> None:
    """Docstrings and errors send a reader to a page by its path, or by its name in the reference."""
    files = [path for folder in ("featuregate", "integrations", "tests") for path in (ROOT / folder).rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    named = {*re.findall(r"\bdocs/([\w-]+/[\w-]+\.md)\b", text), *re.findall(r":doc:`[^`]*</([\w/-]+)>`", text)}
    assert len(named) > 5
    assert sorted(page for page in named if not (DOCS / page).with_suffix(".md").is_file()) == []


@pytest.mark.parametrize("text", ["{doc}`../x`", "see {class}`~a.B` here", "{term}`view <x>`", "![](a.png)"])
def test_the_check_sees_a_role_and_a_picture_without_a_text(text: str, tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(AssertionError):
        test_a_page_needs_no_sphinx_to_be_read(tmp_path / "page.md")


def test_tables_of_pages_are_those_of_the_code() -> None:
    """``python docs/tables.py`` writes them."""
    found: list[str] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert with_tables(text) == text, f"{name(page)}: run python docs/tables.py"
        found += [mark["name"] for mark in MARKED.finditer(text)]
    assert {*found} == {*TABLES}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_made_of_docstrings_says_which_names_it_has(page: Path) -> None:
    """A code host shows nothing of the docstrings."""
    text = page.read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) < MOST_UNNAMED or "names_table" in text
    assert "calls_table" in text or not ("names_table" in text and calls_table(text))


def test_parameters_of_a_page_have_their_defaults_units_and_errors() -> None:
    """As the code has them: a reader of the plain page sees no directive of Sphinx."""
    rows = calls_table(
        "```{eval-rst}\n.. autoclass:: featuregate.Discoverer\n\n   .. automethod:: refresh\n```\n"
    ).splitlines()
    (interval,) = (row for row in rows if row.startswith("| `Discoverer` | `interval` "))
    assert interval.startswith(
        "| `Discoverer` | `interval` | `float` | `60.0` | Seconds between polls of a quiet cluster;"
    )
    assert "| `Discoverer.refresh` | `RefreshTimedOut` | No poll has ended in time. |" in rows


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_errors_that_a_docstring_explains_are_rows_of_a_table(page: Path) -> None:
    """A sentence in other words, or without backticks, is none for the tables: they would lack the error."""
    calls = calls_of(page.read_text(encoding="utf-8"))
    texts = {call.name: RAISES.sub("", inspect.getdoc(call.found) or "") for call in calls}
    assert {each: text for each, text in texts.items() if re.search(r"\bRaises `?[A-Z]\w+(?!`?\.)\b", text)} == {}
