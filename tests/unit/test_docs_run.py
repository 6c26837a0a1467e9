"""The Python blocks of README and docs run as they stand, against a fake cluster in place of ``localhost:9092``."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sybil.document import Document
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in page.parts and "```python" in page.read_text()
]


def parsed(page: Path, bootstrap: str) -> Document:
    """Parse a page in which brokers live at ``bootstrap``; line numbers stay those of the page."""
    document = Document(page.read_text().replace("localhost:9092", bootstrap), str(page))
    for parser in (PythonCodeBlockParser(), SkipParser()):
        for region in parser(document):
            document.add(region)
    return document


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages name files without leaving any behind."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def quiet_root_logger() -> Iterator[None]:
    """Take off the handlers that a page adds."""
    before = logging.root.handlers[:]
    yield
    logging.root.handlers[:] = before


@pytest.mark.usefixtures("in_a_folder_of_its_own", "quiet_root_logger")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_of_the_page_runs(page: Path) -> None:
    """What users copy works, in the order in which the page shows it."""
    with FakeCluster() as cluster:
        document = parsed(page, cluster.bootstrap)
        document.namespace["__name__"] = "page"
        for example in document.examples():
            example.evaluate()


def test_no_python_block_is_passed_over() -> None:
    """A block under another name, or indented, would never run."""
    for page in PAGES:
        blocks = re.findall(r"^\s*(?:```|~~~|:::)\{?(?:code-block\} )?python", page.read_text(), re.MULTILINE)
        assert len(blocks) == len(list(parsed(page, "localhost:9092").examples())), page
