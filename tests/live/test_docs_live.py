"""Pages that consume and produce run as they stand, against real brokers in place of ``localhost:9092``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doc_pages import REAL, ROOT, parsed

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing import LocalKafka

pytestmark = pytest.mark.live


@pytest.mark.parametrize("page", REAL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_of_the_page_runs(
    kafka: LocalKafka, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What users copy works, in the order in which the page shows it."""
    monkeypatch.chdir(tmp_path)
    for example in parsed(page, kafka.bootstrap).examples():
        example.evaluate()
