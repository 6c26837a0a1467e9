"""The pages whose Python blocks are run by tests, and how they are parsed."""

from __future__ import annotations

from pathlib import Path

from sybil.document import Document
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in page.parts and "```python" in page.read_text()
]
REAL = [
    page for page in PAGES if "<!-- the Python blocks of this page run against a real broker -->" in page.read_text()
]

RELAY = [page for page in PAGES if "<!-- the Python blocks of this page run against a relay -->" in page.read_text()]


def parsed(page: Path, bootstrap: str, *, relay: str = "127.0.0.1:8080") -> Document:
    """Parse a page in which brokers are at ``bootstrap``, and a relay at ``relay``; line numbers stay."""
    text = page.read_text().replace("localhost:9092", bootstrap).replace("127.0.0.1:8080", relay)
    document = Document(text, str(page))
    for parser in (PythonCodeBlockParser(), SkipParser()):
        for region in parser(document):
            document.add(region)
    document.namespace["__name__"] = "page"
    return document
