"""The pages whose Python blocks are run by tests, and how they are parsed."""

import re
from pathlib import Path

from sybil.document import Document
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]


def name(page: Path) -> str:
    """Return the path of a page in the repository, as the id of a test."""
    return str(page.relative_to(ROOT))


AS_IN = re.compile(r"<!-- as in (?P<file>\S+) -->\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block that shows a part of an example. Tests run the example, and compare the two."""


def own_text(page: Path) -> str:
    """Return the text of a page without the parts of examples; line numbers stay."""
    return AS_IN.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())


PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def python_of(text: str) -> str:
    lines = [""] * (text.count("\n") + 1)
    for block in PYTHON.finditer(text):
        first = text.count("\n", 0, block.start("code"))
        lines[first : first + block["code"].count("\n")] = block["code"].splitlines()
    return "\n".join(lines)


EVERY = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "_build" not in page.parts]
PAGES = [page for page in EVERY if "```python" in own_text(page)]
REAL = [
    page for page in PAGES if "<!-- the Python blocks of this page run against a real broker -->" in page.read_text()
]

SPARK = [
    page
    for page in PAGES
    if "<!-- the Python blocks of this page run against a real broker, with Spark -->" in page.read_text()
]
RELAY = [page for page in PAGES if "<!-- the Python blocks of this page run against a relay -->" in page.read_text()]


def parsed(page: Path, bootstrap: str, *, relay: str = "127.0.0.1:8080") -> Document:
    """Parse a page in which brokers are at ``bootstrap``, and a relay at ``relay``; line numbers stay."""
    text = own_text(page).replace("localhost:9092", bootstrap).replace("127.0.0.1:8080", relay)
    document = Document(text, str(page))
    for parser in (PythonCodeBlockParser(), SkipParser()):
        for region in parser(document):
            document.add(region)
    document.namespace["__name__"] = "page"
    return document
