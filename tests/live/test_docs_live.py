"""Pages that consume and produce run as they stand, against real brokers in place of ``localhost:9092``."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import REAL, ROOT, name, parsed
from waiting import BOUND

from featuregate.testing import LocalKafka

pytestmark = pytest.mark.live


@pytest.mark.parametrize("page", REAL, ids=name)
def test_every_python_block_of_the_page_runs(
    kafka: LocalKafka, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What users copy works, in the order in which the page shows it."""
    monkeypatch.chdir(tmp_path)
    for example in parsed(page, kafka.bootstrap).examples():
        example.evaluate()


@pytest.mark.proof("docs")
def test_the_script_that_the_readme_names_runs() -> None:
    """It stops with an error where a gate is not as it should be at a step of the upgrade."""
    (script,) = re.findall(r"`\.venv/bin/python (\S+)`", (ROOT / "README.md").read_text())
    ended = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=3 * BOUND, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "the features are finalized: newer-txn-apis OPEN, kip848 OPEN, kip890 OPEN" in ended.stdout
