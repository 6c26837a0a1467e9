"""The Python blocks of README and docs run as they stand, against a fake cluster in place of ``localhost:9092``."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import AS_IN, EVERY, PAGES, REAL, RELAY, ROOT, SPARK, name, own_text, parsed

from featuregate.testing import FakeCluster


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def quiet_root_logger() -> Iterator[None]:
    before = logging.root.handlers[:]
    yield
    logging.root.handlers[:] = before


@pytest.mark.usefixtures("in_a_folder_of_its_own", "quiet_root_logger")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in (*REAL, *RELAY, *SPARK)],
    ids=name,
)
def test_every_python_block_of_the_page_runs(page: Path) -> None:
    """What users copy works, in the order in which the page shows it."""
    with FakeCluster() as cluster:
        for example in parsed(page, cluster.bootstrap).examples():
            example.evaluate()


def test_the_tutorial_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """But for the ports, and for the id of the cluster."""
    page = ROOT / "docs/tutorial/first-gate.md"
    shown = re.findall(r"^```python\n.*?^```\n(?:\n```text\n(.*?)^```)?", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len([text for text in shown if text]) > 5
    for example, text in zip(parsed(page, "localhost:9092").examples(), shown, strict=True):
        example.evaluate()
        assert alike(capsys.readouterr().out) == alike(text)


def alike(output: str) -> str:
    return re.sub(r"cluster [\w-]{22}", "cluster ID", re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", output))


def test_no_python_block_is_passed_over() -> None:
    """A block under another name, or indented, would never run."""
    for page in PAGES:
        blocks = re.findall(r"^\s*(?:```|~~~|:::)\{?(?:code-block\} )?py", own_text(page), re.MULTILINE)
        assert len(blocks) == len(list(parsed(page, "localhost:9092").examples())), page


def test_a_part_of_an_example_is_as_the_example_has_it() -> None:
    """The page shows the code itself, because a code host shows no directive of Sphinx."""
    parts = [(page, part) for page in EVERY for part in AS_IN.finditer(page.read_text())]
    assert len(parts) >= 10
    for page, part in parts:
        assert part["code"] in (ROOT / part["file"]).read_text(), (page, part["file"])
    assert not [page for page in EVERY if "{literalinclude}" in page.read_text()]
