"""The pages as text: code that fits on a screen, imports in each snippet, and every page in the menu."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import EVERY, ROOT, name, python_of

import featuregate as fg

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^(`{3,})\{?(?:code-block\} )?([\w-]*)[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
CODE = {"py", "python", "toml", "yaml", "properties", "ini", "json", "sql", "dockerfile", "scala"}
WIDTH = 88


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, text) for _, kind, text in BLOCK.findall(page.read_text())]


def typed(kind: str, text: str) -> list[str]:
    """Return the lines that a person writes; what a command prints is as wide as it is, and the page wraps it."""
    if kind == "console":
        return re.findall(r"^(?:\$ .*|    --.*)$", text, re.MULTILINE)
    return text.splitlines() if kind in CODE else []


@pytest.mark.parametrize("page", EVERY, ids=name)
def test_code_fits_on_a_screen(page: Path) -> None:
    """A page is as wide as 88 columns."""
    assert [line for kind, text in blocks(page) for line in typed(kind, text) if len(line) > WIDTH] == []


def modules_named(tree: ast.Module) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def bound(tree: ast.Module) -> set[str]:
    nodes = list(ast.walk(tree))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return stored | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("page", [page for page in EVERY if page.parent.name != "tutorial"], ids=name)
def test_each_snippet_imports_what_it_uses(page: Path) -> None:
    """People copy one block of a how-to. A tutorial is one session of Python, from its first line on."""
    imported: set[str] = set()
    for kind, text in blocks(page):
        if kind != "python":
            continue
        tree = ast.parse(text)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        own = modules_named(tree)
        assert sorted((used & imported) - own - bound(tree)) == []
        imported = (imported | own) - bound(tree)


@pytest.mark.parametrize("page", [page for page in EVERY if page.parent.name == "how-to"], ids=name)
def test_a_page_for_localhost_says_what_runs_there(page: Path) -> None:
    """The page says it before its first command or code, so that a reader who copies these has a cluster."""
    before, address, _ = page.read_text().partition("localhost:9092")
    assert not address or "`featuregate sandbox" in before


def test_the_python_of_pages_passes_pyflakes(tmp_path: Path) -> None:
    """All blocks of a page, one after another: a name that none of them defines fails whoever copies them."""
    for page in EVERY:
        (tmp_path / name(page).replace("/", " ")).with_suffix(".py").write_text(python_of(page.read_text()))
    assert pyflakes(tmp_path) == ""


def test_the_check_of_pages_sees_a_name_that_no_block_defines(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    (tmp_path / "page.py").write_text(python_of("```python\nprint(1)\n```\n\n```python\nprint(Mapping)\n```\n"))
    assert "page.py:6:7: F821" in pyflakes(tmp_path)


def pyflakes(folder: Path) -> str:
    """Return what is wrong, but for names that are imported again: a how-to is copied block by block."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F", "--ignore=F811", "--quiet"]
    told = subprocess.run([*command, "--output-format=concise", folder], capture_output=True, text=True, check=False)
    return told.stdout + told.stderr


def test_the_page_of_the_discoverer_has_all_that_apps_call() -> None:
    """It lists them in the order in which an app needs them; the rest is for gates and forks."""
    page = (DOCS / "reference/front-door.md").read_text()
    section = page.partition(".. autoclass:: featuregate.Discoverer")[2].partition("```")[0]
    listed = re.findall(r"\.\. auto(?:method|property):: (\w+)", section)
    public = {name for name in dir(fg.Discoverer) if not name.startswith("_")}
    assert {*listed, "ensure_polling", "wait_until", "forked"} == public
